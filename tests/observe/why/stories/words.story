== whose session ran out
stable w1 w2
restart
wait 46s w1
again w1
tell
    rebalance 3 stable, cause session-expired, triggered by w2, culprit w2
    The session of w2 ran out; the join barrier waited 3.0 s for w1; generation 2 was Stable after 3.0 s.
      22:15:05.001 the session of w2 (10.0.0.0) ran out; it was not heard of since the broker started 45.0 s before; its session.timeout.ms is 45 s.
      22:15:05.001 the join barrier opened, to wait for w1 at most 5 min.
      22:15:08.001 the join barrier closed after 3.0 s: w1 (10.0.0.9) came last.
      22:15:08.001 generation 2 began, led by w1 with range.
      22:15:08.021 w1 sent the assignments after 20 ms.
      22:15:08.021 the group was Stable with 1 member, 3.0 s after it began.
      6 partitions stood still, the longest for 48.0 s: 144.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > See whether w2 still runs: it ended while the broker was down or just after, or it does not reach the broker any more. If it was stopped on purpose there is nothing to mend.
accounts
    rebalance 3 stable: cause session-expired, triggered by w2, culprit w2
    stood 144120, the longest 48020, stopped 6, unowned 0
    trigger session-expired w2
    barrier join: 0 to 3000, nobody is missing
    barrier sync: 3000 to 3020, nobody is missing
    w1 stayed: 3 to 6, stood 60, blamed 0
    w2 expired: 3 to 0, stood 144060, blamed 144120
    advice

== who was heard of fell silent then
stable w1 w2
restart
wait 6s w1 w2
wait 46s w1
tell
    rebalance 3 running, cause session-expired, triggered by w2, culprit w2
    The session of w2 ran out; the rebalance is running and waits for w1.
      22:15:11.001 the session of w2 (10.0.0.0) ran out; it was last heard of 45.0 s before; its session.timeout.ms is 45 s.
      22:15:11.001 the join barrier opened, to wait for w1 at most 5 min.
      3 partitions stand still, the longest for 45.0 s: 135.0 partition-seconds in which nobody consumes, all of them on the account of w2.
      > See what keeps w1 from rejoining, which a member does when it calls poll(). If that takes long, hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. The others wait for it up to max.poll.interval.ms (300000 now).
accounts
    rebalance 3 running: cause session-expired, triggered by w2, culprit w2
    stood 135000, the longest 45000, stopped 3, unowned 0
    trigger session-expired w2
    barrier join: 0 to -1, nobody is missing
    w1 stayed: 3 to 0, stood 0, blamed 0
    w2 expired: 3 to 0, stood 135000, blamed 135000, last signs at [-45000]
    advice max.poll.interval.ms 300000

== who missed a barrier
new w1 w2 w3 poll_ms=20s
stable w1 w2
restart
join w3 w1
wait 21s w1 w3
sync w1 w3
tell
    rebalance 3 stable, cause member-joined, triggered by w3, culprit w2
    w2 held the join barrier up for 20.0 s and was dropped, after w3 joined; generation 2 was Stable after 21.0 s.
      22:14:20.001 w3 (10.0.0.1) joined.
      22:14:20.001 the join barrier opened, to wait for w2 at most 20 s.
      22:14:40.001 the join barrier ran out after 20.0 s, with w2 missing.
      22:14:40.001 w2 (10.0.0.0) did not rejoin in time and was dropped; it was not heard of since the broker started 20.0 s before.
      22:14:40.001 generation 2 began, led by w1 (10.0.0.9) with range.
      22:14:41.001 w1 sent the assignments after 1.0 s.
      22:14:41.001 the group was Stable with 2 members, 21.0 s after it began.
      6 partitions stood still, the longest for 21.0 s: 126.0 partition-seconds in which nobody consumed, 123.0 of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w3.
      > See whether w2 still runs: it ended while the broker was down or just after, or it does not reach the broker any more. If it was stopped on purpose there is nothing to mend.
accounts
    rebalance 3 stable: cause member-joined, triggered by w3, culprit w2
    stood 126000, the longest 21000, stopped 6, unowned 0
    trigger member-joined w3
    trigger join-barrier-missed w2
    barrier join: 0 to 20000, w2 is missing
    barrier sync: 20000 to 21000, nobody is missing
    w1 stayed: 3 to 3, stood 63000, blamed 0
    w2 dropped: 3 to 0, stood 63000, blamed 123000
    w3 new: 0 to 3, stood 0, blamed 3000
    advice

== many that crash
stable w1 w2 w3 w4 w5 w6 w7 w8 w9
disconnect w2
disconnect w3
disconnect w4
disconnect w5
disconnect w6
disconnect w7
disconnect w8
disconnect w9
wait 46s w1
again w1
tell
    rebalance 2 stable, cause session-expired-connection-lost, triggered by w2, w3, w4 and 5 others, culprit w2
    8 members crashed: their connections were lost and their sessions ran out (w2, w3, w4 and 5 others); the join barrier waited 3.0 s for w1; generation 2 was Stable after 3.0 s.
      22:15:05.001 8 members crashed: their connections were lost and their sessions ran out: w2, w3, w4 and 5 others.
      22:15:05.001 the join barrier opened, to wait for w1 at most 5 min.
      22:15:08.001 the join barrier closed after 3.0 s: w1 (10.0.0.9) came last.
      22:15:08.001 generation 2 began, led by w1 with range.
      22:15:08.021 w1 sent the assignments after 20 ms.
      22:15:08.021 the group was Stable with 1 member, 3.0 s after it began.
      6 partitions stood still, the longest for 48.0 s: 240.1 partition-seconds in which nobody consumed, 48.0 of them on the account of w2.
      5 partitions changed hands: 1 from w3 to w1, 1 from w4 to w1, 1 from w5 to w1, 1 from w6 to w1, 1 from w2 to w1.
      > Find out why w2 ended without leaving. Let it call close() when it is stopped; a lower session.timeout.ms (45000 now) lets the group notice a crash sooner.
accounts
    rebalance 2 stable: cause session-expired-connection-lost, triggered by w2, w3, w4 and 5 others, culprit w2
    stood 240120, the longest 48020, stopped 6, unowned 0
    trigger session-expired-connection-lost w2
    trigger session-expired-connection-lost w3
    trigger session-expired-connection-lost w4
    trigger session-expired-connection-lost w5
    trigger session-expired-connection-lost w6
    trigger session-expired-connection-lost w7
    trigger session-expired-connection-lost w8
    trigger session-expired-connection-lost w9
    barrier join: 0 to 3000, nobody is missing
    barrier sync: 3000 to 3020, nobody is missing
    w1 stayed: 1 to 6, stood 20, blamed 0
    w3 expired: 1 to 0, stood 48020, blamed 48020, last signs at [-45000, -45000]
    w4 expired: 1 to 0, stood 48020, blamed 48020, last signs at [-45000, -45000]
    w5 expired: 1 to 0, stood 48020, blamed 48020, last signs at [-45000, -45000]
    w6 expired: 1 to 0, stood 48020, blamed 48020, last signs at [-45000, -45000]
    w7 expired: 0 to 0, stood 0, blamed 0, last signs at [-45000, -45000]
    w8 expired: 0 to 0, stood 0, blamed 0, last signs at [-45000, -45000]
    w9 expired: 0 to 0, stood 0, blamed 0, last signs at [-45000, -45000]
    w2 expired: 1 to 0, stood 48020, blamed 48040, last signs at [-45000, -45000]
    advice session.timeout.ms 45000

== many that own nothing
stable w1 w2 w3 w4 w5 w6 w7 w8 w9
tell
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 8 members joined: w2, w3, w4 and 5 others.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 9 members, 1 ms after it began.
      6 partitions were handed out: 1 to w1, 1 to w2, 1 to w3, 1 to w4, 1 to w5 and 1 more. 3 of 9 members own nothing: there are only 6 partitions.

== a few are told one by one
stable w1 w2 w3
tell
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 w3 (10.0.0.1) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 3 members, 1 ms after it began.
      6 partitions were handed out: 2 to w1, 2 to w2, 2 to w3.
