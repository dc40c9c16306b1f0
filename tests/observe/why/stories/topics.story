== partitions that were added are the cause once
stable w1 w2
topic orders 8
topic orders 9
join w1
again w2
tell
    rebalance 2 stable, cause topic-metadata-changed, triggered by w1, no culprit
    orders had 6 partitions and has 9 now, so the leader w1 joined again; the join barrier waited 2.0 s for w2; generation 2 was Stable after 2.0 s.
      22:14:20.001 orders had 6 partitions and has 9 now, so the leader w1 (10.0.0.9) joined again; orders changed 0 ms before.
      22:14:20.001 the join barrier opened, to wait for w2 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 2 members, 2.0 s after it began.
      6 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed.
      3 partitions were handed out: 2 to w1, 1 to w2.
accounts
    rebalance 2 stable: cause topic-metadata-changed, triggered by w1, no culprit
    stood 6120, the longest 2020, stopped 6, unowned 0
    trigger topic-metadata-changed w1
    barrier join: 0 to 2000, nobody is missing
    barrier sync: 2000 to 2020, nobody is missing
    w1 stayed: 3 to 5, stood 6060, blamed 0
    w2 stayed: 3 to 4, stood 60, blamed 0
join w1
again w2
tell
    rebalance 3 stable, cause leader-rejoined, triggered by w1, culprit w1
    The leader w1 joined again, which always begins a rebalance; the join barrier waited 2.0 s for w2; generation 3 was Stable after 2.0 s.
      22:14:22.031 the leader w1 (10.0.0.9) joined again, which always begins a rebalance.
      22:14:22.031 the join barrier opened, to wait for w2 at most 5 min.
      22:14:24.031 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:24.031 generation 3 began, led by w1 with range.
      22:14:24.051 w1 sent the assignments after 20 ms.
      22:14:24.051 the group was Stable with 2 members, 2.0 s after it began.
      9 partitions stood still, the longest for 2.0 s: 10.2 partition-seconds in which nobody consumed, all of them on the account of w1.
accounts
    rebalance 3 stable: cause leader-rejoined, triggered by w1, culprit w1
    stood 10180, the longest 2020, stopped 9, unowned 0
    trigger leader-rejoined w1
    barrier join: 0 to 2000, nobody is missing
    barrier sync: 2000 to 2020, nobody is missing
    w1 stayed: 5 to 5, stood 10100, blamed 10180
    w2 stayed: 4 to 4, stood 80, blamed 0
topic orders 12
join w1
again w2
tell
    rebalance 4 stable, cause topic-metadata-changed, triggered by w1, no culprit
    orders had 9 partitions and has 12 now, so the leader w1 joined again; the join barrier waited 2.0 s for w2; generation 4 was Stable after 2.0 s.
      22:14:24.061 orders had 9 partitions and has 12 now, so the leader w1 (10.0.0.9) joined again; orders changed 0 ms before.
      22:14:24.061 the join barrier opened, to wait for w2 at most 5 min.
      22:14:26.061 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:26.061 generation 4 began, led by w1 with range.
      22:14:26.081 w1 sent the assignments after 20 ms.
      22:14:26.081 the group was Stable with 2 members, 2.0 s after it began.
      9 partitions stood still, the longest for 2.0 s: 10.2 partition-seconds in which nobody consumed.
      3 partitions were handed out: 2 to w2, 1 to w1.
accounts
    rebalance 4 stable: cause topic-metadata-changed, triggered by w1, no culprit
    stood 10180, the longest 2020, stopped 9, unowned 0
    trigger topic-metadata-changed w1
    barrier join: 0 to 2000, nobody is missing
    barrier sync: 2000 to 2020, nobody is missing
    w1 stayed: 5 to 6, stood 10100, blamed 0
    w2 stayed: 4 to 6, stood 80, blamed 0

== topics that the leader does not subscribe to are no reason
stable w1 w2
topic refunds 8
join w1
again w2
accounts
    rebalance 2 stable: cause leader-rejoined, triggered by w1, culprit w1
    stood 6120, the longest 2020, stopped 6, unowned 0
    trigger leader-rejoined w1
    barrier join: 0 to 2000, nobody is missing
    barrier sync: 2000 to 2020, nobody is missing
    w1 stayed: 3 to 3, stood 6060, blamed 6120
    w2 stayed: 3 to 3, stood 60, blamed 0

== a topic that changed long ago is no reason
stable w1 w2
topic orders 8
wait 601s w1 w2
join w1
again w2
accounts
    rebalance 2 stable: cause leader-rejoined, triggered by w1, culprit w1
    stood 6120, the longest 2020, stopped 6, unowned 0
    trigger leader-rejoined w1
    barrier join: 0 to 2000, nobody is missing
    barrier sync: 2000 to 2020, nobody is missing
    w1 stayed: 3 to 4, stood 6060, blamed 6120
    w2 stayed: 3 to 4, stood 60, blamed 0

== a topic that is deleted
setup partitions=orders:2+refunds:2
new w1 w2 topics=orders+refunds
stable w1 w2
topic refunds 0
join w1
again w2
tell
    rebalance 2 stable, cause topic-metadata-changed, triggered by w1, no culprit
    refunds was deleted, so the leader w1 joined again; the join barrier waited 2.0 s for w2; generation 2 was Stable after 2.0 s.
      22:14:20.001 refunds was deleted, so the leader w1 (10.0.0.9) joined again; refunds changed 0 ms before.
      22:14:20.001 the join barrier opened, to wait for w2 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 2 members, 2.0 s after it began.
      4 partitions stood still, the longest for 2.0 s: 4.1 partition-seconds in which nobody consumed; 2 partitions have no owner and stand still afterwards.
      2 partitions changed hands: 1 from w1 to nobody, 1 from w2 to nobody.
accounts
    rebalance 2 stable: cause topic-metadata-changed, triggered by w1, no culprit
    stood 4080, the longest 2020, stopped 4, unowned 2
    trigger topic-metadata-changed w1
    barrier join: 0 to 2000, nobody is missing
    barrier sync: 2000 to 2020, nobody is missing
    w1 stayed: 2 to 1, stood 4040, blamed 0
    w2 stayed: 2 to 1, stood 40, blamed 0
join w1
again w2
tell
    rebalance 3 stable, cause leader-rejoined, triggered by w1, culprit w1
    The leader w1 joined again, which always begins a rebalance; the join barrier waited 2.0 s for w2; generation 3 was Stable after 2.0 s.
      22:14:22.031 the leader w1 (10.0.0.9) joined again, which always begins a rebalance.
      22:14:22.031 the join barrier opened, to wait for w2 at most 5 min.
      22:14:24.031 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:24.031 generation 3 began, led by w1 with range.
      22:14:24.051 w1 sent the assignments after 20 ms.
      22:14:24.051 the group was Stable with 2 members, 2.0 s after it began.
      4 partitions stood still, the longest for 2.0 s: 6.1 partition-seconds in which nobody consumed, all of them on the account of w1; 2 partitions have no owner and stand still afterwards.
accounts
    rebalance 3 stable: cause leader-rejoined, triggered by w1, culprit w1
    stood 6100, the longest 2030, stopped 4, unowned 2
    trigger leader-rejoined w1
    barrier join: 0 to 2000, nobody is missing
    barrier sync: 2000 to 2020, nobody is missing
    w1 stayed: 1 to 1, stood 4050, blamed 6100
    w2 stayed: 1 to 1, stood 2050, blamed 0

== several topics are told by the newest and the number of the others
setup partitions=orders:2+refunds:2
new w1 w2 topics=orders+refunds
stable w1 w2
topic refunds 4
topic orders 5
join w1
again w2
tell
    rebalance 2 stable, cause topic-metadata-changed, triggered by w1, no culprit
    orders had 2 partitions and has 5 now, so the leader w1 joined again; the join barrier waited 2.0 s for w2; generation 2 was Stable after 2.0 s.
      22:14:20.001 orders had 2 partitions and has 5 now, so the leader w1 (10.0.0.9) joined again; orders changed 0 ms before; 1 more of its topics changed.
      22:14:20.001 the join barrier opened, to wait for w2 at most 5 min.
      22:14:22.001 the join barrier closed after 2.0 s: w2 (10.0.0.0) came last.
      22:14:22.001 generation 2 began, led by w1 with range.
      22:14:22.021 w1 sent the assignments after 20 ms.
      22:14:22.021 the group was Stable with 2 members, 2.0 s after it began.
      4 partitions stood still, the longest for 2.0 s: 4.1 partition-seconds in which nobody consumed.
      5 partitions were handed out: 3 to w1, 2 to w2.

== who changes its subscription itself is the culprit
stable w1 w2
topic orders-eu 3
change w2 topics=orders+orders-eu+refunds
join w2
again w1
accounts
    rebalance 2 stable: cause subscription-changed, triggered by w2, culprit w2
    stood 6120, the longest 2020, stopped 6, unowned 0
    trigger subscription-changed w2
    barrier join: 0 to 2000, nobody is missing
    barrier sync: 2000 to 2020, nobody is missing
    w1 stayed: 3 to 3, stood 60, blamed 0
    w2 stayed: 3 to 6, stood 6060, blamed 6120
    advice topics

== a topic that was there when the group formed explains no new subscription
topic orders-eu 3
stable w1 w2
change w2 topics=orders+orders-eu
join w2
again w1
accounts
    rebalance 2 stable: cause subscription-changed, triggered by w2, culprit w2
    stood 6120, the longest 2020, stopped 6, unowned 0
    trigger subscription-changed w2
    barrier join: 0 to 2000, nobody is missing
    barrier sync: 2000 to 2020, nobody is missing
    w1 stayed: 3 to 3, stood 60, blamed 0
    w2 stayed: 3 to 6, stood 6060, blamed 6120
    advice topics
