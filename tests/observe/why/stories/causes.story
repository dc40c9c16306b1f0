== group started
# cause group-started
setup group_initial_rebalance_delay_ms=3s
join w1
wait 500ms
join w2
wait 6s
sync w1 w2
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 6.5 s.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 the group waited 6 s for others to start, too.
      22:13:20.500 w2 (10.0.0.0) joined.
      22:13:26.000 generation 1 began, led by w1 with range.
      22:13:26.500 w1 sent the assignments after 500 ms.
      22:13:26.500 the group was Stable with 2 members, 6.5 s after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
      > A new group waits for group.initial.rebalance.delay.ms (3000 now) so that its members start together; set it to 0 where that does not matter, as in tests.

== member joined
# cause member-joined, culprit w3
stable w1 w2
join w3
again w1 w2
sync w3
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
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      4 partitions changed hands: 1 from w1 to w2, 1 from w1 to w3, 1 from w2 to w1, 1 from w2 to w3.

== static member joined
# cause static-member-joined, culprit w3
stable w1 w2
new w3 instance=i3
join w3
again w1 w2
sync w3
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause static-member-joined, triggered by i3, culprit i3
    i3 joined, for the first time under this group.instance.id; the join barrier waited 2.0 s for w2; generation 2 was Stable after 2.0 s.
      22:14:20.001 i3 (10.0.0.1) joined, for the first time under this group.instance.id.
      22:14:20.001 the join barrier opened, to wait for w1 and w2 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:22.001 generation 2 began, led by w1 (10.0.0.9) with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 3 members, 2.0 s after it began.
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      4 partitions changed hands: 1 from w1 to w2, 1 from w1 to i3, 1 from w2 to w1, 1 from w2 to i3.

== member returned
# cause member-returned, culprit w2
stable w1 w2
leave w2 reason="the consumer is being closed"
again w1
wait 8s w1
new w2
join w2
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause left-closed, triggered by w2, culprit w2
    w2 was closed; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:14:20.001 w2 (10.0.0.0) was closed; it said "the consumer is being closed".
      22:14:20.001 the join barrier opened, to wait for w1 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 1 member, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > If w2 is restarted, not stopped for good: give each member a group.instance.id of its own (not set now), so that it comes back within session.timeout.ms (45000 now) without a rebalance.
    rebalance 3 stable, cause member-returned, triggered by w2, culprit w2
    w2 came back, 10.0 s after it was closed; the join barrier waited 2.0 s for w1; generation 3 was Stable after 2.0 s.
      22:14:30.031 w2 (10.0.0.0) came back; 10.0 s earlier it was closed.
      22:14:30.031 the join barrier opened, to wait for w1 at most 5 min.
      22:14:32.031 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:32.031 generation 3 began, led by w1 with range.
      22:14:32.051 w1 sent the assignments after 20 ms.
      22:14:32.051 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      3 partitions changed hands: 3 from w1 to w2.
      > If w2 is restarted, not stopped for good: give each member a group.instance.id of its own (not set now), so that it comes back within session.timeout.ms (45000 now) without a rebalance.

== left closed
# cause left-closed, culprit w2
stable w1 w2
leave w2 reason="the consumer is being closed"
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause left-closed, triggered by w2, culprit w2
    w2 was closed; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:14:20.001 w2 (10.0.0.0) was closed; it said "the consumer is being closed".
      22:14:20.001 the join barrier opened, to wait for w1 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 1 member, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > If w2 is restarted, not stopped for good: give each member a group.instance.id of its own (not set now), so that it comes back within session.timeout.ms (45000 now) without a rebalance.

== left and disconnected
# cause left-closed, culprit w2
# librdkafka, aiokafka: no reason, and the connection is closed right afterwards.
stable w1 w2
leave w2 version=1
wait 30ms
disconnect w2
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause left-closed, triggered by w2, culprit w2
    w2 was closed; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:14:20.001 w2 (10.0.0.0) was closed; it gave no reason, but its connection was closed 30 ms later.
      22:14:20.001 the join barrier opened, to wait for w1 at most 5 min.
      22:14:22.031 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:22.031 generation 2 began, led by w1 with range.
      22:14:22.051 w1 sent the assignments after 20 ms.
      22:14:22.051 the group was Stable with 1 member, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.2 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > If w2 is restarted, not stopped for good: give each member a group.instance.id of its own (not set now), so that it comes back within session.timeout.ms (45000 now) without a rebalance.

== left poll timeout
# cause left-poll-timeout, culprit w2
stable w1 w2
leave w2 reason="consumer poll timeout has expired."
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause left-poll-timeout, triggered by w2, culprit w2
    w2 left, since its application had not called poll() in time; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:14:20.001 w2 (10.0.0.0) left, since its application had not called poll() in time; its max.poll.interval.ms is 5 min; it said "consumer poll timeout has expired".
      22:14:20.001 the join barrier opened, to wait for w1 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 1 member, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > Let w2 call poll() more often: hand it fewer records at a time with max.poll.records, or do long work outside of the poll loop; raise max.poll.interval.ms (300000 now) only if its work really takes so long.

== left poll timeout unsaid
# cause left-poll-timeout, culprit w2
# aiokafka, librdkafka, kafka-python: no reason, but the connection stays and the time is right.
new w2 poll_ms=30s
start w1 w2
wait 30400ms w1 w2
leave w2 version=1
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause left-poll-timeout, triggered by w2, culprit w2
    w2 left, since its application had not called poll() in time; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:13:50.401 w2 (10.0.0.0) left, since its application had not called poll() in time; it gave no reason, but its connection stayed open and its application had shown no sign of life for 30.4 s; its max.poll.interval.ms is 30 s.
      22:13:50.401 the join barrier opened, to wait for w1 at most 5 min.
      22:13:52.401 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:13:52.401 generation 2 began, led by w1 with range.
      22:13:52.421 w1 sent the assignments after 20 ms.
      22:13:52.421 the group was Stable with 1 member, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > Let w2 call poll() more often: hand it fewer records at a time with max.poll.records, or do long work outside of the poll loop; raise max.poll.interval.ms (30000 now) only if its work really takes so long.

== left without reason
# cause left-without-reason, culprit w2
stable w1 w2
leave w2 version=1
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause left-without-reason, triggered by w2, culprit w2
    w2 left without saying why; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:14:20.001 w2 (10.0.0.0) left without saying why.
      22:14:20.001 the join barrier opened, to wait for w1 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 1 member, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > If w2 is restarted, not stopped for good: give each member a group.instance.id of its own (not set now), so that it comes back within session.timeout.ms (45000 now) without a rebalance.

== left unsubscribed
# cause left-unsubscribed, culprit w2
stable w1 w2
leave w2 reason="the consumer unsubscribed from all topics"
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause left-unsubscribed, triggered by w2, culprit w2
    w2 unsubscribed from all topics; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:14:20.001 w2 (10.0.0.0) unsubscribed from all topics; it said "the consumer unsubscribed from all topics".
      22:14:20.001 the join barrier opened, to wait for w1 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 1 member, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.

== left with reason
# cause left-with-reason, culprit w2
stable w1 w2
leave w2 reason="making room for the batch run"
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause left-with-reason, triggered by w2, culprit w2
    w2 left; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:14:20.001 w2 (10.0.0.0) left; it said "making room for the batch run".
      22:14:20.001 the join barrier opened, to wait for w1 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 1 member, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > If w2 is restarted, not stopped for good: give each member a group.instance.id of its own (not set now), so that it comes back within session.timeout.ms (45000 now) without a rebalance.

== removed by admin
# cause removed-by-admin
stable w1 w2
leave w2 reason="member was removed by an admin: on call" by=adminclient-1
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause removed-by-admin, triggered by w2, no culprit
    w2 was removed by an administrator; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:14:20.001 w2 (10.0.0.0) was removed by an administrator; the request came from adminclient-1 at 10.0.0.9; the reason given was "member was removed by an admin: on call".
      22:14:20.001 the join barrier opened, to wait for w1 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 1 member, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed.
      3 partitions changed hands: 3 from w2 to w1.

== crashed
# cause session-expired-connection-lost, culprit w2
stable w1 w2
wait 1s
disconnect w2
wait 45s w1
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause session-expired-connection-lost, triggered by w2, culprit w2
    w2 crashed: its connection was lost and its session ran out; the join barrier waited 3.0 s for w1; generation 2 was Stable after 3.0 s.
      22:15:05.001 w2 (10.0.0.0) crashed: its connection was lost and its session ran out; the connection was lost 44.0 s before; it was last heard of 45.0 s before; its session.timeout.ms is 45 s.
      22:15:05.001 the join barrier opened, to wait for w1 at most 5 min.
      22:15:08.001 the join barrier closed after 3.0 s: w1 (10.0.0.9) came last.
      22:15:08.001 generation 2 began, led by w1 with range.
      22:15:08.021 w1 sent the assignments after 20 ms.
      22:15:08.021 the group was Stable with 1 member, 3.0 s after it began.
      6 partitions stood still, the longest for 47.0 s: 141.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > Find out why w2 ended without leaving. Let it call close() when it is stopped; a lower session.timeout.ms (45000 now) lets the group notice a crash sooner.

== frozen
# cause session-expired-silent, culprit w2
stable w1 w2
wait 46s w1
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause session-expired-silent, triggered by w2, culprit w2
    w2 fell silent with its connection open, and its session ran out; the join barrier waited 3.0 s for w1; generation 2 was Stable after 3.0 s.
      22:15:05.001 w2 (10.0.0.0) fell silent with its connection open, and its session ran out; it was last heard of 45.0 s before; its session.timeout.ms is 45 s.
      22:15:05.001 the join barrier opened, to wait for w1 at most 5 min.
      22:15:08.001 the join barrier closed after 3.0 s: w1 (10.0.0.9) came last.
      22:15:08.001 generation 2 began, led by w1 with range.
      22:15:08.021 w1 sent the assignments after 20 ms.
      22:15:08.021 the group was Stable with 1 member, 3.0 s after it began.
      6 partitions stood still, the longest for 48.0 s: 144.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > Look for pauses of w2: garbage collection, a stopped container, a blocked event loop, too little CPU. If such pauses are normal, raise session.timeout.ms (45000 now).

== expired after a load
# cause session-expired, culprit w2
# The log does not say whether a member has a connection.
stable w1 w2
restart
wait 46s w1
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    loaded 2 loaded, cause coordinator-loaded, no culprit
    The broker took the group over and read it from its log.
      22:14:20.001 the broker took the group over and read it from its log; it has 2 members and was at generation 1.
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

== new member expired
# cause new-member-expired, culprit w2, began by member-joined
new w1 w2 w3 poll_ms=10m
start w1 w2
wait 1m w1 w2
join w3
join w1
wait 301s w2
join w2
wait 20ms
sync w1 w2
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause member-joined, triggered by w3, culprit w2
    w3 joined; the join barrier waited 5 min 1 s for w2; generation 2 was Stable after 5 min 1 s.
      22:14:20.001 w3 (10.0.0.1) joined.
      22:14:20.001 the join barrier opened, to wait for w2 at most 10 min.
      22:19:20.001 w3 joined and was not in a generation within five minutes, so it was removed.
      22:19:21.001 the join barrier closed after 5 min 1 s: w2 (10.0.0.0) came last.
      22:19:21.001 generation 2 began, led by w1 (10.0.0.9) with range.
      22:19:21.021 w1 sent the assignments after 20 ms.
      22:19:21.021 the group was Stable with 2 members, 5 min 1 s after it began.
      6 partitions stood still, the longest for 5 min 1 s: 903.1 partition-seconds in which nobody consumed, 903.0 of them on the account of w2.
      > w2 took 5 min 1 s to rejoin, which a member does when it calls poll(). Let it poll more often: hand it fewer records at a time with max.poll.records. The others wait for it up to max.poll.interval.ms (600000 now).

== poll loop busy
# cause join-barrier-missed, culprit w2, began by member-joined
new w2 w1 w3 poll_ms=1m
stable w1 w2
join w3
wait 2s w1 w2
join w1
wait 59s w2
sync w1 w3
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause member-joined, triggered by w3, culprit w2
    w2 held the join barrier up for 60.0 s and was dropped, after w3 joined; generation 2 was Stable after 61.0 s.
      22:14:20.001 w3 (10.0.0.1) joined.
      22:14:20.001 the join barrier opened, to wait for w1 and w2 at most 60 s.
      22:15:20.001 the join barrier ran out after 60.0 s, with w2 missing.
      22:15:20.001 w2 (10.0.0.0) did not rejoin in time and was dropped; it was heard of 1.0 s before, so its process lived and its application was busy or blocked.
      22:15:20.001 generation 2 began, led by w1 (10.0.0.9) with range.
      22:15:21.001 w1 sent the assignments after 1.0 s.
      22:15:21.001 the group was Stable with 2 members, 61.0 s after it began.
      6 partitions stood still, the longest for 59.0 s: 183.0 partition-seconds in which nobody consumed, 180.0 of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w3.
      > Let w2 call poll() more often: hand it fewer records at a time with max.poll.records, or do long work outside of the poll loop; raise max.poll.interval.ms (60000 now) only if its work really takes so long.

== issued id unused
# cause issued-id-unused, culprit ghost, began by member-joined
stable w1 w2
new ghost session_ms=10s
join-once ghost
join w3
join w1 w2
wait 11s
sync w1 w2 w3
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause member-joined, triggered by w3, culprit ghost
    w3 joined; the join barrier waited 10.0 s for ghost; generation 2 was Stable after 11.0 s.
      22:14:20.001 w3 (10.0.0.1) joined.
      22:14:20.001 the join barrier opened, to wait for ghost at most 5 min.
      22:14:30.001 ghost (10.0.0.6) was given a member id and never came back with it.
      22:14:30.001 the join barrier closed after 10.0 s: ghost was waited for until then.
      22:14:30.001 generation 2 began, led by w1 (10.0.0.9) with range.
      22:14:31.001 w1 sent the assignments after 1.0 s.
      22:14:31.001 the group was Stable with 3 members, 11.0 s after it began.
      6 partitions stood still, the longest for 11.0 s: 66.0 partition-seconds in which nobody consumed, 60.0 of them on the account of ghost.
      4 partitions changed hands: 1 from w1 to w2, 1 from w1 to w3, 1 from w2 to w1, 1 from w2 to w3.
      > See why ghost asked to join and went away before it could: it is restarted at once, or gives up too early. Its id is awaited for its session.timeout.ms.

== issued id left
# cause issued-id-left, culprit ghost
stable w1 w2
join-once ghost
leave ghost reason="the consumer is being closed"
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
    rebalance 2 stable, cause issued-id-left, triggered by ghost, culprit ghost
    ghost gave back the member id that it had been given, before it had joined with it; the join barrier waited 2.0 s for w2; generation 2 was Stable after 2.0 s.
      22:14:20.001 ghost (10.0.0.6) gave back the member id that it had been given, before it had joined with it; it said "the consumer is being closed".
      22:14:20.001 the join barrier opened, to wait for w1 and w2 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:22.001 generation 2 began, led by w1 (10.0.0.9) with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.

== nobody rejoined
# cause nobody-rejoined, culprit w1, began by left-closed
new w1 instance=i1 poll_ms=10s
new w2 instance=i2 poll_ms=10s
new w3 poll_ms=10s
stable w1 w2 w3
leave w3 reason="the consumer is being closed"
wait 12s w1 w2
start w1 w2 after_ms=20ms
tell all
    rebalance 1 stable, cause group-started, triggered by i1, no culprit
    i1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 i1 (10.0.0.9) started the group.
      22:13:20.000 i2 (10.0.0.0) joined, for the first time under this group.instance.id.
      22:13:20.000 w3 (10.0.0.1) joined.
      22:13:20.000 generation 1 began, led by i1 with range.
      22:13:20.001 i1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 3 members, 1 ms after it began.
      6 partitions were handed out: 2 to i1, 2 to i2, 2 to w3.
    rebalance 2 stable, cause left-closed, triggered by w3, culprit i1
    w3 was closed; the join barrier waited 10.0 s for i1 and i2; generation 2 was Stable after 12.0 s.
      22:14:20.001 w3 (10.0.0.1) was closed; it said "the consumer is being closed".
      22:14:20.001 the join barrier opened, to wait for i1 and i2 at most 10 s.
      22:14:30.001 no member rejoined in time.
      22:14:30.001 the join barrier opened, to wait for i1 and i2 at most 10 s.
      22:14:30.001 the join barrier ran out after 10.0 s without i1 (10.0.0.9) and i2 (10.0.0.0), which are static and stay members.
      22:14:32.001 the join barrier closed after 2.0 s: i2 came last.
      22:14:32.001 generation 2 began, led by i1 with range.
      22:14:32.021 i1 sent the assignments after 20 ms.
      22:14:32.021 the group was Stable with 2 members, 12.0 s after it began.
      6 partitions stood still, the longest for 12.0 s: 24.1 partition-seconds in which nobody consumed, 12.0 of them on the account of i1.
      4 partitions changed hands: 1 from i1 to i2, 1 from i2 to i1, 1 from w3 to i1, 1 from w3 to i2.
      > See what keeps all members from calling poll(): none rejoined within max.poll.interval.ms (10000 now). As static members they stay in the group until their session.timeout.ms is over.

== subscription changed
# cause subscription-changed, culprit w2
setup partitions=orders:4+refunds:2
stable w1 w2
change w2 topics=orders+refunds
join w2 reason="subscription has changed"
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      4 partitions were handed out: 2 to w1, 2 to w2.
    rebalance 2 stable, cause subscription-changed, triggered by w2, culprit w2
    w2 changed its subscription; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:14:20.001 w2 (10.0.0.0) changed its subscription; it subscribed to refunds; it said "subscription has changed".
      22:14:20.001 the join barrier opened, to wait for w1 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 2 members, 2.0 s after it began.
      4 partitions stood still, the longest for 2.0 s: 4.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      2 partitions were handed out: 2 to w2.
      > Let all members of a group subscribe to the same topics, and change that in all of them at once: each member that changes its subscription is a rebalance of its own.

== assignors changed
# cause assignor-list-changed, culprit w2
stable w1 w2
change w2 assignors=range+roundrobin
join w2
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause assignor-list-changed, triggered by w2, culprit w2
    w2 changed its list of assignors; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:14:20.001 w2 (10.0.0.0) changed its list of assignors; it had range and has range, roundrobin now.
      22:14:20.001 the join barrier opened, to wait for w1 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      > Give all members the same partition.assignment.strategy; to change it, first add the new one to all members, then remove the old one.

== cooperative follow up
# cause cooperative-follow-up
new w1 w2 w3 assignors=cooperative-sticky
stable w1 w2
join w3
again w1 w2
sync w3
join w2 reason="need to revoke partitions and re-join"
again w1 w3
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with cooperative-sticky.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause member-joined, triggered by w3, culprit w3
    w3 joined; the join barrier waited 2.0 s for w2; generation 2 was Stable after 2.0 s.
      22:14:20.001 w3 (10.0.0.1) joined.
      22:14:20.001 the join barrier opened, to wait for w1 and w2 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:22.001 generation 2 began, led by w1 (10.0.0.9) with cooperative-sticky.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 3 members, 2.0 s after it began.
      No partition is known to have stood still; 4 partitions have no owner and stand still afterwards.
      4 partitions changed hands: 2 from w1 to nobody, 2 from w2 to nobody.
    rebalance 3 stable, cause cooperative-follow-up, triggered by w2, no culprit
    w2 gave up partitions, as its last assignment told it, and rejoined; the join barrier waited 2.0 s for w3; generation 3 was Stable after 2.0 s.
      22:14:22.031 w2 (10.0.0.0) gave up partitions, as its last assignment told it, and rejoined; it said "need to revoke partitions and re-join".
      22:14:22.031 the join barrier opened, to wait for w1 and w3 at most 5 min.
      22:14:24.031 the join barrier closed after 2.0 s: w3 (10.0.0.1) came last.
      22:14:24.031 generation 3 began, led by w1 (10.0.0.9) with cooperative-sticky.
      22:14:24.051 w1 sent the assignments after 20 ms.
      22:14:24.051 the group was Stable with 3 members, 2.0 s after it began.
      4 partitions stood still, the longest for 2.0 s: 8.1 partition-seconds in which nobody consumed.
      4 partitions were handed out: 2 to w3, 1 to w1, 1 to w2.

== partitions added
# cause topic-metadata-changed
# librdkafka's leader joins again with the same subscription and no reason.
stable w1 w2
topic orders 12
wait 9s w1 w2
join w1
again w2
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause topic-metadata-changed, triggered by w1, no culprit
    orders had 6 partitions and has 12 now, so the leader w1 joined again; the join barrier waited 2.0 s for w2; generation 2 was Stable after 2.0 s.
      22:14:29.001 orders had 6 partitions and has 12 now, so the leader w1 (10.0.0.9) joined again; orders changed 9.0 s before.
      22:14:29.001 the join barrier opened, to wait for w2 at most 5 min.
      22:14:31.001 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:31.001 generation 2 began, led by w1 with range.
      22:14:31.021 w1 sent the assignments after 20 ms.
      22:14:31.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed.
      6 partitions were handed out: 3 to w1, 3 to w2.

== topic created
# cause topic-metadata-changed
# A topic that the group subscribed to before there was one; Java's client says why it joins.
new w1 w2 topics=orders+refunds
stable w1 w2
topic refunds 1
wait 3s w1 w2
join w1 reason="cached metadata has changed from (version1: {}) to (version2: {})"
again w2
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause topic-metadata-changed, triggered by w1, no culprit
    refunds was created with 1 partition, so the leader w1 joined again; the join barrier waited 2.0 s for w2; generation 2 was Stable after 2.0 s.
      22:14:23.001 refunds was created with 1 partition, so the leader w1 (10.0.0.9) joined again; refunds changed 3.0 s before; it said "cached metadata has changed from (version1: {}) to (version2: {})".
      22:14:23.001 the join barrier opened, to wait for w2 at most 5 min.
      22:14:25.001 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:25.001 generation 2 began, led by w1 with range.
      22:14:25.021 w1 sent the assignments after 20 ms.
      22:14:25.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed.
      1 partition was handed out: 1 to w1.

== metadata changed unseen
# cause topic-metadata-changed
# The broker has forgotten, or the recording begins later.
stable w1 w2
join w1 reason="cached metadata has changed"
again w2
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause topic-metadata-changed, triggered by w1, no culprit
    The leader w1 saw that its topics or their partitions changed; the join barrier waited 2.0 s for w2; generation 2 was Stable after 2.0 s.
      22:14:20.001 the leader w1 (10.0.0.9) saw that its topics or their partitions changed; it said "cached metadata has changed".
      22:14:20.001 the join barrier opened, to wait for w2 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed.

== topic matches pattern
# cause subscription-changed
stable w1 w2
topic orders-eu 3
wait 4s w1 w2
change w2 topics=orders+orders-eu
join w2
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause subscription-changed, triggered by w2, no culprit
    w2 changed its subscription, as orders-eu was created with 3 partitions; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:14:24.001 w2 (10.0.0.0) changed its subscription, as orders-eu was created with 3 partitions; it subscribed to orders-eu; orders-eu changed 4.0 s before, and a client that subscribes to a pattern sees that.
      22:14:24.001 the join barrier opened, to wait for w1 at most 5 min.
      22:14:26.001 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:26.001 generation 2 began, led by w1 with range.
      22:14:26.021 w1 sent the assignments after 20 ms.
      22:14:26.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed.
      3 partitions were handed out: 3 to w2.

== user data changed
# cause user-data-changed, culprit w2
stable w1 w2
change w2 user_data="now warm"
join w2
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause user-data-changed, triggered by w2, culprit w2
    w2 rejoined with other data for its assignor; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:14:20.001 w2 (10.0.0.0) rejoined with other data for its assignor.
      22:14:20.001 the join barrier opened, to wait for w1 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w2.

== rebalance enforced
# cause rebalance-enforced, culprit w1
stable w1 w2
join w1 reason="rebalance enforced by user"
again w2
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause rebalance-enforced, triggered by w1, culprit w1
    The application of w1 asked for a rebalance; the join barrier waited 2.0 s for w2; generation 2 was Stable after 2.0 s.
      22:14:20.001 the application of w1 (10.0.0.9) asked for a rebalance; it said "rebalance enforced by user".
      22:14:20.001 the join barrier opened, to wait for w2 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w1.

== rejoined after error
# cause rejoined-after-error, culprit w1
stable w1 w2
change w1 generation=9
beat w1
join w1
again w2
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause rejoined-after-error, triggered by w1, culprit w1
    w1 rejoined after an error; the join barrier waited 2.0 s for w2; generation 2 was Stable after 2.0 s.
      22:14:20.001 w1 (10.0.0.9) rejoined after an error; it had been answered ILLEGAL_GENERATION.
      22:14:20.001 the join barrier opened, to wait for w2 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w1.

== leader rejoined
# cause leader-rejoined, culprit w1
stable w1 w2
join w1
again w2
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause leader-rejoined, triggered by w1, culprit w1
    The leader w1 joined again, which always begins a rebalance; the join barrier waited 2.0 s for w2; generation 2 was Stable after 2.0 s.
      22:14:20.001 the leader w1 (10.0.0.9) joined again, which always begins a rebalance.
      22:14:20.001 the join barrier opened, to wait for w2 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w1.

== member rejoined
# cause member-rejoined, culprit w2
stable w1 w2
change w2 metadata_version=2
join w2
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause member-rejoined, triggered by w2, culprit w2
    w2 joined again with other metadata; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:14:20.001 w2 (10.0.0.0) joined again with other metadata.
      22:14:20.001 the join barrier opened, to wait for w1 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w2.

== changed while syncing
# cause metadata-changed-while-syncing, culprit w2
join w1 w2
wait 1ms
change w2 user_data="now warm"
join w2
again w1
tell all
    rebalance 1 superseded, cause group-started, triggered by w1, no culprit
    w1 started the group; another rebalance began after 1 ms, before the group was Stable.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 the sync barrier was given up after 1 ms.
      22:13:20.001 another rebalance began before the group was Stable.
    rebalance 2 stable, cause metadata-changed-while-syncing, triggered by w2, culprit w2
    w2 changed its metadata before it had its assignment; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:13:20.001 w2 (10.0.0.0) changed its metadata before it had its assignment.
      22:13:20.001 the join barrier opened, to wait for w1 at most 5 min.
      22:13:22.001 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:13:22.001 generation 2 began, led by w1 with range.
      22:13:22.021 w1 sent the assignments after 20 ms.
      22:13:22.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.

== static member replaced
# cause static-member-replaced, culprit w2
new w1 instance=i1
new w2 instance=i2
stable w1 w2
disconnect w2
wait 4s w1
forget w2
start w2 after_ms=5ms
tell all
    rebalance 1 stable, cause group-started, triggered by i1, no culprit
    i1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 i1 (10.0.0.9) started the group.
      22:13:20.000 i2 (10.0.0.0) joined, for the first time under this group.instance.id.
      22:13:20.000 generation 1 began, led by i1 with range.
      22:13:20.001 i1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to i1, 3 to i2.
    replacement 2 replaced, cause static-member-replaced, triggered by i2, culprit i2
    i2 came back under its group.instance.id: no rebalance was needed.
      22:14:24.001 i2 (10.0.0.0) came back under its group.instance.id; nobody had been there for 4.0 s.
      3 partitions stood still, the longest for 4.0 s: 12.0 partition-seconds in which nobody consumed, all of them on the account of i2.

== static protocol changed
# cause static-replaced-protocol-changed, culprit w2
new w1 instance=i1 assignors=range+roundrobin
new w2 instance=i2 assignors=range+roundrobin
stable w1 w2
change w2 assignors=roundrobin
forget w2
join w2
again w1
tell all
    rebalance 1 stable, cause group-started, triggered by i1, no culprit
    i1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 i1 (10.0.0.9) started the group.
      22:13:20.000 i2 (10.0.0.0) joined, for the first time under this group.instance.id.
      22:13:20.000 generation 1 began, led by i1 with range.
      22:13:20.001 i1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to i1, 3 to i2.
    rebalance 2 stable, cause static-replaced-protocol-changed, triggered by i2, culprit i2
    i2 came back under its group.instance.id with other assignors; the join barrier waited 2.0 s for i1; generation 2 was Stable after 2.0 s.
      22:14:20.001 i2 (10.0.0.0) came back under its group.instance.id with other assignors; it had range, roundrobin and has roundrobin now.
      22:14:20.001 the join barrier opened, to wait for i1 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: i1 (10.0.0.9) came last.
      22:14:22.001 generation 2 began, led by i1 with roundrobin.
      22:14:22.021 i1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of i2.
      > Give all members the same partition.assignment.strategy; to change it, first add the new one to all members, then remove the old one.

== static while syncing
# cause static-replaced-while-syncing, culprit w2
new w1 instance=i1
new w2 instance=i2
join w1 w2
wait 1ms
forget w2
join w2
again w1
tell all
    rebalance 1 superseded, cause group-started, triggered by i1, no culprit
    i1 started the group; another rebalance began after 1 ms, before the group was Stable.
      22:13:20.000 i1 (10.0.0.9) started the group.
      22:13:20.000 i2 (10.0.0.0) joined, for the first time under this group.instance.id.
      22:13:20.000 generation 1 began, led by i1 with range.
      22:13:20.001 the sync barrier was given up after 1 ms.
      22:13:20.001 another rebalance began before the group was Stable.
    rebalance 2 stable, cause static-replaced-while-syncing, triggered by i2, culprit i2
    i2 came back under its group.instance.id while assignments were awaited; the join barrier waited 2.0 s for i1; generation 2 was Stable after 2.0 s.
      22:13:20.001 i2 (10.0.0.0) came back under its group.instance.id while assignments were awaited.
      22:13:20.001 the join barrier opened, to wait for i1 at most 5 min.
      22:13:22.001 the join barrier closed after 2.0 s: i1 (10.0.0.9) came last.
      22:13:22.001 generation 2 began, led by i1 with range.
      22:13:22.021 i1 sent the assignments after 20 ms.
      22:13:22.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions were handed out: 3 to i1, 3 to i2.

== replacement not written
# cause replacement-write-failed, culprit w2, began by static-member-replaced
new w1 instance=i1
new w2 instance=i2
stable w1 w2
fail NOT_ENOUGH_REPLICAS
forget w2
join w2
tell all
    rebalance 1 stable, cause group-started, triggered by i1, no culprit
    i1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 i1 (10.0.0.9) started the group.
      22:13:20.000 i2 (10.0.0.0) joined, for the first time under this group.instance.id.
      22:13:20.000 generation 1 began, led by i1 with range.
      22:13:20.001 i1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to i1, 3 to i2.
    replacement 2 refused, cause static-member-replaced, triggered by i2, culprit i2
    i2 came back under its group.instance.id.
      22:14:20.001 i2 (10.0.0.0) came back under its group.instance.id.
      22:14:20.001 the new id of i2 could not be written; the error was NOT_ENOUGH_REPLICAS.
      > Look at the broker's log and its disk: __consumer_offsets could not be written (NOT_ENOUGH_REPLICAS).

== duplicate instance
# cause duplicate-instance-id, culprit w9
new w1 instance=i1
new w2 instance=i2
stable w1 w2
wait 4s w1 w2
new w9 instance=i2
start w9 after_ms=5ms
wait 3s w1 w9 w2
tell all
    rebalance 1 stable, cause group-started, triggered by i1, no culprit
    i1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 i1 (10.0.0.9) started the group.
      22:13:20.000 i2 (10.0.0.0) joined, for the first time under this group.instance.id.
      22:13:20.000 generation 1 began, led by i1 with range.
      22:13:20.001 i1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to i1, 3 to i2.
    replacement 2 replaced, cause static-member-replaced, triggered by i2, culprit i2
    i2 came back under its group.instance.id: no rebalance was needed.
      22:14:24.001 i2 (10.0.0.7) came back under its group.instance.id.
    refusal 3 refused, cause duplicate-instance-id, triggered by i2-3, culprit i2-3
    Two processes use the group.instance.id i2.
      22:14:24.006 two processes use the group.instance.id i2; w9 at 10.0.0.7 has it now; w2 at 10.0.0.0, which had it before, still sent a Heartbeat 3.0 s later.
      > Give each process a group.instance.id of its own (i2 now), and make sure that an old process has ended before its successor starts.

== sync timeout
# cause sync-timeout, culprit w2
new w1 w2 poll_ms=1m
join w1 w2
wait 1ms
sync w1
wait 61s w1 w2
start w1 after_ms=20ms
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause sync-timeout, triggered by w2, culprit w2
    w2 did not fetch its assignment in time and was dropped; the join barrier waited 1.0 s for w1; generation 2 was Stable after 1.0 s.
      22:14:20.000 w2 (10.0.0.0) did not fetch its assignment in time and was dropped; it was heard of 3.0 s before, so its process lived and its application was busy or blocked.
      22:14:20.000 the join barrier opened, to wait for w1 at most 60 s.
      22:14:21.001 the join barrier closed after 1.0 s: w1 (10.0.0.9) came last.
      22:14:21.001 generation 2 began, led by w1 with range.
      22:14:21.021 w1 sent the assignments after 20 ms.
      22:14:21.021 the group was Stable with 1 member, 1.0 s after it began.
      6 partitions stood still, the longest for 61.0 s: 183.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > See what w2 does between JoinGroup and SyncGroup, where it fetches its assignment: it is blocked there. The group waits up to max.poll.interval.ms (60000 now) for it.

== leader blocked
# cause leader-never-synced, culprit w1
new w1 w2 poll_ms=1m
join w1 w2
wait 1ms
sync w2
wait 61s w1 w2
start w2 after_ms=20ms
tell all
    rebalance 1 superseded, cause group-started, triggered by w1, culprit w1
    w1 held the sync barrier up for 60.0 s and was dropped, after w1 started the group; another rebalance began after 60.0 s, before the group was Stable.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:14:20.000 the leader w1 did not send the assignments in time and was dropped; it was heard of 3.0 s before, so its process lived and its application was busy or blocked.
      22:14:20.000 the sync barrier was given up after 60.0 s.
      22:14:20.000 another rebalance began before the group was Stable.
      > See what w1 does between JoinGroup and SyncGroup: as leader it computes the assignments there, and its rebalance listener or assignor is blocked. Others wait for it up to max.poll.interval.ms (60000 now).
    rebalance 2 stable, cause leader-never-synced, triggered by w1, culprit w1
    The leader w1 did not send the assignments in time and was dropped; the join barrier waited 1.0 s for w2; generation 2 was Stable after 1.0 s.
      22:14:20.000 the leader w1 (10.0.0.9) did not send the assignments in time and was dropped; it was heard of 3.0 s before, so its process lived and its application was busy or blocked.
      22:14:20.000 the join barrier opened, to wait for w2 at most 60 s.
      22:14:21.001 the join barrier closed after 1.0 s: w2 (10.0.0.0) came last.
      22:14:21.001 generation 2 began, led by w2 with range.
      22:14:21.021 w2 sent the assignments after 20 ms.
      22:14:21.021 the group was Stable with 1 member, 1.0 s after it began.
      6 partitions were handed out: 6 to w2.
      > See what w1 does between JoinGroup and SyncGroup: as leader it computes the assignments there, and its rebalance listener or assignor is blocked. Others wait for it up to max.poll.interval.ms (60000 now).

== assignments not written
# cause assignment-write-failed
join w1 w2
wait 1ms
fail NOT_ENOUGH_REPLICAS
sync w2 w1
start w1 w2 after_ms=20ms
tell all
    rebalance 1 superseded, cause group-started, triggered by w1, no culprit
    w1 started the group; another rebalance began after 1 ms, before the group was Stable.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 the sync barrier was given up after 1 ms.
      22:13:20.001 another rebalance began before the group was Stable.
    rebalance 2 stable, cause assignment-write-failed, no culprit
    The assignments could not be written to __consumer_offsets; generation 2 was Stable after 20 ms.
      22:13:20.001 the assignments could not be written to __consumer_offsets; the error was NOT_ENOUGH_REPLICAS.
      22:13:20.001 the join barrier opened, to wait at most 5 min.
      22:13:20.001 the join barrier closed after 0 ms.
      22:13:20.001 generation 2 began, led by w1 (10.0.0.9) with range.
      22:13:20.021 w1 sent the assignments after 20 ms.
      22:13:20.021 the group was Stable with 2 members, 20 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
      > Look at the broker's log and its disk: __consumer_offsets could not be written (NOT_ENOUGH_REPLICAS).

== generation not written
# cause generation-write-failed
setup group_generation_persist=join
join w1 w2
fail NOT_ENOUGH_REPLICAS
wait 1ms
start w1 w2 after_ms=20ms
tell all
    rebalance 1 superseded, cause group-started, triggered by w1, no culprit
    w1 started the group; another rebalance began after 0 ms, before the group was Stable.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 another rebalance began before the group was Stable.
    rebalance 2 stable, cause generation-write-failed, no culprit
    The new generation could not be written to __consumer_offsets; generation 2 was Stable after 21 ms.
      22:13:20.000 the new generation could not be written to __consumer_offsets; the error was NOT_ENOUGH_REPLICAS.
      22:13:20.000 the join barrier opened, to wait for w1 and w2 at most 5 min.
      22:13:20.001 the join barrier closed after 1 ms.
      22:13:20.001 generation 2 began, led by w1 (10.0.0.9) with range.
      22:13:20.021 w1 sent the assignments after 20 ms.
      22:13:20.021 the group was Stable with 2 members, 21 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
      > Look at the broker's log and its disk: __consumer_offsets could not be written (NOT_ENOUGH_REPLICAS).

== group not written
# cause group-write-failed, began by group-started
setup group_initial_rebalance_delay_ms=3s
fail NOT_ENOUGH_REPLICAS
new w1 instance=i1
join w1
tell all
    rebalance 1 dead, cause group-started, triggered by i1, no culprit
    i1 started the group; that was cut off after 0 ms, when the group was given up or removed.
      22:13:20.000 i1 (10.0.0.9) started the group.
      22:13:20.000 the group's first record could not be written to __consumer_offsets; the error was NOT_ENOUGH_REPLICAS.
      22:13:20.000 the group waited 3 s for others to start, too.
      22:13:20.000 the group was given up or removed.
      > Look at the broker's log and its disk: __consumer_offsets could not be written (NOT_ENOUGH_REPLICAS).

== coordinator loaded
# cause coordinator-loaded
stable w1 w2
restart
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    loaded 2 loaded, cause coordinator-loaded, no culprit
    The broker took the group over and read it from its log.
      22:14:20.001 the broker took the group over and read it from its log; it has 2 members and was at generation 1.

== coordinator moved
# cause coordinator-moved
stable w1 w2
unload
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    stopped 2 dead, cause coordinator-moved, no culprit
    The broker stopped or gave the group up.
      22:14:20.001 the broker stopped or gave the group up.

== a coordinator that comes back
# cause coordinator-loaded
at-node 2
stable w1 w2
restart
wait 10s w1 w2
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    loaded 2 loaded, cause coordinator-loaded, no culprit
    The coordinator came back on node 2; nobody rebalanced.
      22:14:20.001 the coordinator came back on node 2; nobody rebalanced; the group has 2 members and was at generation 1.

== a coordinator that moves away
# cause coordinator-moved
at-node 2
stable w1 w2
unload
tell
    stopped 2 dead, cause coordinator-moved, no culprit
    Node 2 stopped, or its coordinator moved to another.
      22:14:20.001 node 2 stopped, or its coordinator moved to another.

== a coordinator that comes back amid a rebalance
# cause coordinator-loaded
setup group_generation_persist=join
at-node 2
join w1 w2
wait 1ms
restart
tell all
    rebalance 1 dead, cause group-started, triggered by w1, no culprit
    w1 started the group; that was cut off after 1 ms, when the group was given up or removed.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was given up or removed.
    loaded 2 loaded, cause coordinator-loaded, no culprit
    The coordinator came back on node 2.
      22:13:20.001 the coordinator came back on node 2; the group has 2 members and was at generation 1.
    rebalance 3 running, cause unassigned-on-load, no culprit
    The group was read from the log with a generation that never got its assignments; the rebalance is running and waits for w1 and w2.
      22:13:20.001 the group was read from the log with a generation that never got its assignments.
      22:13:20.001 the join barrier opened, to wait for w1 and w2 at most 5 min.
      > See what keeps w1 from rejoining, which a member does when it calls poll(). If that takes long, hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. The others wait for it up to max.poll.interval.ms (300000 now).

== over capacity
# cause over-capacity-on-load
stable w1 w2 w3
restart group_max_size=2
again w1 w2
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 w3 (10.0.0.1) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 3 members, 1 ms after it began.
      6 partitions were handed out: 2 to w1, 2 to w2, 2 to w3.
    loaded 2 loaded, cause coordinator-loaded, no culprit
    The broker took the group over and read it from its log.
      22:14:20.001 the broker took the group over and read it from its log; it has 3 members and was at generation 1.
    rebalance 3 running, cause over-capacity-on-load, no culprit
    The group was read from the log with more members than group.max.size allows; the rebalance is running and waits for w3.
      22:14:20.001 the group was read from the log with more members than group.max.size allows; it has 3 members.
      22:14:20.001 the join barrier opened, to wait for w1, w2 and w3 at most 5 min.
      4 partitions stand still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumes.
      > The group is larger than group.max.size (2 now): raise it, or start fewer members.

== unassigned on load
# cause unassigned-on-load
setup group_generation_persist=join
join w1 w2
wait 1ms
restart
start w1 w2 after_ms=20ms
tell all
    rebalance 1 dead, cause group-started, triggered by w1, no culprit
    w1 started the group; that was cut off after 1 ms, when the group was given up or removed.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was given up or removed.
    loaded 2 loaded, cause coordinator-loaded, no culprit
    The broker took the group over and read it from its log.
      22:13:20.001 the broker took the group over and read it from its log; it has 2 members and was at generation 1.
    rebalance 3 stable, cause unassigned-on-load, no culprit
    The group was read from the log with a generation that never got its assignments; generation 2 was Stable after 20 ms.
      22:13:20.001 the group was read from the log with a generation that never got its assignments.
      22:13:20.001 the join barrier opened, to wait at most 5 min.
      22:13:20.001 the join barrier closed after 0 ms.
      22:13:20.001 generation 2 began, led by w1 (10.0.0.9) with range.
      22:13:20.021 w1 sent the assignments after 20 ms.
      22:13:20.021 the group was Stable with 2 members, 20 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.

== generation lost
# cause generation-lost-on-load
stable w1 w2
join w1
join w2
restart
beat w1
join w1
again w2
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 dead, cause leader-rejoined, triggered by w1, culprit w1
    The leader w1 joined again, which always begins a rebalance; that was cut off after 0 ms, when the group was given up or removed.
      22:14:20.001 the leader w1 (10.0.0.9) joined again, which always begins a rebalance.
      22:14:20.001 the join barrier opened, to wait at most 5 min.
      22:14:20.001 the join barrier closed after 0 ms.
      22:14:20.001 generation 2 began, led by w1 with range.
      22:14:20.001 w1 sent the assignments after 0 ms.
      22:14:20.001 the group was given up or removed.
      6 partitions have no owner and stand still afterwards.
    loaded 3 loaded, cause coordinator-loaded, no culprit
    The broker took the group over and read it from its log.
      22:14:20.001 the broker took the group over and read it from its log; it has 2 members and was at generation 1.
    rebalance 4 stable, cause generation-lost-on-load, triggered by w1, no culprit
    w1 had a generation that the log does not have; the join barrier waited 2.0 s for w2; generation 2 was Stable after 2.0 s.
      22:14:20.001 w1 (10.0.0.9) had a generation that the log does not have; it had been answered ILLEGAL_GENERATION.
      22:14:20.001 the join barrier opened, to wait for w2 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed.

== group full
# cause turned-away-group-full, culprit w3
setup group_max_size=2
stable w1 w2
join-once w3
wait 100ms w1 w2
join-once w3
wait 100ms w1 w2
join-once w3
wait 100ms w1 w2
join-once w3
wait 100ms w1 w2
join-once w3
wait 100ms w1 w2
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    refusal 2 refused, cause turned-away-group-full, triggered by w3, culprit w3
    w3 was turned away: the group is full (5 times, the last at 22:14:20.401).
      22:14:20.001 w3 (10.0.0.1) was turned away: the group is full; it has 2 members.
      It happened 5 times until 22:14:20.401.
      > Stop a member that is not needed, or raise group.max.size (2 now) of the broker.

== mixed assignors
# cause turned-away-assignor-mismatch, culprit w3
stable w1 w2
new w3 assignors=cooperative-sticky
join-once w3
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    refusal 2 refused, cause turned-away-assignor-mismatch, triggered by w3, culprit w3
    w3 was turned away: the members have no assignor in common with it.
      22:14:20.001 w3 (10.0.0.1) was turned away: the members have no assignor in common with it; it offers cooperative-sticky; all members of the group have range; w1, w2 have nothing in common with it.
      > Let all members have one partition.assignment.strategy in common (w3 has cooperative-sticky). Add range to those of w3.

== a member that asks for an assignor that the broker does not have
# cause turned-away-unknown-assignor, culprit b
modern a
modern b assignor=sticky
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by a, no culprit
    a started the group; epoch 2 was Stable after 0 ms.
      22:13:20.000 a (10.0.0.7) started the group.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      6 partitions were handed out: 6 to a.
    refusal 2 refused, cause turned-away-unknown-assignor, triggered by b, culprit b
    b was turned away: the broker does not have the assignor that it asks for.
      22:13:20.000 b (10.0.0.8) was turned away: the broker does not have the assignor that it asks for; it asks for sticky.
      > Let b ask for an assignor that the broker has: set its group.remote.assignor, or leave it out.

== a member whose regex the broker cannot read
# cause turned-away-invalid-regex, culprit a
modern a regex="o(?=r).*"
tell all
    refusal 1 refused, cause turned-away-invalid-regex, triggered by a, culprit a
    a was turned away: its regex is none for the broker.
      22:13:20.000 a (10.0.0.7) was turned away: its regex is none for the broker; it is "o(?=r).*"; invalid perl operator: (?=.
      > Mend the regex of a: the broker reads it as RE2, which has no lookahead, no lookbehind and no references to groups. A pattern that the client matches itself, as Java's subscribe(Pattern) does, may have these.

== a classic member that comes to a consumer group whose policy lets none in
# cause turned-away-classic, culprit w1
setup group_consumer_migration_policy=disabled
modern a
live8 6s a
join w1
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by a, no culprit
    a started the group; epoch 2 was Stable after 0 ms.
      22:13:20.000 a (10.0.0.7) started the group.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      6 partitions were handed out: 6 to a.
    refusal 2 refused, cause turned-away-classic, triggered by w1, culprit w1
    w1 was turned away: the group takes nobody of the classic protocol.
      22:13:26.000 w1 (10.0.0.9) was turned away: the group takes nobody of the classic protocol; group.consumer.migration.policy is disabled.
      > Start w1 with group.protocol=consumer. If it has to be classic, restart the broker with group.consumer.migration.policy=bidirectional (or downgrade), which cannot change while it runs, or stop all members and start them with group.protocol=classic.

== classic members of a consumer group without a common assignor
# cause turned-away-assignor-mismatch, culprit w2
modern a
join w1
live8 6s a
new w2 assignors=sticky
join w2
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by a, no culprit
    a started the group; epoch 2 was Stable after 0 ms.
      22:13:20.000 a (10.0.0.7) started the group.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      6 partitions were handed out: 6 to a.
    refusal 3 refused, cause turned-away-assignor-mismatch, triggered by w2, culprit w2
    w2 was turned away: the members have no assignor in common with it.
      22:13:26.000 w2 (10.0.0.0) was turned away: the members have no assignor in common with it; it offers sticky; all members of the group have range; w1 has nothing in common with it.
      > Let all members have one partition.assignment.strategy in common (w2 has sticky). Add range to those of w2.
    rebalance 2 running, epoch 3, cause member-joined, triggered by w1, no culprit
    w1, which is of the classic protocol, has joined at 22:13:20.000, and not fetched what it has; w1 joined; the rebalance is running.
      22:13:20.000 w1 (10.0.0.9) joined.
      22:13:25.000 the target was computed 5.0 s after it was wanted: targets have to be some time apart, and each is computed with somebody's heartbeat.
      22:13:26.000 a gave up orders-3 to 5 after 1.0 s, for which w1 waited.
      3 partitions stand still, the longest for 1.0 s: 3.0 partition-seconds in which nobody consumes.

== other type
# cause turned-away-protocol-type, culprit w3
stable w1 w2
new w3 type=connect assignors=sessioned
join-once w3
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    refusal 2 refused, cause turned-away-protocol-type, triggered by w3, culprit w3
    w3 was turned away: it is of another kind than the group.
      22:14:20.001 w3 (10.0.0.1) was turned away: it is of another kind than the group; it is of type "connect"; the group is of type "consumer".
      > Give w3 another group.id (billing now): members of different kinds, such as consumers and Kafka Connect workers, cannot share a group.

== session too short
# cause invalid-session-timeout, culprit w3
stable w1 w2
new w3 session_ms=500ms
join-once w3
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    refusal 2 refused, cause invalid-session-timeout, triggered by w3, culprit w3
    w3 was turned away: its session.timeout.ms is outside of what the broker allows.
      22:14:20.001 w3 (10.0.0.1) was turned away: its session.timeout.ms is outside of what the broker allows; it asked for 500 ms.
      > Set session.timeout.ms (500 now) of w3 to what the broker allows, from 6000 to 1800000.

== flapping
# cause flapping-member, culprit w2
stable w1 w2
leave w2 reason="the consumer is being closed"
again w1
wait 3s w1
new w2
join w2
again w1
sync w2
wait 5s w1 w2
leave w2 reason="the consumer is being closed"
again w1
wait 3s w1
new w2
join w2
again w1
sync w2
wait 5s w1 w2
leave w2 reason="the consumer is being closed"
again w1
wait 3s w1
new w2
join w2
again w1
sync w2
wait 5s w1 w2
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 stable, cause left-closed, triggered by w2, culprit w2
    w2 was closed; the join barrier waited 2.0 s for w1; generation 2 was Stable after 2.0 s.
      22:14:20.001 w2 (10.0.0.0) was closed; it said "the consumer is being closed".
      22:14:20.001 the join barrier opened, to wait for w1 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 1 member, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > If w2 is restarted, not stopped for good: give each member a group.instance.id of its own (not set now), so that it comes back within session.timeout.ms (45000 now) without a rebalance.
    rebalance 3 stable, cause member-returned, triggered by w2, culprit w2
    w2 came back, 5.0 s after it was closed; the join barrier waited 2.0 s for w1; generation 3 was Stable after 2.0 s.
      22:14:25.031 w2 (10.0.0.0) came back; 5.0 s earlier it was closed.
      22:14:25.031 the join barrier opened, to wait for w1 at most 5 min.
      22:14:27.031 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:27.031 generation 3 began, led by w1 with range.
      22:14:27.051 w1 sent the assignments after 20 ms.
      22:14:27.051 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      3 partitions changed hands: 3 from w1 to w2.
      > If w2 is restarted, not stopped for good: give each member a group.instance.id of its own (not set now), so that it comes back within session.timeout.ms (45000 now) without a rebalance.
    rebalance 4 stable, cause left-closed, triggered by w2, culprit w2
    w2 was closed; the join barrier waited 2.0 s for w1; generation 4 was Stable after 2.0 s.
      22:14:32.061 w2 (10.0.0.0) was closed; it said "the consumer is being closed".
      22:14:32.061 the join barrier opened, to wait for w1 at most 5 min.
      22:14:34.061 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:34.061 generation 4 began, led by w1 with range.
      22:14:34.081 w1 sent the assignments after 20 ms.
      22:14:34.081 the group was Stable with 1 member, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > If w2 is restarted, not stopped for good: give each member a group.instance.id of its own (not set now), so that it comes back within session.timeout.ms (45000 now) without a rebalance.
    rebalance 5 stable, cause member-returned, triggered by w2, culprit w2
    w2 came back, 5.0 s after it was closed; the join barrier waited 2.0 s for w1; generation 5 was Stable after 2.0 s.
      22:14:37.091 w2 (10.0.0.0) came back; 5.0 s earlier it was closed.
      22:14:37.091 the join barrier opened, to wait for w1 at most 5 min.
      22:14:39.091 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:39.091 generation 5 began, led by w1 with range.
      22:14:39.111 w1 sent the assignments after 20 ms.
      22:14:39.111 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      3 partitions changed hands: 3 from w1 to w2.
      > If w2 is restarted, not stopped for good: give each member a group.instance.id of its own (not set now), so that it comes back within session.timeout.ms (45000 now) without a rebalance.
    rebalance 6 stable, cause flapping-member, triggered by w2, culprit w2
    w2 comes and goes, 3 times within ten minutes: w2 was closed; the join barrier waited 2.0 s for w1; generation 6 was Stable after 2.0 s.
      22:14:44.121 w2 (10.0.0.0) was closed; it said "the consumer is being closed".
      22:14:44.121 the join barrier opened, to wait for w1 at most 5 min.
      22:14:46.121 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:46.121 generation 6 began, led by w1 with range.
      22:14:46.141 w1 sent the assignments after 20 ms.
      22:14:46.141 the group was Stable with 1 member, 2.0 s after it began.
      w2 comes and goes; it left or was removed 3 times within ten minutes.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w1.
      > Look at w2 before anything else: each of its comings and goings is a rebalance for all. Until it is mended a group.instance.id of its own (not set now) keeps its restarts from the others.
    rebalance 7 stable, cause flapping-member, triggered by w2, culprit w2
    w2 comes and goes, 3 times within ten minutes: w2 came back, 5.0 s after it was closed; the join barrier waited 2.0 s for w1; generation 7 was Stable after 2.0 s.
      22:14:49.151 w2 (10.0.0.0) came back; 5.0 s earlier it was closed.
      22:14:49.151 the join barrier opened, to wait for w1 at most 5 min.
      22:14:51.151 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:14:51.151 generation 7 began, led by w1 with range.
      22:14:51.171 w1 sent the assignments after 20 ms.
      22:14:51.171 the group was Stable with 2 members, 2.0 s after it began.
      w2 comes and goes; it left or was removed 3 times within ten minutes.
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      3 partitions changed hands: 3 from w1 to w2.
      > Look at w2 before anything else: each of its comings and goings is a rebalance for all. Until it is mended a group.instance.id of its own (not set now) keeps its restarts from the others.

== rolling restart
# cause rolling-restart, culprit w3
stable w1 w2 w3
leave w1 reason="the consumer is being closed"
again w2 w3
wait 6s w2 w3
new w1
join w1
again w2 w3
sync w1
wait 10s w1 w2 w3
leave w2 reason="the consumer is being closed"
again w1 w3
wait 6s w1 w3
new w2
join w2
again w1 w3
sync w2
wait 10s w1 w2 w3
leave w3 reason="the consumer is being closed"
again w1 w2
wait 6s w1 w2
new w3
join w3
again w1 w2
sync w3
wait 10s w1 w2 w3
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 w3 (10.0.0.1) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 3 members, 1 ms after it began.
      6 partitions were handed out: 2 to w1, 2 to w2, 2 to w3.
    rebalance 2 stable, cause left-closed, triggered by w1, culprit w1
    w1 was closed; the join barrier waited 2.0 s for w3; generation 2 was Stable after 2.0 s.
      22:14:20.001 w1 (10.0.0.9) was closed; it said "the consumer is being closed".
      22:14:20.001 the join barrier opened, to wait for w2 and w3 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w3 (10.0.0.1) came last.
      22:14:22.001 generation 2 began, led by w2 (10.0.0.0) with range.
      22:14:22.021 w2 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 4.1 partition-seconds in which nobody consumed, all of them on the account of w1.
      4 partitions changed hands: 1 from w2 to w3, 1 from w3 to w2, 1 from w1 to w2, 1 from w1 to w3.
      > If w1 is restarted, not stopped for good: give each member a group.instance.id of its own (not set now), so that it comes back within session.timeout.ms (45000 now) without a rebalance.
    rebalance 3 stable, cause member-returned, triggered by w1, culprit w1
    w1 came back, 8.0 s after it was closed; the join barrier waited 2.0 s for w3; generation 3 was Stable after 2.0 s.
      22:14:28.031 w1 (10.0.0.9) came back; 8.0 s earlier it was closed.
      22:14:28.031 the join barrier opened, to wait for w2 and w3 at most 5 min.
      22:14:30.031 the join barrier closed after 2.0 s: w3 (10.0.0.1) came last.
      22:14:30.031 generation 3 began, led by w2 (10.0.0.0) with range.
      22:14:30.051 w2 sent the assignments after 20 ms.
      22:14:30.051 the group was Stable with 3 members, 2.0 s after it began.
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      4 partitions changed hands: 1 from w2 to w3, 1 from w2 to w1, 1 from w3 to w2, 1 from w3 to w1.
      > If w1 is restarted, not stopped for good: give each member a group.instance.id of its own (not set now), so that it comes back within session.timeout.ms (45000 now) without a rebalance.
    rebalance 4 stable, cause left-closed, triggered by w2, culprit w2
    w2 was closed; the join barrier waited 2.0 s for w3; generation 4 was Stable after 2.0 s.
      22:14:40.061 w2 (10.0.0.0) was closed; it said "the consumer is being closed".
      22:14:40.061 the join barrier opened, to wait for w3 and w1 at most 5 min.
      22:14:42.061 the join barrier closed after 2.0 s: w3 (10.0.0.1) came last.
      22:14:42.061 generation 4 began, led by w3 with range.
      22:14:42.081 w3 sent the assignments after 20 ms.
      22:14:42.081 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 4.1 partition-seconds in which nobody consumed, all of them on the account of w2.
      4 partitions changed hands: 1 from w3 to w1, 1 from w1 to w3, 1 from w2 to w3, 1 from w2 to w1.
      > If w2 is restarted, not stopped for good: give each member a group.instance.id of its own (not set now), so that it comes back within session.timeout.ms (45000 now) without a rebalance.
    rebalance 5 stable, cause rolling-restart, triggered by w2, culprit w2
    Rolling restart, 2 members so far: w2 came back, 8.0 s after it was closed; the join barrier waited 2.0 s for w3; generation 5 was Stable after 2.0 s.
      22:14:48.091 w2 (10.0.0.0) came back; 8.0 s earlier it was closed.
      22:14:48.091 the join barrier opened, to wait for w3 and w1 at most 5 min.
      22:14:50.091 the join barrier closed after 2.0 s: w3 (10.0.0.1) came last.
      22:14:50.091 generation 5 began, led by w3 with range.
      22:14:50.111 w3 sent the assignments after 20 ms.
      22:14:50.111 the group was Stable with 3 members, 2.0 s after it began.
      The members are being restarted one after the other; 2 of them went and came back within ten minutes, each once.
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      4 partitions changed hands: 1 from w3 to w1, 1 from w3 to w2, 1 from w1 to w3, 1 from w1 to w2.
      > Give each member a group.instance.id of its own (not set now) and a session.timeout.ms (45000 now) above the time that a restart takes: then a restart needs no rebalance.
    rebalance 6 stable, cause rolling-restart, triggered by w3, culprit w3
    Rolling restart, 2 members so far: w3 was closed; the join barrier waited 2.0 s for w2; generation 6 was Stable after 2.0 s.
      22:15:00.121 w3 (10.0.0.1) was closed; it said "the consumer is being closed".
      22:15:00.121 the join barrier opened, to wait for w1 and w2 at most 5 min.
      22:15:02.121 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:15:02.121 generation 6 began, led by w1 (10.0.0.9) with range.
      22:15:02.141 w1 sent the assignments after 20 ms.
      22:15:02.141 the group was Stable with 2 members, 2.0 s after it began.
      The members are being restarted one after the other; 2 of them went and came back within ten minutes, each once.
      6 partitions stood still, the longest for 2.0 s: 4.1 partition-seconds in which nobody consumed, all of them on the account of w3.
      4 partitions changed hands: 1 from w1 to w2, 1 from w2 to w1, 1 from w3 to w1, 1 from w3 to w2.
      > Give each member a group.instance.id of its own (not set now) and a session.timeout.ms (45000 now) above the time that a restart takes: then a restart needs no rebalance.
    rebalance 7 stable, cause rolling-restart, triggered by w3, culprit w3
    Rolling restart, 3 members so far: w3 came back, 8.0 s after it was closed; the join barrier waited 2.0 s for w2; generation 7 was Stable after 2.0 s.
      22:15:08.151 w3 (10.0.0.1) came back; 8.0 s earlier it was closed.
      22:15:08.151 the join barrier opened, to wait for w1 and w2 at most 5 min.
      22:15:10.151 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:15:10.151 generation 7 began, led by w1 (10.0.0.9) with range.
      22:15:10.171 w1 sent the assignments after 20 ms.
      22:15:10.171 the group was Stable with 3 members, 2.0 s after it began.
      The members are being restarted one after the other; 3 of them went and came back within ten minutes, each once.
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      4 partitions changed hands: 1 from w1 to w2, 1 from w1 to w3, 1 from w2 to w1, 1 from w2 to w3.
      > Give each member a group.instance.id of its own (not set now) and a session.timeout.ms (45000 now) above the time that a restart takes: then a restart needs no rebalance.

== rolling restart of static members
# cause rolling-restart, culprit w3
new w1 instance=i1
new w2 instance=i2
new w3 instance=i3
stable w1 w2 w3
disconnect w1
wait 6s w2 w3
forget w1
start w1 after_ms=5ms
wait 10s w1 w2 w3
disconnect w2
wait 6s w1 w3
forget w2
start w2 after_ms=5ms
wait 10s w1 w2 w3
disconnect w3
wait 6s w1 w2
forget w3
start w3 after_ms=5ms
wait 10s w1 w2 w3
tell all
    rebalance 1 stable, cause group-started, triggered by i1, no culprit
    i1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 i1 (10.0.0.9) started the group.
      22:13:20.000 i2 (10.0.0.0) joined, for the first time under this group.instance.id.
      22:13:20.000 i3 (10.0.0.1) joined, for the first time under this group.instance.id.
      22:13:20.000 generation 1 began, led by i1 with range.
      22:13:20.001 i1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 3 members, 1 ms after it began.
      6 partitions were handed out: 2 to i1, 2 to i2, 2 to i3.
    replacement 2 replaced, cause static-member-replaced, triggered by i1, culprit i1
    i1 came back under its group.instance.id: no rebalance was needed.
      22:14:26.001 i1 (10.0.0.9) came back under its group.instance.id; nobody had been there for 6.0 s.
      2 partitions stood still, the longest for 6.0 s: 12.0 partition-seconds in which nobody consumed, all of them on the account of i1.
    replacement 3 replaced, cause rolling-restart, triggered by i2, culprit i2
    Rolling restart, 2 members so far: i2 came back under its group.instance.id: no rebalance was needed.
      22:14:42.006 i2 (10.0.0.0) came back under its group.instance.id; nobody had been there for 6.0 s.
      The members are being restarted one after the other; 2 of them went and came back within ten minutes, each once.
      2 partitions stood still, the longest for 6.0 s: 12.0 partition-seconds in which nobody consumed, all of them on the account of i2.
    replacement 4 replaced, cause rolling-restart, triggered by i3, culprit i3
    Rolling restart, 3 members so far: i3 came back under its group.instance.id: no rebalance was needed.
      22:14:58.011 i3 (10.0.0.1) came back under its group.instance.id; nobody had been there for 6.0 s.
      The members are being restarted one after the other; 3 of them went and came back within ten minutes, each once.
      2 partitions stood still, the longest for 6.0 s: 12.0 partition-seconds in which nobody consumed, all of them on the account of i3.

== beginning not seen
# cause unknown
# As in a recording whose first part is gone: the first that is seen is the end of the join barrier.
setup unseen
start w1 w2
tell all
    rebalance 1 stable, cause unknown, no culprit
    What began it was not seen; generation 1 was Stable after 1 ms.
      22:13:20.000 what began it was not seen.
      22:13:20.000 generation 1 began with range.
      22:13:20.001 the leader sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1-1, 3 to w2-2.

== a revocation that takes too long
# cause revocation-timeout, culprit a
modern a
live8 10s a
modern b
live8 6s b
hb a
live8 30s b
say a
live8 40s b
tell
    rebalance 3 stable, epoch 4, cause revocation-timeout, triggered by a, culprit a
    a did not give partitions up in time and was removed; epoch 4 was Stable after 0 ms.
      22:14:36.000 a (10.0.0.7) did not give partitions up in time and was removed; it had been told 60.0 s earlier to give up orders-3 to 5; it was heard of once meanwhile, the last time 30.0 s earlier, and had not given them up; its rebalance timeout, which is max.poll.interval.ms, is 60 s.
      22:14:36.000 the group was Stable with 1 member, 0 ms after it began.
      No partition is known to have stood still.
      6 partitions changed hands: 6 from a to b.
      > See what keeps a from giving its partitions up, which a consumer does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms (60000 now).

== a fenced epoch
# cause fenced-epoch, culprit a
modern a
live8 6s a
modern b
live8 12s a b
at-epoch a 1
tell
    refusal 3 refused, cause fenced-epoch, triggered by a, culprit a
    a sent an epoch that is not its own, and was told to join again.
      22:13:38.000 a (10.0.0.7) sent an epoch that is not its own, and was told to join again; it sent epoch 1, and is at 3.
      > See whether two processes use the member id of a, or whether it was restored from an old copy or stood still for long: only its own last epoch counts. A good client gives up all it has now and joins again by itself.

== topics that come to a regex
# cause regex-resolved
modern a regex=orders.*
live8 12s a
topic orders9 2
live8 20s a
tell
    rebalance 2 stable, epoch 3, cause regex-resolved, triggered by a, no culprit
    The regex of a comes to other topics; epoch 3 was Stable after 5.0 s.
      22:13:37.000 the regex of a (10.0.0.7) comes to other topics; "orders.*" matches 2 topics; it did not match orders9 before.
      22:13:42.000 the group was Stable with 1 member, 5.0 s after it began.
      No partition is known to have stood still.
      2 partitions were handed out: 2 to a.

== a regex that changed
# cause regex-changed, culprit a
modern a regex=orders.*
modern b regex=order.*
live8 12s a b
subscribe a regex=order.*
live8 12s a b
tell
    rebalance 2 stable, epoch 3, cause regex-changed, triggered by a, culprit a
    a changed its regex; epoch 3 was Stable after 5.0 s.
      22:13:32.000 a (10.0.0.7) changed its regex; it was "orders.*" and is "order.*" now.
      22:13:37.000 the group was Stable with 2 members, 5.0 s after it began.
      No partition is known to have stood still.
      Everybody has the partitions that it had before.

== racks that changed
# cause rack-changed
modern a b
live8 12s a b
rack orders r2
live8 12s a b
tell
    rebalance 3 stable, epoch 4, cause rack-changed, no culprit
    Replicas of its topics moved to other racks; epoch 4 was Stable after 0 ms.
      22:13:37.000 replicas of its topics moved to other racks; those of orders.
      22:13:37.000 the group was Stable with 2 members, 0 ms after it began.
      No partition is known to have stood still.
      Everybody has the partitions that it had before.

== a static member that goes for a while
# cause static-member-away, culprit a
modern a instance=i1
live8 12s a
away a
live8 3s
modern a instance=i1
tell
    replacement 2 replaced, cause static-member-away, triggered by i1, culprit i1
    i1 went for a while, as it has a group.instance.id; after 3.0 s it was back, and no rebalance was needed.
      22:13:32.000 i1 (10.0.0.7) went for a while, as it has a group.instance.id; it may be away for 45 s at most.
      6 partitions stood still, the longest for 3.0 s: 18.0 partition-seconds in which nobody consumed, all of them on the account of i1.

== a static member that is not back in time
# cause static-member-not-back, culprit a
modern a instance=i1
modern b
live8 12s a b
away a
live8 50s b
tell
    rebalance 4 stable, epoch 4, cause static-member-not-back, triggered by i1, culprit i1
    i1 went for a while, under its group.instance.id, and was not back before its session ran out; epoch 4 was Stable after 0 ms.
      22:14:17.000 i1 (10.0.0.7) went for a while, under its group.instance.id, and was not back before its session ran out; it went 45.0 s before, and its session had begun with its last heartbeat; the session timeout of its group is 45 s.
      22:14:17.000 the group was Stable with 1 member, 0 ms after it began.
      No partition is known to have stood still.
      3 partitions changed hands: 3 from i1 to b.
      > i1 has a group.instance.id and was away for longer than the session timeout (45000 now). If that is the time that a restart takes, raise consumer.session.timeout.ms of the group; if it was to end for good, let it leave without group.instance.id, or remove it with `ottla groups evict`.

== a group that becomes one of the consumer protocol
# cause group-upgraded
stable w1 w2
modern a
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    conversion 2 converted, cause group-upgraded, triggered by a, no culprit
    The group became one of the consumer protocol.
      22:14:20.001 the group became one of the consumer protocol; it has 2 members.
    rebalance 3 running, epoch 2, cause member-joined, triggered by a, no culprit
    w1 hears of its new target with its next heartbeat, and then gives up orders-4, which others shall have; a waits for that; a joined; the rebalance is running.
      22:14:20.001 a (10.0.0.7) joined.
      w2 hears of its new target with its next heartbeat, and then gives up orders-5, which others shall have; a waits for that.

== a group that becomes a classic one
# cause group-downgraded
modern a
join w1
live8 12s a
go a
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by a, no culprit
    a started the group; epoch 2 was Stable after 0 ms.
      22:13:20.000 a (10.0.0.7) started the group.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      6 partitions were handed out: 6 to a.
    rebalance 2 superseded, epoch 3, cause member-joined, triggered by w1, culprit w1
    w1 joined; a gave up orders-3 to 5 after 5.0 s, for which w1 waited; another rebalance began after 12.0 s, before the group was Stable.
      22:13:20.000 w1 (10.0.0.9) joined.
      22:13:25.000 the target was computed 5.0 s after it was wanted: targets have to be some time apart, and each is computed with somebody's heartbeat.
      22:13:30.000 a gave up orders-3 to 5 after 5.0 s, for which w1 waited.
      22:13:32.000 another rebalance began before the group was Stable.
      3 partitions stood still, the longest for 7.0 s: 21.0 partition-seconds in which nobody consumed, 13.5 of them on the account of w1.
    conversion 3 converted, cause group-downgraded, triggered by a, no culprit
    The group became a classic one.
      22:13:32.000 the group became a classic one; it has 1 member.
      22:13:32.000 a was closed.
      > If a is restarted, not stopped for good: give each member a group.instance.id of its own, so that it keeps its partitions while it is away for no longer than the session timeout of the group (45000 now).
    rebalance 4 running, cause group-downgraded, no culprit
    The group became a classic one; the rebalance is running and waits for w1.
      22:13:32.000 the group became a classic one.
      22:13:32.000 the join barrier opened, to wait for w1 at most 5 min.
      > See what keeps w1 from rejoining, which a member does when it calls poll(). If that takes long, hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. The others wait for it up to max.poll.interval.ms (300000 now).

== a classic member of a consumer group that closes
# cause left-closed, culprit w1
modern a
join w1
live8 12s a
leave w1 reason="the consumer is being closed"
live8 12s a
tell last
    rebalance 1 stable, epoch 2, cause group-started, triggered by a, no culprit
    a started the group; epoch 2 was Stable after 0 ms.
      22:13:20.000 a (10.0.0.7) started the group.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      6 partitions were handed out: 6 to a.
    rebalance 2 superseded, epoch 3, cause member-joined, triggered by w1, culprit w1
    w1 joined; a gave up orders-3 to 5 after 5.0 s, for which w1 waited; another rebalance began after 12.0 s, before the group was Stable.
      22:13:20.000 w1 (10.0.0.9) joined.
      22:13:25.000 the target was computed 5.0 s after it was wanted: targets have to be some time apart, and each is computed with somebody's heartbeat.
      22:13:30.000 a gave up orders-3 to 5 after 5.0 s, for which w1 waited.
      22:13:32.000 w1 had 12.0 s to fetch what it has, and was gone before it had.
      22:13:32.000 another rebalance began before the group was Stable.
      3 partitions stood still, the longest for 7.0 s: 21.0 partition-seconds in which nobody consumed, 13.5 of them on the account of w1.
    rebalance 3 stable, epoch 4, cause left-closed, triggered by w1, culprit w1
    w1 was closed; epoch 4 was Stable after 5.0 s.
      22:13:32.000 w1 (10.0.0.9) was closed; it said "the consumer is being closed".
      22:13:37.000 the group was Stable with 1 member, 5.0 s after it began.
      3 partitions stood still, the longest for 5.0 s: 15.0 partition-seconds in which nobody consumed, all of them on the account of w1.
      Everybody has the partitions that it had before.
      > If w1 is restarted, not stopped for good: give each member a group.instance.id of its own, so that it keeps its partitions while it is away for no longer than its session.timeout.ms (45000 now).

== a classic member that does not join again
# cause classic-rejoin-missed, culprit w1
new w1 poll_ms=20s
stable w1
modern a
live8 6s a
wait 2s w1
live8 30s a
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 1 member, 1 ms after it began.
      6 partitions were handed out: 6 to w1.
    conversion 2 converted, cause group-upgraded, triggered by a, no culprit
    The group became one of the consumer protocol.
      22:14:20.001 the group became one of the consumer protocol; it has 1 member.
    rebalance 3 superseded, epoch 2, cause member-joined, triggered by a, culprit w1
    a joined; w1 had 20.0 s to join again, for which a waited, and was gone before it had; another rebalance began after 28.0 s, before the group was Stable.
      22:14:20.001 a (10.0.0.7) joined.
      22:14:28.001 w1 came for its new target after 8.0 s, for which a waited.
      22:14:48.001 w1 had 20.0 s to join again, for which a waited, and was gone before it had.
      22:14:48.001 another rebalance began before the group was Stable.
    rebalance 4 stable, epoch 3, cause classic-rejoin-missed, triggered by w1, culprit w1
    w1 was told to join again, did not in time and was removed; epoch 3 was Stable after 0 ms.
      22:14:48.001 w1 (10.0.0.9) was told to join again, did not in time and was removed; it had 20.0 s.
      22:14:48.001 the group was Stable with 1 member, 0 ms after it began.
      No partition is known to have stood still.
      6 partitions were handed out: 6 to a.
      > See what keeps w1 from joining again, which a consumer of the classic protocol does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. It has its rebalance timeout for that, which is max.poll.interval.ms (20000 now) of most clients. With the consumer protocol it would not have to join again.

== a classic member that does not sync
# cause classic-sync-missed, culprit w1
modern a
live8 6s a
new w1 poll_ms=10s
join w1
live8 30s a
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by a, no culprit
    a started the group; epoch 2 was Stable after 0 ms.
      22:13:20.000 a (10.0.0.7) started the group.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      6 partitions were handed out: 6 to a.
    rebalance 2 superseded, epoch 3, cause member-joined, triggered by w1, culprit w1
    w1 joined; a came for its new target after 5.0 s, for which w1 waited; another rebalance began after 10.0 s, before the group was Stable.
      22:13:26.000 w1 (10.0.0.9) joined.
      22:13:31.000 a came for its new target after 5.0 s, for which w1 waited.
      22:13:36.000 w1 had 10.0 s to fetch what it has, and was gone before it had.
      22:13:36.000 after 5.0 s a still had not given up orders-3 to 5, for which w1 waited.
      22:13:36.000 another rebalance began before the group was Stable.
      3 partitions stood still, the longest for 5.0 s: 15.0 partition-seconds in which nobody consumed, 7.5 of them on the account of w1.
    rebalance 3 stable, epoch 4, cause classic-sync-missed, triggered by w1, culprit w1
    w1 did not send SyncGroup in time and was removed; a gave up orders-3 to 5 after 5.0 s; epoch 4 was Stable after 0 ms.
      22:13:36.000 w1 (10.0.0.9) did not send SyncGroup in time and was removed; it had 10.0 s.
      22:13:36.000 a gave up orders-3 to 5 after 5.0 s.
      22:13:36.000 the group was Stable with 1 member, 0 ms after it began.
      No partition is known to have stood still.
      Everybody has the partitions that it had before.
      > See what kept w1 from asking for its assignment after it had joined, which a client does at once: it ended, lost its connection, or stood still. It has its rebalance timeout for that (10000 now).

== nobody is left, and somebody of the other protocol comes
# cause took-over-from-classic
stable w1
leave w1
modern a
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 1 member, 1 ms after it began.
      6 partitions were handed out: 6 to w1.
    rebalance 2 empty, cause left-without-reason, triggered by w1, no culprit
    w1 left without saying why; the group was empty after 0 ms.
      22:14:20.001 w1 (10.0.0.9) left without saying why.
      22:14:20.001 nobody was left and the group was Empty.
      6 partitions have no owner and stand still afterwards.
      > If w1 is restarted, not stopped for good: give each member a group.instance.id of its own (not set now), so that it comes back within session.timeout.ms (45000 now) without a rebalance.
    conversion 3 converted, cause took-over-from-classic, triggered by a, no culprit
    a group without members is of the other protocol from now on.
      22:14:20.001 a group without members is of the other protocol from now on.
    rebalance 4 stable, epoch 2, cause group-started, triggered by a, no culprit
    a started the group; epoch 2 was Stable after 0 ms.
      22:14:20.001 a (10.0.0.7) started the group.
      22:14:20.001 the group was Stable with 1 member, 0 ms after it began.
      6 partitions were handed out: 6 to a.

== a classic group that stays one
# cause upgrade-refused, culprit a
join w1
modern a
tell all
    refusal 2 refused, cause upgrade-refused, triggered by a, culprit a
    a was turned away: the group stays a classic one.
      22:13:20.000 a (10.0.0.7) was turned away: the group stays a classic one; its first members are still joining.
      > Ask `ottla groups migrate` how to get out of the way what keeps the group classic. Until then start a with group.protocol=classic.
    rebalance 1 running, cause group-started, triggered by w1, no culprit
    w1 started the group; the rebalance is running.
      22:13:20.000 w1 (10.0.0.9) started the group.

== a classic group that stays one, as the policy does not let it change
# cause upgrade-refused, culprit a
setup group_consumer_migration_policy=disabled
join w1
modern a
tell all
    refusal 2 refused, cause upgrade-refused, triggered by a, culprit a
    a was turned away: the group stays a classic one.
      22:13:20.000 a (10.0.0.7) was turned away: the group stays a classic one; group.consumer.migration.policy does not allow it.
      > Restart the broker with group.consumer.migration.policy=bidirectional (or upgrade), which cannot change while it runs. Until then start a with group.protocol=classic.
    rebalance 1 running, cause group-started, triggered by w1, no culprit
    w1 started the group; the rebalance is running.
      22:13:20.000 w1 (10.0.0.9) started the group.

== a consumer group that stays one
# cause downgrade-refused
setup group_consumer_migration_policy=upgrade
modern a
join w1
live8 6s a
go a
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by a, no culprit
    a started the group; epoch 2 was Stable after 0 ms.
      22:13:20.000 a (10.0.0.7) started the group.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      6 partitions were handed out: 6 to a.
    rebalance 2 superseded, epoch 3, cause member-joined, triggered by w1, culprit w1
    w1 joined; a gave up orders-3 to 5 after 1.0 s, for which w1 waited; another rebalance began after 6.0 s, before the group was Stable.
      22:13:20.000 w1 (10.0.0.9) joined.
      22:13:25.000 the target was computed 5.0 s after it was wanted: targets have to be some time apart, and each is computed with somebody's heartbeat.
      22:13:26.000 a gave up orders-3 to 5 after 1.0 s, for which w1 waited.
      22:13:26.000 another rebalance began before the group was Stable.
      3 partitions stood still, the longest for 1.0 s: 3.0 partition-seconds in which nobody consumed, all of them on the account of w1.
    refusal 3 refused, cause downgrade-refused, triggered by a, no culprit
    a consumer group stays one.
      22:13:26.000 a consumer group stays one; group.consumer.migration.policy does not allow it.
      > Restart one of the members, or remove one with `ottla groups evict`, so that it joins again: without that nobody gets what becomes free in a consumer group whose members are all classic. To make it a classic group, stop all members and start them. With group.consumer.migration.policy=bidirectional (or downgrade), for which the broker has to be restarted, it becomes one by itself.
    rebalance 4 running, epoch 4, cause left-closed, triggered by a, no culprit
    w1, which is of the classic protocol, has joined at 22:13:20.000, and not fetched what it has; a was closed; the rebalance is running.
      22:13:26.000 a (10.0.0.7) was closed.
      a new target has been due since 22:13:26.000, and is computed when somebody joins; only members of the classic protocol are left, and their heartbeats do not bring it.
      > Restart one of the members, or remove one with `ottla groups evict`, so that it joins again: without that nobody gets what becomes free in a consumer group whose members are all classic. To make it a classic group, stop all members and start them. With group.consumer.migration.policy=bidirectional (or downgrade), for which the broker has to be restarted, it becomes one by itself.

== the node hangs
# cause broker-stood-still
at-node 1
stable w1 w2
wait 20s w1 w2
stall 60000
tell all
    rebalance 1 stable, cause group-started, triggered by w1, no culprit
    w1 started the group; generation 1 was Stable after 1 ms.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 generation 1 began, led by w1 with range.
      22:13:20.001 w1 sent the assignments after 1 ms.
      22:13:20.001 the group was Stable with 2 members, 1 ms after it began.
      6 partitions were handed out: 3 to w1, 3 to w2.
    rebalance 2 empty, cause broker-stood-still, triggered by w2 and w1, no culprit
    Node 1 stood still past the ends of the sessions of w2 and w1, for 15.0 s or more; the group was empty after 0 ms.
      22:15:40.001 node 1 stood still past the end of the session of w2 (10.0.0.0), for 15.0 s or more; it was last heard of 60.0 s before; its session.timeout.ms is 45 s.
      22:15:40.001 node 1 stood still past the end of the session of w1 (10.0.0.9), for 15.0 s or more; it was last heard of 60.0 s before; its session.timeout.ms is 45 s.
      22:15:40.001 the join barrier opened, to wait at most 5 min.
      22:15:40.001 the join barrier closed after 0 ms.
      22:15:40.001 nobody was left and the group was Empty.
      6 partitions stood still, the longest for 60.0 s: 360.0 partition-seconds in which nobody consumed; 6 partitions have no owner and stand still afterwards.
      > See what stopped node 1, and not its members: SIGSTOP or a debugger, a container or machine that was paused, no CPU, or memory that was swapped out.
