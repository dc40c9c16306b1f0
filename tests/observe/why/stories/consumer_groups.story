== a member that does not give up is told of while it lasts
modern a
live8 10s a
modern b rebalance_ms=1m
live8 6s b
hb a
wait 3s
hb b
tell
    rebalance 2 running, epoch 3, cause member-joined, triggered by b, no culprit
    a was told at 22:13:36.000 to give up orders-3 to 5, and has not been heard of since; b waits for that; b joined; the rebalance is running.
      22:13:30.000 b (10.0.0.8) joined.
      22:13:36.000 a came for its new target after 6.0 s, for which b waited.
wait 20s
say a
hb b
tell
    rebalance 2 running, epoch 3, cause member-joined, triggered by b, culprit a
    a has not given up orders-3 to 5 since 22:13:36.000; its heartbeats still report them; b waits for that; b joined; the rebalance is running.
      22:13:30.000 b (10.0.0.8) joined.
      22:13:36.000 a came for its new target after 6.0 s, for which b waited.
      3 partitions stand still, the longest for 23.0 s: 69.0 partition-seconds in which nobody consumes, all of them on the account of a.
      > See what keeps a from giving its partitions up, which a consumer does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms (60000 now).
accounts
    rebalance 2 running: epoch 3, cause member-joined, triggered by b, culprit a
    stood 69000, the longest 23000, stopped 3, unowned 0
    trigger member-joined b
    not-heard a: 0 to 6000, at most 51000, b waits with orders-3, orders-4, orders-5
    still-owns a: 6000 to -1, at most 66000, b waits with orders-3, orders-4, orders-5
    waits-for-release b: 0 to -1, at most 0, nobody waits with orders-3, orders-4, orders-5
    a stayed: 6 to 0, stood 69000, blamed 69000
    b new: 0 to 0, stood 0, blamed 0
    advice max.poll.interval.ms 60000

== S77: it is removed in the end
clock
modern a
live8 10s a
modern b
live8 6s b
hb a
live8 30s b
say a
live8 20s b
say a
tell
    rebalance 2 running, epoch 3, cause member-joined, triggered by b, culprit a
    a has not given up orders-3 to 5 since 22:13:36.000; its heartbeats still report them; b waits for that; a is removed in 10.0 s; b joined; the rebalance has been running for 56.0 s.
      22:13:30.000 b (10.0.0.8) joined.
      22:13:36.000 a came for its new target after 6.0 s, for which b waited.
      3 partitions stand still, the longest for 50.0 s: 150.0 partition-seconds in which nobody consumes, all of them on the account of a.
      > See what keeps a from giving its partitions up, which a consumer does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms (60000 now).
live8 40s b
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by a, no culprit
    a started the group; epoch 2 was Stable after 0 ms.
      22:13:20.000 a (10.0.0.7) started the group.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      6 partitions were handed out: 6 to a.
    rebalance 2 superseded, epoch 3, cause member-joined, triggered by b, culprit a
    b joined; a had 60.0 s to give up orders-3 to 5, for which b waited, and was gone before it had; another rebalance began after 66.0 s, before the group was Stable.
      22:13:30.000 b (10.0.0.8) joined.
      22:13:36.000 a came for its new target after 6.0 s, for which b waited.
      22:14:36.000 a had 60.0 s to give up orders-3 to 5, for which b waited, and was gone before it had.
      22:14:36.000 another rebalance began before the group was Stable.
      3 partitions stood still, the longest for 60.0 s: 180.0 partition-seconds in which nobody consumed, all of them on the account of a.
      > See what keeps a from giving its partitions up, which a consumer does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms (60000 now).
    rebalance 3 stable, epoch 4, cause revocation-timeout, triggered by a, culprit a
    a did not give partitions up in time and was removed; epoch 4 was Stable after 0 ms.
      22:14:36.000 a (10.0.0.7) did not give partitions up in time and was removed; it had been told 60.0 s earlier to give up orders-3 to 5; it was heard of 2 times meanwhile, the last time 10.0 s earlier, and had not given them up; its rebalance timeout, which is max.poll.interval.ms, is 60 s.
      22:14:36.000 the group was Stable with 1 member, 0 ms after it began.
      No partition is known to have stood still.
      6 partitions changed hands: 6 from a to b.
      > See what keeps a from giving its partitions up, which a consumer does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms (60000 now).
accounts 2
    rebalance 2 superseded: epoch 3, cause member-joined, triggered by b, culprit a
    stood 180000, the longest 60000, stopped 3, unowned 0
    trigger member-joined b
    not-heard a: 0 to 6000, at most 51000, b waits with orders-3, orders-4, orders-5
    still-owns a: 6000 to 66000, at most 66000, b waits with orders-3, orders-4, orders-5
    a stayed: 6 to 0, stood 180000, blamed 180000
    b new: 0 to 0, stood 0, blamed 0
    advice max.poll.interval.ms 60000
    rebalance 3 stable: epoch 4, cause revocation-timeout, triggered by a, culprit a
    stood 0, the longest 0, stopped 0, unowned 0
    trigger revocation-timeout a
    b stayed: 0 to 6, stood 0, blamed 0
    a expired: 6 to 0, stood 0, blamed 0, last signs at [-10000]
    advice max.poll.interval.ms 60000

== S78: a target that has to wait for the interval
modern a
wait 500ms
modern b
tell
    rebalance 2 running, epoch 3, cause member-joined, triggered by b, no culprit
    a new target may be computed at 22:13:21.000 at the earliest, with the next heartbeat of anybody; b joined; the rebalance is running.
      22:13:20.500 b (10.0.0.8) joined.
accounts
    rebalance 2 running: epoch 3, cause member-joined, triggered by b, no culprit
    stood 0, the longest 0, stopped 0, unowned 0
    trigger member-joined b
    interval -: 0 to -1, at most 500, nobody waits
    a stayed: 6 to 0, stood 0, blamed 0
    b new: 0 to 0, stood 0, blamed 0
live8 6s a b
tell
    rebalance 2 stable, epoch 3, cause member-joined, triggered by b, culprit b
    b joined; a gave up orders-3 to 5 after 1.0 s, for which b waited; epoch 3 was Stable after 6.0 s.
      22:13:20.500 b (10.0.0.8) joined.
      22:13:25.500 the target was computed 5.0 s after it was wanted: targets have to be some time apart, and each is computed with somebody's heartbeat.
      22:13:26.500 a gave up orders-3 to 5 after 1.0 s, for which b waited.
      22:13:26.500 b got orders-3 to 5, which others had to give up first, after 1.0 s.
      22:13:26.500 the group was Stable with 2 members, 6.0 s after it began.
      3 partitions stood still, the longest for 1.0 s: 3.0 partition-seconds in which nobody consumed, all of them on the account of b.
      3 partitions changed hands: 3 from a to b.

== S78: a static member that is away
modern a instance=i1
modern b
live8 12s a b
away a
live8 10s b
clock
tell
    replacement 3 running, cause static-member-away, triggered by i1, no culprit
    i1, which has a group.instance.id, has been away since 22:13:32.000; orders-0 to 2 stand still; i1 is removed in 35.0 s; i1 went for a while, as it has a group.instance.id; the rebalance has been running for 10.0 s.
      22:13:32.000 i1 (10.0.0.7) went for a while, as it has a group.instance.id; it may be away for 45 s at most.
      3 partitions stand still, the longest for 10.0 s: 30.0 partition-seconds in which nobody consumes.
      > Start i1 again, with the same group.instance.id: its partitions stand still until it is back or its session is over. If it shall not come back, remove it with `ottla groups evict`, kafka-consumer-groups or an Admin client.
live8 40s b
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by i1, no culprit
    i1 started the group; epoch 2 was Stable after 0 ms.
      22:13:20.000 i1 (10.0.0.7) started the group.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      6 partitions were handed out: 6 to i1.
    rebalance 2 stable, epoch 3, cause member-joined, triggered by b, culprit i1
    b joined; i1 gave up orders-3 to 5 after 5.0 s, for which b waited; epoch 3 was Stable after 10.0 s.
      22:13:20.000 b (10.0.0.8) joined.
      22:13:25.000 the target was computed 5.0 s after it was wanted: targets have to be some time apart, and each is computed with somebody's heartbeat.
      22:13:30.000 i1 gave up orders-3 to 5 after 5.0 s, for which b waited.
      22:13:30.000 b got orders-3 to 5, which others had to give up first, after 5.0 s.
      22:13:30.000 the group was Stable with 2 members, 10.0 s after it began.
      3 partitions stood still, the longest for 5.0 s: 15.0 partition-seconds in which nobody consumed, all of them on the account of i1.
      3 partitions changed hands: 3 from i1 to b.
    replacement 3 superseded, cause static-member-away, triggered by i1, culprit i1
    i1 went for a while, as it has a group.instance.id; a rebalance began after 45.0 s.
      22:13:32.000 i1 (10.0.0.7) went for a while, as it has a group.instance.id; it may be away for 45 s at most.
      3 partitions stood still, the longest for 45.0 s: 135.0 partition-seconds in which nobody consumed, all of them on the account of i1.
    rebalance 4 stable, epoch 4, cause static-member-not-back, triggered by i1, culprit i1
    i1 went for a while, under its group.instance.id, and was not back before its session ran out; epoch 4 was Stable after 0 ms.
      22:14:17.000 i1 (10.0.0.7) went for a while, under its group.instance.id, and was not back before its session ran out; it went 45.0 s before, and its session had begun with its last heartbeat; the session timeout of its group is 45 s.
      22:14:17.000 the group was Stable with 1 member, 0 ms after it began.
      No partition is known to have stood still.
      3 partitions changed hands: 3 from i1 to b.
      > i1 has a group.instance.id and was away for longer than the session timeout (45000 now). If that is the time that a restart takes, raise consumer.session.timeout.ms of the group; if it was to end for good, let it leave without group.instance.id, or remove it with `ottla groups evict`.

== a static member that comes back in time
modern a instance=i1
modern b
live8 12s a b
away a
live8 3s b
modern a instance=i1
live8 6s a b
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by i1, no culprit
    i1 started the group; epoch 2 was Stable after 0 ms.
      22:13:20.000 i1 (10.0.0.7) started the group.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      6 partitions were handed out: 6 to i1.
    rebalance 2 stable, epoch 3, cause member-joined, triggered by b, culprit i1
    b joined; i1 gave up orders-3 to 5 after 5.0 s, for which b waited; epoch 3 was Stable after 10.0 s.
      22:13:20.000 b (10.0.0.8) joined.
      22:13:25.000 the target was computed 5.0 s after it was wanted: targets have to be some time apart, and each is computed with somebody's heartbeat.
      22:13:30.000 i1 gave up orders-3 to 5 after 5.0 s, for which b waited.
      22:13:30.000 b got orders-3 to 5, which others had to give up first, after 5.0 s.
      22:13:30.000 the group was Stable with 2 members, 10.0 s after it began.
      3 partitions stood still, the longest for 5.0 s: 15.0 partition-seconds in which nobody consumed, all of them on the account of i1.
      3 partitions changed hands: 3 from i1 to b.
    replacement 3 replaced, cause static-member-away, triggered by i1, culprit i1
    i1 went for a while, as it has a group.instance.id; after 3.0 s it was back, and no rebalance was needed.
      22:13:32.000 i1 (10.0.0.7) went for a while, as it has a group.instance.id; it may be away for 45 s at most.
      3 partitions stood still, the longest for 3.0 s: 9.0 partition-seconds in which nobody consumed, all of them on the account of i1.
accounts
    replacement 3 replaced: cause static-member-away, triggered by i1, culprit i1
    stood 9000, the longest 3000, stopped 3, unowned 0
    trigger static-member-away a
    away a: 0 to 3000, at most 48000, nobody waits with orders-0, orders-1, orders-2
    a stayed: 3 to 3, stood 9000, blamed 9000
    b stayed: 3 to 3, stood 0, blamed 0

== S78: topics that come to a regex
modern a regex=orders.*
live8 12s a
topic orders9 2
live8 20s a
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by a, no culprit
    a started the group; epoch 2 was Stable after 5.0 s.
      22:13:20.000 a (10.0.0.7) started the group.
      22:13:20.000 the regex of a was held against the topics; "orders.*" matches 1 topic: orders.
      22:13:25.000 the group was Stable with 1 member, 5.0 s after it began.
      6 partitions were handed out: 6 to a.
    rebalance 2 stable, epoch 3, cause regex-resolved, triggered by a, no culprit
    The regex of a comes to other topics; epoch 3 was Stable after 5.0 s.
      22:13:37.000 the regex of a (10.0.0.7) comes to other topics; "orders.*" matches 2 topics; it did not match orders9 before.
      22:13:42.000 the group was Stable with 1 member, 5.0 s after it began.
      No partition is known to have stood still.
      2 partitions were handed out: 2 to a.

== a regex that matches nothing
modern a regex=ordres.*
live8 12s a
tell all
    resolution 1 resolved, cause regex-resolved, triggered by a, culprit a
    The regex of a matches no topic.
      22:13:20.000 the regex of a (10.0.0.7) matches no topic; it is "ordres.*".
      > Compare the regex of a with the names of topics: it has to match the whole name, and upper and lower case differ. If the topic is yet to be created there is nothing to mend: regexes are held against topics again when one is created.

== S79: a chain that ends with a member that is silent
setup partitions=orders:9
clock
modern a
live8 10s a
modern b
live8 12s a b
modern c
hb b
live8 6s a c
hb c
tell
    rebalance 3 running, epoch 4, cause member-joined, triggered by c, culprit b
    b was told at 22:13:42.000 to give up orders-8, and has not been heard of since; c waits for that; b is removed in 39.0 s; c joined; the rebalance has been running for 6.0 s.
      22:13:42.000 c (10.0.0.9) joined.
      22:13:47.000 a came for its new target after 5.0 s, for which c waited.
      22:13:48.000 a gave up orders-3 and orders-4 after 1.0 s, for which c waited.
      3 partitions stand still, the longest for 6.0 s: 8.0 partition-seconds in which nobody consumes, all of them on the account of b.
      2 partitions changed hands: 2 from a to c.
      > See whether b still runs and reaches the broker: it has not been heard of since it was told. If it ended it is removed when its session or its time to give up is over.
accounts
    rebalance 3 running: epoch 4, cause member-joined, triggered by c, culprit b
    stood 8000, the longest 6000, stopped 3, unowned 0
    trigger member-joined c
    next-heartbeat a: 0 to 5000, at most 5000, c waits with orders-3, orders-4
    told-to-revoke a: 5000 to 6000, at most 51000, c waits with orders-3, orders-4
    told-to-revoke b: 0 to -1, at most 45000, c waits with orders-8
    waits-for-release c: 0 to -1, at most 0, nobody waits with orders-8
    a stayed: 5 to 0, stood 2000, blamed 0
    b stayed: 4 to 0, stood 6000, blamed 8000
    c new: 0 to 0, stood 0, blamed 0
    advice

== a classic member that has not joined again is told of while it lasts
new w1 poll_ms=20s
stable w1
modern a
wait 2s w1
live8 8s a
tell
    rebalance 3 running, epoch 2, cause member-joined, triggered by a, culprit w1
    w1, which is of the classic protocol, was told at 22:14:22.001 to join again, and has not; a waits for that; a joined; the rebalance is running.
      22:14:20.001 a (10.0.0.7) joined.
      22:14:22.001 w1 came for its new target after 2.0 s, for which a waited.
accounts
    rebalance 3 running: epoch 2, cause member-joined, triggered by a, culprit w1
    stood 0, the longest 0, stopped 0, unowned 0
    trigger member-joined a
    next-heartbeat w1: 0 to 2000, at most 5000, a waits with orders-3, orders-4, orders-5
    must-rejoin w1: 2000 to -1, at most 22000, a waits with orders-3, orders-4, orders-5
    waits-for-release a: 0 to -1, at most 0, nobody waits with orders-3, orders-4, orders-5
    w1 stayed: 6 to 0, stood 0, blamed 0
    a new: 0 to 0, stood 0, blamed 0

== an old epoch
modern a
modern b
live8 12s a b
at-epoch a 1
tell
    refusal 3 refused, cause fenced-epoch, triggered by a, culprit a
    a sent an epoch that is not its own, and was told to join again.
      22:13:32.000 a (10.0.0.7) sent an epoch that is not its own, and was told to join again; it sent epoch 1, and is at 3.
      > See whether two processes use the member id of a, or whether it was restored from an old copy or stood still for long: only its own last epoch counts. A good client gives up all it has now and joins again by itself.

== members that leave
modern a b c
live8 20s a b c
go c
live8 12s a b
tell
    rebalance 3 stable, epoch 5, cause left-closed, triggered by c, culprit c
    c was closed; epoch 5 was Stable after 5.0 s.
      22:13:40.000 c (10.0.0.9) was closed.
      22:13:45.000 the group was Stable with 2 members, 5.0 s after it began.
      2 partitions stood still, the longest for 5.0 s: 10.0 partition-seconds in which nobody consumed, all of them on the account of c.
      2 partitions changed hands: 1 from c to a, 1 from c to b.
      > If c is restarted, not stopped for good: give each member a group.instance.id of its own, so that it keeps its partitions while it is away for no longer than the session timeout of the group (45000 now).
go a b
tell
    rebalance 4 empty, epoch 7, cause left-closed, triggered by a and b, no culprit
    a and b were closed; the group was empty after 0 ms.
      22:13:52.000 a (10.0.0.7) was closed.
      22:13:52.000 b (10.0.0.8) was closed.
      22:13:52.000 nobody was left and the group was Empty.
      6 partitions have no owner and stand still afterwards.
      > If a is restarted, not stopped for good: give each member a group.instance.id of its own, so that it keeps its partitions while it is away for no longer than the session timeout of the group (45000 now).

== a topic that grows
modern a b
live8 12s a b
topic orders 8
live8 12s a b
tell
    rebalance 3 stable, epoch 4, cause topic-metadata-changed, no culprit
    orders had 6 partitions and has 8 now; epoch 4 was Stable after 0 ms.
      22:13:37.000 orders had 6 partitions and has 8 now; orders changed 5.0 s before.
      22:13:37.000 the group was Stable with 2 members, 0 ms after it began.
      No partition is known to have stood still.
      2 partitions were handed out: 1 to a, 1 to b.

== a coordinator that comes back on its node
at-node 3
modern a b
live8 12s a b
restart
live8 12s a b
tell
    loaded 3 loaded, cause coordinator-loaded, no culprit
    The coordinator came back on node 3; nobody rebalanced.
      22:13:32.000 the coordinator came back on node 3; nobody rebalanced; the group has 2 members and was at generation 3.

== a coordinator that comes back on its node amid a rebalance
at-node 3
modern a b
live8 2s a b
restart
tell
    loaded 3 loaded, cause coordinator-loaded, no culprit
    The coordinator came back on node 3.
      22:13:22.000 the coordinator came back on node 3; the group has 2 members and was at generation 3.

== a broker that starts
modern a b
live8 12s a b
restart
live8 12s a b
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by a, no culprit
    a started the group; epoch 2 was Stable after 0 ms.
      22:13:20.000 a (10.0.0.7) started the group.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      6 partitions were handed out: 6 to a.
    rebalance 2 stable, epoch 3, cause member-joined, triggered by b, culprit a
    b joined; a gave up orders-3 to 5 after 5.0 s, for which b waited; epoch 3 was Stable after 10.0 s.
      22:13:20.000 b (10.0.0.8) joined.
      22:13:25.000 the target was computed 5.0 s after it was wanted: targets have to be some time apart, and each is computed with somebody's heartbeat.
      22:13:30.000 a gave up orders-3 to 5 after 5.0 s, for which b waited.
      22:13:30.000 b got orders-3 to 5, which others had to give up first, after 5.0 s.
      22:13:30.000 the group was Stable with 2 members, 10.0 s after it began.
      3 partitions stood still, the longest for 5.0 s: 15.0 partition-seconds in which nobody consumed, all of them on the account of a.
      3 partitions changed hands: 3 from a to b.
    loaded 3 loaded, cause coordinator-loaded, no culprit
    The broker took the group over and read it from its log.
      22:13:32.000 the broker took the group over and read it from its log; it has 2 members and was at generation 3.

== a regex that matches nothing before its topic is created
modern rex regex=billing.*
live8 70s rex
modern red regex=billing.*
live8 70s rex red
topic billing1 2
live8 20s rex red
tell all
    resolution 1 resolved, cause regex-resolved, triggered by rex, culprit rex
    The regex of rex matches no topic.
      22:13:20.000 the regex of rex (10.0.0.0) matches no topic; it is "billing.*".
      > Compare the regex of rex with the names of topics: it has to match the whole name, and upper and lower case differ. If the topic is yet to be created there is nothing to mend: regexes are held against topics again when one is created.
    rebalance 2 stable, epoch 2, cause member-joined, triggered by red, culprit red
    red joined; epoch 2 was Stable after 5.0 s.
      22:14:30.000 red (10.0.0.0) joined.
      22:14:35.000 the group was Stable with 2 members, 5.0 s after it began.
      Nobody has partitions.
    rebalance 3 stable, epoch 3, cause regex-resolved, triggered by rex, no culprit
    The regex of rex comes to other topics; epoch 3 was Stable after 5.0 s.
      22:15:45.000 the regex of rex (10.0.0.0) comes to other topics; "billing.*" matches 1 topic; it did not match billing1 before.
      22:15:50.000 the group was Stable with 2 members, 5.0 s after it began.
      2 partitions were handed out: 1 to rex, 1 to red.

== an instance id that another member has
modern a instance=i1
live8 10s a
modern c instance=i1
wait 1s
modern c instance=i1
tell
    refusal 2 refused, cause duplicate-instance-id, triggered by c, culprit c
    Two processes use the group.instance.id i1 (2 times, the last at 22:13:31.000).
      22:13:30.000 two processes use the group.instance.id i1; c at 10.0.0.9 was refused, as a at 10.0.0.7 has it and has not left.
      It happened 2 times until 22:13:31.000.
      > Give each process a group.instance.id of its own (i1 now), and make sure that an old process has ended before its successor starts.

== a topic that does not exist
modern nix topics=ordrs
tell
    rebalance 1 stable, epoch 2, cause group-started, triggered by nix, no culprit
    nix started the group and subscribes to ordrs, which does not exist; epoch 2 was Stable after 0 ms.
      22:13:20.000 nix (10.0.0.0) started the group; it subscribes to ordrs, which does not exist.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      Nobody has partitions.
      > Create ordrs, or mend the name in the subscription of nix. nix gets partitions as soon as there are any.
modern a
live8 10s nix a
modern b topics=orders+payments
live8 10s nix a b
tell
    rebalance 3 stable, epoch 4, cause member-joined, triggered by b, culprit a
    b joined and subscribes to payments, which does not exist; a came for its new target after 5.0 s, for which b waited; epoch 4 was Stable after 10.0 s.
      22:13:30.000 b (10.0.0.8) joined; it subscribes to payments, which does not exist.
      22:13:35.000 a came for its new target after 5.0 s, for which b waited.
      22:13:40.000 a gave up orders-3 to 5 after 5.0 s, for which b waited.
      22:13:40.000 b got orders-3 to 5, which others had to give up first, after 10.0 s.
      22:13:40.000 the group was Stable with 3 members, 10.0 s after it began.
      3 partitions stood still, the longest for 5.0 s: 15.0 partition-seconds in which nobody consumed, all of them on the account of a.
      3 partitions changed hands: 3 from a to b.
      > Create payments, or mend the name in the subscription of b. b gets partitions as soon as there are any.

== another member subscribes to a topic that does not exist
modern a
live8 10s a
modern b topics=order
live8 10s a b
tell
    rebalance 2 stable, epoch 3, cause member-joined, triggered by b, culprit b
    b joined and subscribes to order, which does not exist; epoch 3 was Stable after 5.0 s.
      22:13:30.000 b (10.0.0.8) joined; it subscribes to order, which does not exist; did you mean orders?
      22:13:35.000 the group was Stable with 2 members, 5.0 s after it began.
      No partition is known to have stood still.
      Everybody has the partitions that it had before.
      > Create order, or mend the name in the subscription of b if orders is meant. b gets partitions as soon as there are any.
subscribe b ordesr+other
live8 10s a b
tell
    rebalance 3 stable, epoch 4, cause subscription-changed, triggered by b, culprit b
    b changed its subscription and subscribes to ordesr and other, which do not exist; epoch 4 was Stable after 5.0 s.
      22:13:40.000 b (10.0.0.8) changed its subscription; it subscribed to ordesr, other; it unsubscribed from order; it subscribes to ordesr and other, which do not exist; did you mean orders?
      22:13:45.000 the group was Stable with 2 members, 5.0 s after it began.
      No partition is known to have stood still.
      Everybody has the partitions that it had before.
      > Create ordesr and other, or mend the name in the subscription of b if orders is meant. b gets partitions as soon as there are any.

== a member that waits closes, while another does not give up
clock
modern p
live8 10s p
modern q
live8 5s q
hb p
live8 10s q
say p
go q
live8 1s
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by p, no culprit
    p started the group; epoch 2 was Stable after 0 ms.
      22:13:20.000 p (10.0.0.2) started the group.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      6 partitions were handed out: 6 to p.
    rebalance 2 superseded, epoch 3, cause member-joined, triggered by q, culprit p
    q joined; after 10.0 s p still had not given up orders-3 to 5, for which q waited; another rebalance began after 15.0 s, before the group was Stable.
      22:13:30.000 q (10.0.0.3) joined.
      22:13:35.000 p came for its new target after 5.0 s, for which q waited.
      22:13:45.000 q went without having got orders-3 to 5, for which it had waited 15.0 s.
      22:13:45.000 after 10.0 s p still had not given up orders-3 to 5, for which q waited.
      22:13:45.000 another rebalance began before the group was Stable.
      3 partitions stood still, the longest for 10.0 s: 30.0 partition-seconds in which nobody consumed, all of them on the account of p.
      > See what keeps p from giving its partitions up, which a consumer does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms (60000 now).
    rebalance 3 running, epoch 4, cause left-closed, triggered by q, culprit p
    p has not given up orders-3 to 5 since 22:13:35.000; its heartbeats still report them; p is removed in 49.0 s; q was closed; the rebalance has been running for 1.0 s.
      22:13:45.000 q (10.0.0.3) was closed.
      A new target has been due since 22:13:45.000, and is computed with the next heartbeat of anybody.
      3 partitions stand still, the longest for 1.0 s: 3.0 partition-seconds in which nobody consumes, all of them on the account of p.
      > See what keeps p from giving its partitions up, which a consumer does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms (60000 now).
say p
live8 4s
tell
    rebalance 3 running, epoch 4, cause left-closed, triggered by q, culprit p
    p has not given up orders-3 to 5 since 22:13:35.000; its heartbeats still report them; p is removed in 45.0 s; q was closed; the rebalance has been running for 5.0 s.
      22:13:45.000 q (10.0.0.3) was closed.
      3 partitions stand still, the longest for 5.0 s: 15.0 partition-seconds in which nobody consumes, all of them on the account of p.
      > See what keeps p from giving its partitions up, which a consumer does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms (60000 now).
live8 40s
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by p, no culprit
    p started the group; epoch 2 was Stable after 0 ms.
      22:13:20.000 p (10.0.0.2) started the group.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      6 partitions were handed out: 6 to p.
    rebalance 2 superseded, epoch 3, cause member-joined, triggered by q, culprit p
    q joined; after 10.0 s p still had not given up orders-3 to 5, for which q waited; another rebalance began after 15.0 s, before the group was Stable.
      22:13:30.000 q (10.0.0.3) joined.
      22:13:35.000 p came for its new target after 5.0 s, for which q waited.
      22:13:45.000 q went without having got orders-3 to 5, for which it had waited 15.0 s.
      22:13:45.000 after 10.0 s p still had not given up orders-3 to 5, for which q waited.
      22:13:45.000 another rebalance began before the group was Stable.
      3 partitions stood still, the longest for 10.0 s: 30.0 partition-seconds in which nobody consumed, all of them on the account of p.
      > See what keeps p from giving its partitions up, which a consumer does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms (60000 now).
    rebalance 3 running, epoch 4, cause left-closed, triggered by q, culprit p
    p has not given up orders-3 to 5 since 22:13:35.000; its heartbeats still report them; p is removed in 5.0 s; q was closed; the rebalance has been running for 45.0 s.
      22:13:45.000 q (10.0.0.3) was closed.
      3 partitions stand still, the longest for 45.0 s: 135.0 partition-seconds in which nobody consumes, all of them on the account of p.
      > See what keeps p from giving its partitions up, which a consumer does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms (60000 now).
accounts 2
    rebalance 2 superseded: epoch 3, cause member-joined, triggered by q, culprit p
    stood 30000, the longest 10000, stopped 3, unowned 0
    trigger member-joined q
    next-heartbeat p: 0 to 5000, at most 5000, q waits with orders-3, orders-4, orders-5
    waits-for-release q: 0 to 15000, at most 0, nobody waits with orders-3, orders-4, orders-5
    still-owns p: 5000 to 15000, at most 65000, q waits with orders-3, orders-4, orders-5
    p stayed: 6 to 0, stood 30000, blamed 30000
    q new: 0 to 0, stood 0, blamed 0
    advice max.poll.interval.ms 60000
    rebalance 3 running: epoch 4, cause left-closed, triggered by q, culprit p
    stood 135000, the longest 45000, stopped 3, unowned 0
    trigger left-closed q
    still-owns p: -10000 to -1, at most 50000, nobody waits with orders-3, orders-4, orders-5
    p stayed: 6 to 0, stood 135000, blamed 135000
    q left: 0 to 0, stood 0, blamed 0, last signs at [0]
    advice max.poll.interval.ms 60000

== several that wait close, while one does not give up
setup partitions=orders:9
clock
modern a
live8 10s a
modern b c
live8 6s b c
hb a
live8 10s b c
say a
go b
live8 8s c
say a
go c
live8 3s
say a
live8 50s
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by a, no culprit
    a started the group; epoch 2 was Stable after 0 ms.
      22:13:20.000 a (10.0.0.7) started the group.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      9 partitions were handed out: 9 to a.
    rebalance 2 superseded, epoch 3, cause member-joined, triggered by b, culprit b
    b joined; another rebalance began after 0 ms, before the group was Stable.
      22:13:30.000 b (10.0.0.8) joined.
      22:13:30.000 another rebalance began before the group was Stable.
    rebalance 3 superseded, epoch 4, cause member-joined, triggered by c, culprit a
    c joined; after 10.0 s a still had not given up orders-3 to 8, for which c and b waited; another rebalance began after 16.0 s, before the group was Stable.
      22:13:30.000 c (10.0.0.9) joined.
      22:13:35.000 the target was computed 5.0 s after it was wanted: targets have to be some time apart, and each is computed with somebody's heartbeat.
      22:13:36.000 a came for its new target after 1.0 s, for which c and b waited.
      22:13:46.000 b went without having got orders-5 to 7, for which it had waited 16.0 s.
      22:13:46.000 after 10.0 s a still had not given up orders-3 to 8, for which c and b waited.
      22:13:46.000 another rebalance began before the group was Stable.
      6 partitions stood still, the longest for 10.0 s: 60.0 partition-seconds in which nobody consumed, all of them on the account of a.
      > See what keeps a from giving its partitions up, which a consumer does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms (60000 now).
    rebalance 4 superseded, epoch 5, cause left-closed, triggered by b, culprit a
    b was closed; after 18.0 s a still had not given up orders-3 to 8, for which c waited; another rebalance began after 8.0 s, before the group was Stable.
      22:13:46.000 b (10.0.0.8) was closed.
      22:13:54.000 c went without having got orders-3 to 5 and orders-8, for which it had waited 19.0 s.
      22:13:54.000 after 18.0 s a still had not given up orders-3 to 8, for which c waited.
      22:13:54.000 another rebalance began before the group was Stable.
      6 partitions stood still, the longest for 8.0 s: 48.0 partition-seconds in which nobody consumed, all of them on the account of a.
      > See what keeps a from giving its partitions up, which a consumer does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms (60000 now).
    rebalance 5 superseded, epoch 6, cause left-closed, triggered by c, culprit a
    c was closed; a had 60.0 s to give up orders-3 to 8, and was gone before it had; another rebalance began after 42.0 s, before the group was Stable.
      22:13:54.000 c (10.0.0.9) was closed.
      22:14:36.000 a had 60.0 s to give up orders-3 to 8, and was gone before it had.
      22:14:36.000 another rebalance began before the group was Stable.
      6 partitions stood still, the longest for 42.0 s: 252.0 partition-seconds in which nobody consumed, all of them on the account of a.
      > See what keeps a from giving its partitions up, which a consumer does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms (60000 now).
    rebalance 6 empty, epoch 7, cause revocation-timeout, triggered by a, culprit a
    a did not give partitions up in time and was removed; the group was empty after 0 ms.
      22:14:36.000 a (10.0.0.7) did not give partitions up in time and was removed; it had been told 60.0 s earlier to give up orders-3 to 8; it was heard of 3 times meanwhile, the last time 39.0 s earlier, and had not given them up; its rebalance timeout, which is max.poll.interval.ms, is 60 s.
      22:14:36.000 nobody was left and the group was Empty.
      9 partitions have no owner and stand still afterwards.
      > See what keeps a from giving its partitions up, which a consumer does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms (60000 now).

== a member that gives up late what nobody waits for any more
clock
modern p
live8 10s p
modern q
live8 5s q
hb p
live8 10s q
go q
live8 20s
release p
tell
    rebalance 3 stable, epoch 4, cause left-closed, triggered by q, culprit p
    q was closed; p gave up orders-3 to 5 after 30.0 s; epoch 4 was Stable after 20.0 s.
      22:13:45.000 q (10.0.0.3) was closed.
      22:14:05.000 p gave up orders-3 to 5 after 30.0 s.
      22:14:05.000 the group was Stable with 1 member, 20.0 s after it began.
      3 partitions stood still, the longest for 20.0 s: 60.0 partition-seconds in which nobody consumed, all of them on the account of p.
      Everybody has the partitions that it had before.
      > See what keeps p from giving its partitions up, which a consumer does in poll(): its application is busy or blocked, or its rebalance listener takes long. Hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. Others wait for it up to max.poll.interval.ms (60000 now).

== a heartbeat interval of fifteen seconds
setup group_consumer_heartbeat_interval_ms=15000
clock
modern a
live8 10s a
modern u
wait 3400ms
tell
    rebalance 2 running, epoch 3, cause member-joined, triggered by u, no culprit
    a hears of its new target with its next heartbeat, within 11.6 s, and then gives up orders-3 to 5, which others shall have; u waits for that; u joined; the rebalance has been running for 3.4 s.
      22:13:30.000 u (10.0.0.7) joined.
wait 7s
hb a
wait 1s
tell
    rebalance 2 running, epoch 3, cause member-joined, triggered by u, no culprit
    a was told at 22:13:40.400 to give up orders-3 to 5; u waits for that; a is removed in 44.0 s; u joined; the rebalance has been running for 11.4 s.
      22:13:30.000 u (10.0.0.7) joined.
      22:13:40.400 a came for its new target after 10.4 s, for which u waited.
      3 partitions stand still, the longest for 1.0 s: 3.0 partition-seconds in which nobody consumes.
release a
release u
tell
    rebalance 2 stable, epoch 3, cause member-joined, triggered by u, culprit u
    u joined; a came for its new target after 10.4 s, for which u waited; epoch 3 was Stable after 11.4 s.
      22:13:30.000 u (10.0.0.7) joined.
      22:13:40.400 a came for its new target after 10.4 s, for which u waited.
      22:13:41.400 a gave up orders-3 to 5 after 1.0 s, for which u waited.
      22:13:41.400 u got orders-3 to 5, which others had to give up first, after 11.4 s.
      22:13:41.400 the group was Stable with 2 members, 11.4 s after it began.
      3 partitions stood still, the longest for 1.0 s: 3.0 partition-seconds in which nobody consumed, all of them on the account of u.
      3 partitions changed hands: 3 from a to u.

== a member has not come after its interval
clock
modern a
live8 10s a
modern u
wait 5500ms
tell
    rebalance 2 running, epoch 3, cause member-joined, triggered by u, no culprit
    a hears of its new target with its next heartbeat, and then gives up orders-3 to 5, which others shall have; u waits for that; u joined; the rebalance has been running for 5.5 s.
      22:13:30.000 u (10.0.0.7) joined.
wait 1s
tell
    rebalance 2 running, epoch 3, cause member-joined, triggered by u, culprit a
    a has not come for its new target since 22:13:30.000, and still has orders-3 to 5, which others shall have; u waits for that; a is removed in 28.5 s; u joined; the rebalance has been running for 6.5 s.
      22:13:30.000 u (10.0.0.7) joined.
      > See whether a still runs and reaches the broker: it has not been heard of since it was told. If it ended it is removed when its session or its time to give up is over.

== partitions that are free come with the next heartbeat
clock
modern a
live8 10s a
modern v
hb a
release a
wait 2s
tell
    rebalance 2 running, epoch 3, cause member-joined, triggered by v, no culprit
    v waits for orders-3 to 5; they are free, and v gets them with its next heartbeat, within 3.0 s; v joined; the rebalance has been running for 2.0 s.
      22:13:30.000 v (10.0.0.8) joined.
      3 partitions stand still, the longest for 2.0 s: 6.0 partition-seconds in which nobody consumes.
release v
tell
    rebalance 2 stable, epoch 3, cause member-joined, triggered by v, culprit v
    v joined; epoch 3 was Stable after 2.0 s.
      22:13:30.000 v (10.0.0.8) joined.
      22:13:32.000 v got orders-3 to 5, which others had to give up first, after 2.0 s.
      22:13:32.000 the group was Stable with 2 members, 2.0 s after it began.
      3 partitions stood still, the longest for 2.0 s: 6.0 partition-seconds in which nobody consumed, all of them on the account of v.
      3 partitions changed hands: 3 from a to v.

== who is back gets no advice about how it went
clock
modern a v
live8 20s a v
go v
live8 2m a
modern v
wait 1s
tell
    rebalance 4 running, epoch 5, cause member-returned, triggered by v, no culprit
    a hears of its new target with its next heartbeat, within 4.0 s, and then gives up orders-3 to 5, which others shall have; v waits for that; v came back, 2 min after it was closed; the rebalance has been running for 1.0 s.
      22:15:40.000 v (10.0.0.8) came back; 2 min earlier it was closed.

== classic members that are left alone in a consumer group
setup group_consumer_migration_policy=upgrade
modern a
join w1
sync w1
live8 6s a
beat w1
join w1
sync w1
live8 6s a
go a
clock
wait 60s w1
tell
    rebalance 4 running, epoch 4, cause left-closed, triggered by a, no culprit
    a new target has been due since 22:13:32.000, and is computed when somebody joins; only members of the classic protocol are left, and their heartbeats do not bring it; a was closed; the rebalance has been running for 60.0 s.
      22:13:32.000 a (10.0.0.7) was closed.
      3 partitions stand still, the longest for 60.0 s: 180.0 partition-seconds in which nobody consumes.
      > Restart one of the members, or remove one with `ottla groups evict`, so that it joins again: without that nobody gets what becomes free in a consumer group whose members are all classic. To make it a classic group, stop all members and start them. With group.consumer.migration.policy=bidirectional (or downgrade), for which the broker has to be restarted, it becomes one by itself.
join w1
sync w1
wait 3s w1
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by a, no culprit
    a started the group; epoch 2 was Stable after 0 ms.
      22:13:20.000 a (10.0.0.7) started the group.
      22:13:20.000 the group was Stable with 1 member, 0 ms after it began.
      6 partitions were handed out: 6 to a.
    rebalance 2 stable, epoch 3, cause member-joined, triggered by w1, culprit w1
    w1 joined; a gave up orders-3 to 5 after 1.0 s, for which w1 waited; epoch 3 was Stable after 6.0 s.
      22:13:20.000 w1 (10.0.0.9) joined.
      22:13:25.000 the target was computed 5.0 s after it was wanted: targets have to be some time apart, and each is computed with somebody's heartbeat.
      22:13:26.000 a gave up orders-3 to 5 after 1.0 s, for which w1 waited.
      22:13:26.000 the group was Stable with 2 members, 6.0 s after it began.
      3 partitions stood still, the longest for 1.0 s: 3.0 partition-seconds in which nobody consumed, all of them on the account of w1.
      3 partitions changed hands: 3 from a to w1.
    refusal 3 refused, cause downgrade-refused, triggered by a, no culprit
    a consumer group stays one.
      22:13:32.000 a consumer group stays one; group.consumer.migration.policy does not allow it.
      > Restart one of the members, or remove one with `ottla groups evict`, so that it joins again: without that nobody gets what becomes free in a consumer group whose members are all classic. To make it a classic group, stop all members and start them. With group.consumer.migration.policy=bidirectional (or downgrade), for which the broker has to be restarted, it becomes one by itself.
    rebalance 4 stable, epoch 4, cause left-closed, triggered by a, culprit a
    a was closed; epoch 4 was Stable after 60.0 s.
      22:13:32.000 a (10.0.0.7) was closed.
      22:14:32.000 the group was Stable with 1 member, 60.0 s after it began.
      3 partitions stood still, the longest for 60.0 s: 180.0 partition-seconds in which nobody consumed, all of them on the account of a.
      3 partitions changed hands: 3 from a to w1.
      > If a is restarted, not stopped for good: give each member a group.instance.id of its own, so that it keeps its partitions while it is away for no longer than the session timeout of the group (45000 now).

== members of the consumer protocol that are restarted one by one
modern a b
live8 20s a b
go a
live8 2s b
modern a
live8 20s a b
go b
live8 2s a
modern b
live8 20s a b
tell
    rebalance 6 stable, epoch 7, cause rolling-restart, triggered by b, culprit a
    Rolling restart, 2 members so far: b came back, 2.0 s after it was closed; a gave up orders-3 to 5 after 5.0 s, for which b waited; epoch 7 was Stable after 10.0 s.
      22:14:04.000 b (10.0.0.8) came back; 2.0 s earlier it was closed.
      22:14:09.000 the target was computed 5.0 s after it was wanted: targets have to be some time apart, and each is computed with somebody's heartbeat.
      22:14:14.000 a gave up orders-3 to 5 after 5.0 s, for which b waited.
      22:14:14.000 b got orders-3 to 5, which others had to give up first, after 5.0 s.
      22:14:14.000 the group was Stable with 2 members, 10.0 s after it began.
      The members are being restarted one after the other; 2 of them went and came back within ten minutes, each once.
      3 partitions stood still, the longest for 5.0 s: 15.0 partition-seconds in which nobody consumed, all of them on the account of a.
      3 partitions changed hands: 3 from a to b.
      > Give each member a group.instance.id of its own (not set now), and let the session timeout (45000 now) be above the time that a restart takes: then a restart needs no rebalance. That timeout is consumer.session.timeout.ms of the group, and session.timeout.ms of a client of the classic protocol.

== a member of the consumer protocol that crashes
modern a b
live8 20s a b
live8 60s a
tell
    rebalance 3 stable, epoch 4, cause session-expired-silent, triggered by b, culprit b
    b fell silent with its connection open, and its session ran out; epoch 4 was Stable after 0 ms.
      22:14:25.000 b (10.0.0.8) fell silent with its connection open, and its session ran out; it was last heard of 45.0 s before; the session timeout of its group is 45 s.
      22:14:25.000 the group was Stable with 1 member, 0 ms after it began.
      3 partitions stood still, the longest for 45.0 s: 135.0 partition-seconds in which nobody consumed, all of them on the account of b.
      3 partitions changed hands: 3 from b to a.
      > Look for pauses of b: garbage collection, a stopped container, a blocked event loop, too little CPU. If such pauses are normal, raise the session timeout (45000 now): consumer.session.timeout.ms of the group, or session.timeout.ms of a client of the classic protocol.

== members with different regexes that start together
modern a regex=ord.*
wait 11s
modern b regex=nothing.*
live8 20s a b
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by a, no culprit
    a started the group; epoch 2 was Stable after 16.0 s.
      22:13:20.000 a (10.0.0.7) started the group.
      22:13:20.000 the regex of a was held against the topics; "ord.*" matches 1 topic: orders.
      22:13:31.000 b (10.0.0.8) joined.
      22:13:36.000 b has orders-3 to 5 in its target and did not subscribe to them: nobody reads them.
      22:13:36.000 the group was Stable with 2 members, 16.0 s after it began.
      3 partitions were handed out: 3 to a.
      > Stop b, and start it again some seconds later: meanwhile the broker divides all partitions anew. This comes of members that start together with different regexes, here as in Apache Kafka. One regex that all members share avoids it.
    resolution 2 resolved, cause regex-resolved, triggered by b, culprit b
    The regex of b matches no topic.
      22:13:31.000 the regex of b (10.0.0.8) matches no topic; it is "nothing.*".
      > Compare the regex of b with the names of topics: it has to match the whole name, and upper and lower case differ. If the topic is yet to be created there is nothing to mend: regexes are held against topics again when one is created.

== members with different regexes that start together, and nobody gets anything
modern b regex=ord.*
wait 11s
modern c regex=nothing.*
live8 20s b c
tell all
    rebalance 1 stable, epoch 2, cause group-started, triggered by b, no culprit
    b started the group; epoch 2 was Stable after 16.0 s.
      22:13:20.000 b (10.0.0.8) started the group.
      22:13:20.000 the regex of b was held against the topics; "ord.*" matches 1 topic: orders.
      22:13:31.000 c (10.0.0.9) joined.
      22:13:36.000 the regex of b matches topics, and no target has their partitions: nobody reads them.
      22:13:36.000 the group was Stable with 2 members, 16.0 s after it began.
      Nobody has partitions.
      > Stop b, and start it again some seconds later: meanwhile the broker divides all partitions anew. This comes of members that start together with different regexes, here as in Apache Kafka. One regex that all members share avoids it.
    resolution 2 resolved, cause regex-resolved, triggered by c, culprit c
    The regex of c matches no topic.
      22:13:31.000 the regex of c (10.0.0.9) matches no topic; it is "nothing.*".
      > Compare the regex of c with the names of topics: it has to match the whole name, and upper and lower case differ. If the topic is yet to be created there is nothing to mend: regexes are held against topics again when one is created.
