== a group that was emptied and started again was no rolling restart
setup group_initial_rebalance_delay_ms=1s
stable w1 w2
leave w1 reason="the consumer is being closed"
wait 100ms
leave w2 reason="the consumer is being closed"
wait 100ms
wait 10s
start w1 w2 after_ms=3s
accounts
    rebalance 3 stable: cause group-started, triggered by w1, no culprit
    stood 0, the longest 0, stopped 0, unowned 0
    trigger group-started w1
    trigger member-returned w2
    barrier initial delay: 0 to 2000, nobody is missing
    barrier sync: 2000 to 3000, nobody is missing
    w1 returned: 0 to 3, stood 0, blamed 0
    w2 returned: 0 to 3, stood 0, blamed 0
    advice group.initial.rebalance.delay.ms 1000

== members of a group that was emptied come back one by one
stable w1 w2
leave w1 reason="the consumer is being closed"
wait 100ms
leave w2 reason="the consumer is being closed"
wait 100ms
start w1
wait 3s w1
join w2
again w1
accounts
    rebalance 4 stable: cause member-returned, triggered by w2, culprit w2
    stood 120, the longest 20, stopped 6, unowned 0
    trigger member-returned w2
    barrier join: 0 to 2000, nobody is missing
    barrier sync: 2000 to 2020, nobody is missing
    w1 stayed: 6 to 3, stood 120, blamed 0
    w2 returned: 0 to 3, stood 0, blamed 120
    advice group.instance.id

== several to whom the same happened at once
stable w1 w2 w3
disconnect w1
disconnect w2
wait 45s w3
tell
    rebalance 2 running, cause session-expired-connection-lost, triggered by w2 and w1, culprit w2
    w2 and w1 crashed: their connections were lost and their sessions ran out; the rebalance is running and waits for w3.
      22:15:05.001 w2 (10.0.0.0) crashed: its connection was lost and its session ran out; the connection was lost 45.0 s before; it was last heard of 45.0 s before; its session.timeout.ms is 45 s.
      22:15:05.001 w1 (10.0.0.9) crashed: its connection was lost and its session ran out; the connection was lost 45.0 s before; it was last heard of 45.0 s before; its session.timeout.ms is 45 s.
      22:15:05.001 the join barrier opened, to wait for w3 at most 5 min.
      4 partitions stand still, the longest for 45.0 s: 180.0 partition-seconds in which nobody consumes, 90.0 of them on the account of w2.
      > See what keeps w3 from rejoining, which a member does when it calls poll(). If that takes long, hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. The others wait for it up to max.poll.interval.ms (300000 now).

== several who were removed at once
stable w1 w2 w3
leave w1 w2 reason="member was removed by an admin" by=tool
again w3
tell
    rebalance 2 stable, cause removed-by-admin, triggered by w1 and w2, no culprit
    w1 and w2 were removed by an administrator; the join barrier waited 2.0 s for w3; generation 2 was Stable after 2.0 s.
      22:14:20.001 w1 (10.0.0.9) was removed by an administrator; the request came from tool at 10.0.0.8; the reason given was "member was removed by an admin".
      22:14:20.001 w2 (10.0.0.0) was removed by an administrator; the request came from tool at 10.0.0.8; the reason given was "member was removed by an admin".
      22:14:20.001 the join barrier opened, to wait for w3 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w3 (10.0.0.1) came last.
      22:14:22.001 generation 2 began, led by w3 with range.
      22:14:22.021 w3 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 1 member, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 8.1 partition-seconds in which nobody consumed.
      4 partitions changed hands: 2 from w1 to w3, 2 from w2 to w3.
