== who was heard of after its connection was lost has another
stable w1 w2
disconnect w2
wait 90s w1 w2
wait 46s w1
accounts
    rebalance 2 running: cause session-expired-silent, triggered by w2, culprit w2
    stood 135000, the longest 45000, stopped 3, unowned 0
    trigger session-expired-silent w2
    barrier join: 0 to -1, nobody is missing
    w1 stayed: 3 to 0, stood 0, blamed 0
    w2 expired: 3 to 0, stood 135000, blamed 135000, last signs at [-45000]
    advice max.poll.interval.ms 300000

== a frozen process that wakes up is told from a dead one
stable w1 w2
wait 48s w1
again w1 after_ms=10ms
wait 5s w1
beat w2
forget w2
join w2
again w1
tell
    rebalance 3 stable, cause member-returned, triggered by w2, culprit w2
    w2 came back, 8.0 s after it was removed as silent; the join barrier waited 2.0 s for w1; generation 3 was Stable after 2.0 s.
      22:15:13.041 w2 (10.0.0.0) came back; 8.0 s earlier it was removed as silent; 8.0 s after that it was heard of again under its old id, so its process had lived on.
      22:15:13.041 the join barrier opened, to wait for w1 at most 5 min.
      22:15:15.041 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:15:15.041 generation 3 began, led by w1 with range.
      22:15:15.061 w1 sent the assignments after 20 ms.
      22:15:15.061 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      3 partitions changed hands: 3 from w1 to w2.
      > Look for pauses of w2: garbage collection, a stopped container, a blocked event loop, too little CPU. If such pauses are normal, raise session.timeout.ms (45000 now).
accounts
    rebalance 3 stable: cause member-returned, triggered by w2, culprit w2
    stood 120, the longest 20, stopped 6, unowned 0
    trigger member-returned w2
    barrier join: 0 to 2000, nobody is missing
    barrier sync: 2000 to 2020, nobody is missing
    w1 stayed: 6 to 3, stood 120, blamed 0
    w2 returned: 0 to 3, stood 0, blamed 120
    advice session.timeout.ms 45000

== an unknown leader is not invented
stable w1 w2
restart
wait 46s w1
tell
    rebalance 3 running, cause session-expired, triggered by w2, culprit w2
    The session of w2 ran out; the rebalance is running and waits for w1.
      22:15:05.001 the session of w2 (10.0.0.0) ran out; it was not heard of since the broker started 45.0 s before; its session.timeout.ms is 45 s.
      22:15:05.001 the join barrier opened, to wait for w1 at most 5 min.
      3 partitions stand still, the longest for 45.0 s: 135.0 partition-seconds in which nobody consumes, all of them on the account of w2.
      > See what keeps w1 from rejoining, which a member does when it calls poll(). If that takes long, hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. The others wait for it up to max.poll.interval.ms (300000 now).
accounts
    rebalance 3 running: cause session-expired, triggered by w2, culprit w2
    stood 135000, the longest 45000, stopped 3, unowned 0
    trigger session-expired w2
    barrier join: 0 to -1, nobody is missing
    w1 stayed: 3 to 0, stood 0, blamed 0
    w2 expired: 3 to 0, stood 135000, blamed 135000
    advice max.poll.interval.ms 300000

== who crashed before the broker stood still
stable w1 w2
disconnect w2
wait 20s w1
stall 60000
tell
    rebalance 2 empty, cause session-expired-connection-lost, triggered by w2, culprit w2
    w2 crashed: its connection was lost and its session ran out; the group was empty after 0 ms.
      22:15:40.001 w2 (10.0.0.0) crashed: its connection was lost and its session ran out; the connection was lost 80.0 s before; it was last heard of 80.0 s before; its session.timeout.ms is 45 s.
      22:15:40.001 the broker stood still past the end of the session of w1 (10.0.0.9), for 15.0 s or more; it was last heard of 60.0 s before; its session.timeout.ms is 45 s.
      22:15:40.001 the join barrier opened, to wait at most 5 min.
      22:15:40.001 the join barrier closed after 0 ms.
      22:15:40.001 nobody was left and the group was Empty.
      6 partitions stood still, the longest for 80.0 s: 420.0 partition-seconds in which nobody consumed, 240.0 of them on the account of w2; 6 partitions have no owner and stand still afterwards.
      > Find out why w2 ended without leaving. Let it call close() when it is stopped; a lower session.timeout.ms (45000 now) lets the group notice a crash sooner.

== a crashed application is back under another id
stable w1 w2
disconnect w2
forget w2
join w2
again w1 after_ms=3000ms
wait 43s w1
sync w2
tell
    rebalance 2 running, cause member-joined, triggered by w2-3, culprit w2-2
    w2-3 joined; the join barrier waited 45.0 s for w2-2; the rebalance is running.
      22:14:20.001 w2-3 (10.0.0.0) joined.
      22:14:20.001 the join barrier opened, to wait for w1 and w2-2 at most 5 min.
      22:15:05.001 w2-2 (10.0.0.0) crashed: its connection was lost and its session ran out; the connection was lost 45.0 s before; it was last heard of 45.0 s before; its session.timeout.ms is 45 s.
      22:15:05.001 the join barrier closed after 45.0 s: w2-2 was waited for until then.
      22:15:05.001 generation 2 began, led by w1 (10.0.0.9) with range.
      6 partitions stand still, the longest for 46.0 s: 267.2 partition-seconds in which nobody consumes, 264.1 of them on the account of w2-2.
      > If w2-2 was restarted: give each member a group.instance.id of its own (not set now), so that it takes its old place when it is back within its session timeout (45000 now), without a rebalance; or let it call close() when it is stopped, so that nobody waits for it. If it was not, find out why it ended.

== a member of the consumer protocol, and the broker hangs
modern w1 w2
live8 20s w1 w2
stall 60000
tell
    rebalance 3 empty, epoch 5, cause broker-stood-still, triggered by w1 and w2, no culprit
    The broker stood still past the ends of the sessions of w1 and w2, for 15.0 s or more; the group was empty after 0 ms.
      22:14:40.000 the broker stood still past the end of the session of w1 (10.0.0.9), for 15.0 s or more; it was last heard of 60.0 s before; the session timeout of its group is 45 s.
      22:14:40.000 the broker stood still past the end of the session of w2 (10.0.0.0), for 15.0 s or more; it was last heard of 60.0 s before; the session timeout of its group is 45 s.
      22:14:40.000 nobody was left and the group was Empty.
      6 partitions stood still, the longest for 60.0 s: 360.0 partition-seconds in which nobody consumed; 6 partitions have no owner and stand still afterwards.
      > See what stopped the broker, and not its members: SIGSTOP or a debugger, a container or machine that was paused, no CPU, or memory that was swapped out.
