== an initial delay is spoken of while it lasts
setup group_initial_rebalance_delay_ms=3s
new w1 w2 poll_ms=1m
join w1 w2
wait 1s
tell
    rebalance 1 running, cause group-started, triggered by w1, no culprit
    w1 started the group; the rebalance is running.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 the group waited 3 s for others to start, too.
      > A new group waits for group.initial.rebalance.delay.ms (3000 now) so that its members start together; set it to 0 where that does not matter, as in tests.
accounts
    rebalance 1 running: cause group-started, triggered by w1, no culprit
    stood 0, the longest 0, stopped 0, unowned 0
    trigger group-started w1
    trigger member-joined w2
    barrier initial delay: 0 to -1, nobody is missing
    w1 new: 0 to 0, stood 0, blamed 0
    w2 new: 0 to 0, stood 0, blamed 0
    advice group.initial.rebalance.delay.ms 3000

== a leader that blocks a new group is spoken of and not the delay before
setup group_initial_rebalance_delay_ms=3s
new w1 w2 poll_ms=1m
join w1 w2
wait 6s
tell
    rebalance 1 running, cause group-started, triggered by w1, no culprit
    w1 started the group; the rebalance is running and waits for w1.
      22:13:20.000 w1 (10.0.0.9) started the group.
      22:13:20.000 w2 (10.0.0.0) joined.
      22:13:20.000 the group waited 6 s for others to start, too.
      22:13:26.000 generation 1 began, led by w1 with range.
      > See what w1 does between JoinGroup and SyncGroup: as leader it computes the assignments there, and its rebalance listener or assignor is blocked. Others wait for it up to max.poll.interval.ms (60000 now).
accounts
    rebalance 1 running: cause group-started, triggered by w1, no culprit
    stood 0, the longest 0, stopped 0, unowned 0
    trigger group-started w1
    trigger member-joined w2
    barrier initial delay: 0 to 6000, nobody is missing
    barrier sync: 6000 to -1, nobody is missing
    w1 new: 0 to 0, stood 0, blamed 0
    w2 new: 0 to 0, stood 0, blamed 0
    advice max.poll.interval.ms 60000

== who is awaited at the join barrier is spoken of
stable w1 w2
join w3
wait 1s
join w1
tell
    rebalance 2 running, cause member-joined, triggered by w3, no culprit
    w3 joined; the rebalance is running and waits for w2.
      22:14:20.001 w3 (10.0.0.1) joined.
      22:14:20.001 the join barrier opened, to wait for w1 and w2 at most 5 min.
      > See what keeps w2 from rejoining, which a member does when it calls poll(). If that takes long, hand it fewer records at a time with max.poll.records, and keep short what is done when partitions are revoked. The others wait for it up to max.poll.interval.ms (300000 now).
accounts
    rebalance 2 running: cause member-joined, triggered by w3, no culprit
    stood 0, the longest 0, stopped 0, unowned 0
    trigger member-joined w3
    barrier join: 0 to -1, nobody is missing
    w1 stayed: 3 to 0, stood 0, blamed 0
    w2 stayed: 3 to 0, stood 0, blamed 0
    w3 new: 0 to 0, stood 0, blamed 0
    advice max.poll.interval.ms 300000

== of somebody awaited whose connection is lost no poll loop is blamed
stable w1 w2
join w3 w1
disconnect w2
wait 1s
tell
    rebalance 2 running, cause member-joined, triggered by w3, no culprit
    w3 joined; the rebalance is running and waits for w2.
      22:14:20.001 w3 (10.0.0.1) joined.
      22:14:20.001 the join barrier opened, to wait for w2 at most 5 min.
      > Find out why w2 ended without leaving. Let it call close() when it is stopped; a lower session.timeout.ms (45000 now) lets the group notice a crash sooner.
accounts
    rebalance 2 running: cause member-joined, triggered by w3, no culprit
    stood 0, the longest 0, stopped 0, unowned 0
    trigger member-joined w3
    barrier join: 0 to -1, nobody is missing
    w1 stayed: 3 to 0, stood 0, blamed 0
    w2 stayed: 3 to 0, stood 0, blamed 0, last signs at [0]
    w3 new: 0 to 0, stood 0, blamed 0
    advice session.timeout.ms 45000

== who is no consumer has no poll loop
new c1 c2 type=connect assignors=sessioned poll_ms=1m
start c1 c2
wait 3s c1 c2
leave c2
wait 3s c1
tell
    rebalance 2 running, cause left-without-reason, triggered by c2, culprit c2
    c2 left without saying why; the rebalance is running and waits for c1.
      22:13:23.001 c2 (10.0.0.0) left without saying why.
      22:13:23.001 the join barrier opened, to wait for c1 at most 60 s.
      What stood still is unknown: the members' assignments cannot be read.
      > See what kept c1 from rejoining: the group waits for it up to the rebalance timeout that it asked for (60000 now), with Kafka Connect rebalance.timeout.ms.
accounts
    rebalance 2 running: cause left-without-reason, triggered by c2, culprit c2
    stood 0, the longest 0, stopped 0, unowned 0
    trigger left-without-reason c2
    barrier join: 0 to -1, nobody is missing
    c1 stayed: 0 to 0, stood 0, blamed 0
    c2 left: 0 to 0, stood 0, blamed 0, last signs at [-3000]
    advice rebalance.timeout.ms 60000

== an initial delay that is over is not blamed for what a barrier took
setup group_initial_rebalance_delay_ms=3s
new w1 w2 poll_ms=1m
join w1 w2
wait 67s w1 w2
accounts
    rebalance 2 empty: cause leader-never-synced, triggered by w1, culprit w1
    stood 0, the longest 0, stopped 0, unowned 0
    trigger leader-never-synced w1
    trigger sync-timeout w2
    w1 unsynced: 0 to 0, stood 0, blamed 0, last signs at [-3000]
    w2 unsynced: 0 to 0, stood 0, blamed 0, last signs at [-3000]
    advice max.poll.interval.ms 60000
