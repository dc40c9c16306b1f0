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
