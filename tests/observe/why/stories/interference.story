== a session that ran out since a fault dropped the heartbeats
stable w1 w2
interfere w2 Heartbeat "dropped the request"
wait 30s w1
interfere w2 Heartbeat "dropped the request"
disconnect w2
wait 16s w1
again w1
tell
    rebalance 2 stable, cause session-expired-connection-lost, triggered by w2, culprit w2
    w2 crashed: its connection was lost and its session ran out; the join barrier waited 3.0 s for w1; a fault dropped the Heartbeat of w2; generation 2 was Stable after 3.0 s.
      22:14:20.001 a fault dropped the Heartbeat of w2 (fault "deaf"), 2 times until 22:14:50.001.
      22:15:05.001 w2 (10.0.0.0) crashed: its connection was lost and its session ran out; the connection was lost 15.0 s before; it was last heard of 45.0 s before; its session.timeout.ms is 45 s.
      22:15:05.001 the join barrier opened, to wait for w1 at most 5 min.
      22:15:08.001 the join barrier closed after 3.0 s: w1 (10.0.0.9) came last.
      22:15:08.001 generation 2 began, led by w1 with range.
      22:15:08.021 w1 sent the assignments after 20 ms.
      22:15:08.021 the group was Stable with 1 member, 3.0 s after it began.
      6 partitions stood still, the longest for 18.0 s: 54.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.

== a heartbeat that a fault answered with an error, and what is before the rebalance
stable w1 w2
interfere w2 Heartbeat "answered UNKNOWN_MEMBER_ID, and nothing was done" fault=forgetful
forget w2
disconnect w2
wait 50s w1
again w1
tell
    rebalance 2 stable, cause session-expired-silent, triggered by w2, culprit w2
    w2 fell silent with its connection open, and its session ran out; the join barrier waited 7.0 s for w1; at the Heartbeat of w2 a fault answered UNKNOWN_MEMBER_ID, and nothing was done; generation 2 was Stable after 7.0 s.
      22:14:20.001 at the Heartbeat of w2 a fault answered UNKNOWN_MEMBER_ID, and nothing was done (fault "forgetful").
      22:15:05.001 w2 (10.0.0.0) fell silent with its connection open, and its session ran out; it was last heard of 45.0 s before; its session.timeout.ms is 45 s.
      22:15:05.001 the join barrier opened, to wait for w1 at most 5 min.
      22:15:12.001 the join barrier closed after 7.0 s: w1 (10.0.0.9) came last.
      22:15:12.001 generation 2 began, led by w1 with range.
      22:15:12.021 w1 sent the assignments after 20 ms.
      22:15:12.021 the group was Stable with 1 member, 7.0 s after it began.
      6 partitions stood still, the longest for 52.0 s: 156.1 partition-seconds in which nobody consumed, 135.1 of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.

== a crash is a crash, though a fault had hit the same member before
stable w1 w2
interfere w2 Heartbeat "delayed the request by 1 s"
wait 20s w1 w2
disconnect w2
wait 46s w1
again w1
tell
    rebalance 2 stable, cause session-expired-connection-lost, triggered by w2, culprit w2
    w2 crashed: its connection was lost and its session ran out; the join barrier waited 3.0 s for w1; generation 2 was Stable after 3.0 s.
      22:15:25.001 w2 (10.0.0.0) crashed: its connection was lost and its session ran out; the connection was lost 45.0 s before; it was last heard of 45.0 s before; its session.timeout.ms is 45 s.
      22:15:25.001 the join barrier opened, to wait for w1 at most 5 min.
      22:15:28.001 the join barrier closed after 3.0 s: w1 (10.0.0.9) came last.
      22:15:28.001 generation 2 began, led by w1 with range.
      22:15:28.021 w1 sent the assignments after 20 ms.
      22:15:28.021 the group was Stable with 1 member, 3.0 s after it began.
      6 partitions stood still, the longest for 48.0 s: 144.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > Find out why w2 ended without leaving. Let it call close() when it is stopped; a lower session.timeout.ms (45000 now) lets the group notice a crash sooner.

== an answer to SyncGroup is part of the rebalance that it ends, and of the next that its member begins
stable w1 w2
join w3
again w1 w2
sync w3
interfere w3 SyncGroup "dropped the answer" fault="lost answer"
tell
    rebalance 2 stable, cause member-joined, triggered by w3, culprit w3
    w3 joined; the join barrier waited 2.0 s for w2; generation 2 was Stable after 2.0 s.
      22:14:20.001 w3 (10.0.0.1) joined.
      22:14:20.001 the join barrier opened, to wait for w1 and w2 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:22.001 generation 2 began, led by w1 (10.0.0.9) with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 3 members, 2.0 s after it began.
      22:14:22.031 a fault dropped the answer to SyncGroup of w3 (fault "lost answer").
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      4 partitions changed hands: 1 from w1 to w2, 1 from w1 to w3, 1 from w2 to w1, 1 from w2 to w3.
wait 45s w1 w2
again w1 w2
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause member-joined, triggered by w3, culprit w3
    w3 joined; the join barrier waited 2.0 s for w2; generation 2 was Stable after 2.0 s.
      22:14:20.001 w3 (10.0.0.1) joined.
      22:14:20.001 the join barrier opened, to wait for w1 and w2 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:22.001 generation 2 began, led by w1 (10.0.0.9) with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 3 members, 2.0 s after it began.
      22:14:22.031 a fault dropped the answer to SyncGroup of w3 (fault "lost answer").
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      4 partitions changed hands: 1 from w1 to w2, 1 from w1 to w3, 1 from w2 to w1, 1 from w2 to w3.
    rebalance 3 stable, cause session-expired-silent, triggered by w3, culprit w3
    w3 fell silent with its connection open, and its session ran out; the join barrier waited 2.0 s for w2; a fault dropped the answer to SyncGroup of w3; generation 3 was Stable after 2.0 s.
      22:14:22.031 a fault dropped the answer to SyncGroup of w3 (fault "lost answer").
      22:15:07.001 w3 (10.0.0.1) fell silent with its connection open, and its session ran out; it was last heard of 45.0 s before; its session.timeout.ms is 45 s.
      22:15:07.001 the join barrier opened, to wait for w1 and w2 at most 5 min.
      22:15:09.031 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:15:09.031 generation 3 began, led by w1 (10.0.0.9) with range.
      22:15:09.051 w1 sent the assignments after 20 ms.
      22:15:09.051 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 47.0 s: 94.1 partition-seconds in which nobody consumed, all of them on the account of w3.
      4 partitions changed hands: 1 from w1 to w2, 1 from w2 to w1, 1 from w3 to w1, 1 from w3 to w2.

== a member that was waited for since a fault held its request
stable w1 w2
join w3
wait 1s w1 w2
join w1
interfere w2 JoinGroup "held the request"
wait 9s w1 w3
tell
    rebalance 2 running, cause member-joined, triggered by w3, culprit w2
    w3 joined; a fault held the JoinGroup of w2; the rebalance is running and waits for w2.
      22:14:20.001 w3 (10.0.0.1) joined.
      22:14:20.001 the join barrier opened, to wait for w1 and w2 at most 5 min.
      22:14:21.001 a fault held the JoinGroup of w2 (fault "deaf").
      3 partitions stand still, the longest for 9.0 s: 27.0 partition-seconds in which nobody consumes, all of them on the account of w2.
interfere w2 JoinGroup "let the request go"
join w2
sync w1 w2 w3
tell
    rebalance 2 stable, cause member-joined, triggered by w3, culprit w2
    w3 joined; the join barrier waited 10.0 s for w2; a fault held the JoinGroup of w2; generation 2 was Stable after 10.0 s.
      22:14:20.001 w3 (10.0.0.1) joined.
      22:14:20.001 the join barrier opened, to wait for w1 and w2 at most 5 min.
      22:14:21.001 a fault held the JoinGroup of w2 (fault "deaf").
      22:14:30.001 a fault let the JoinGroup of w2 go (fault "deaf").
      22:14:30.001 the join barrier closed after 10.0 s: w2 (10.0.0.0) came last.
      22:14:30.001 generation 2 began, led by w1 (10.0.0.9) with range.
      22:14:30.001 w1 sent the assignments after 0 ms.
      22:14:30.001 the group was Stable with 3 members, 10.0 s after it began.
      3 partitions stood still, the longest for 9.0 s: 27.0 partition-seconds in which nobody consumed, all of them on the account of w2.
      4 partitions changed hands: 1 from w1 to w2, 1 from w1 to w3, 1 from w2 to w1, 1 from w2 to w3.

== who joins late explains itself, the fault is in its story
stable w1
interfere w2 JoinGroup "dropped the request"
wait 5s w1
join w2
again w1
sync w2
tell
    rebalance 2 stable, cause member-joined, triggered by w2, culprit w2
    w2 joined; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:14:20.001 a fault dropped the JoinGroup of w2 (fault "deaf").
      22:14:25.001 w2 (10.0.0.0) joined.
      22:14:25.001 the join barrier opened, to wait for w1 at most 5 min.
      22:14:27.001 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:27.001 generation 2 began, led by w1 with range.
      22:14:27.021 w1 sent the assignments after 20 ms.
      22:14:27.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      3 partitions changed hands: 3 from w1 to w2.

== the broker gave the group up, as a fault had it
stable w1 w2
interfere w2 Heartbeat "moved the coordinator away"
unload
tell
    stopped 2 dead, cause coordinator-moved, no culprit
    The broker stopped or gave the group up; at the Heartbeat of w2 a fault moved the coordinator away.
      22:14:20.001 at the Heartbeat of w2 a fault moved the coordinator away (fault "deaf").
      22:14:20.001 the broker stopped or gave the group up.

== what happened since is told with the last rebalance
stable w1 w2
interfere w2 OffsetCommit "put NOT_COORDINATOR in the place of the answer"
wait 1s w1 w2
interfere w2 OffsetCommit "put NOT_COORDINATOR in the place of the answer"
pause
tell
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      22:14:20.001 a fault put NOT_COORDINATOR in the place of the answer to OffsetCommit of w2 (fault "deaf"), 2 times until 22:14:21.001.
      22:14:21.001 the group was paused, and still was when this was told: no session and no barrier ran meanwhile.
      6 partitions were handed out: 3 to w1, 3 to w2.

== a pause: sessions have as much time left as they had, and nobody was late
stable w1 w2
join w3
wait 1s w1 w2
pause
wait 20s w1 w2 w3
accounts
    rebalance 2 running: cause member-joined, triggered by w3, no culprit
    stood 0, the longest 0, stopped 0, unowned 0
    trigger member-joined w3
    barrier join: 0 to -1, nobody is missing
    w1 stayed: 3 to 0, stood 0, blamed 0
    w2 stayed: 3 to 0, stood 0, blamed 0
    w3 new: 0 to 0, stood 0, blamed 0
    advice max.poll.interval.ms 300000
wait 40s w1 w2 w3
resume
join w1 w2
sync w1 w2 w3
tell
    rebalance 2 stable, cause member-joined, triggered by w3, culprit w3
    w3 joined; the join barrier waited 61.0 s for w2; generation 2 was Stable after 61.0 s.
      22:14:20.001 w3 (10.0.0.1) joined.
      22:14:20.001 the join barrier opened, to wait for w1 and w2 at most 6 min.
      22:14:21.001 the group was paused until 22:15:21.001, for 60.0 s: no session and no barrier ran meanwhile.
      22:15:21.001 the join barrier closed after 61.0 s: w2 (10.0.0.0) came last.
      22:15:21.001 generation 2 began, led by w1 (10.0.0.9) with range.
      22:15:21.001 w1 sent the assignments after 0 ms.
      22:15:21.001 the group was Stable with 3 members, 61.0 s after it began.
      No partition is known to have stood still.
      4 partitions changed hands: 1 from w1 to w2, 1 from w1 to w3, 1 from w2 to w1, 1 from w2 to w3.

== a session that ran out late, as the group was paused meanwhile
stable w1 w2
disconnect w2
wait 10s w1
pause
wait 60s w1
resume
wait 40s w1
again w1
tell
    rebalance 2 stable, cause session-expired-connection-lost, triggered by w2, culprit w2
    w2 crashed: its connection was lost and its session ran out; the join barrier waited 7.0 s for w1; generation 2 was Stable after 7.0 s.
      22:14:30.001 the group was paused until 22:15:30.001, for 60.0 s: no session and no barrier ran meanwhile.
      22:16:05.001 w2 (10.0.0.0) crashed: its connection was lost and its session ran out; the connection was lost 105.0 s before; it was last heard of 105.0 s before; its session.timeout.ms is 45 s.
      22:16:05.001 the join barrier opened, to wait for w1 at most 5 min.
      22:16:12.001 the join barrier closed after 7.0 s: w1 (10.0.0.9) came last.
      22:16:12.001 generation 2 began, led by w1 with range.
      22:16:12.021 w1 sent the assignments after 20 ms.
      22:16:12.021 the group was Stable with 1 member, 7.0 s after it began.
      6 partitions stood still, the longest for 112.0 s: 336.1 partition-seconds in which nobody consumed, 315.1 of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > Find out why w2 ended without leaving. Let it call close() when it is stopped; a lower session.timeout.ms (45000 now) lets the group notice a crash sooner.
