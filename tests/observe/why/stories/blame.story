== the one that all waited for is the culprit and not the one that joined
stable w1 w2
join w3
wait 1s
join w1
wait 27800ms
join w2
sync w1 w2 w3
# w1's three stood still for 27.8 s.
blamed w2 3*27800
tell
    rebalance 2 stable, cause member-joined, triggered by w3, culprit w2
    w3 joined; the join barrier waited 28.8 s for w2; generation 2 was Stable after 28.8 s.
      22:14:20.001 w3 (10.0.0.1) joined.
      22:14:20.001 the join barrier opened, to wait for w1 and w2 at most 5 min.
      22:14:48.801 the join barrier closed after 28.8 s: w2 (10.0.0.0) came last.
      22:14:48.801 generation 2 began, led by w1 (10.0.0.9) with range.
      22:14:48.801 w1 sent the assignments after 0 ms.
      22:14:48.801 the group was Stable with 3 members, 28.8 s after it began.
      3 partitions stood still, the longest for 27.8 s: 83.4 partition-seconds in which nobody consumed, all of them on the account of w2.
      4 partitions changed hands: 1 from w1 to w2, 1 from w1 to w3, 1 from w2 to w1, 1 from w2 to w3.
      > w2 took 28.8 s to rejoin, which a member does when it calls poll(). Let it poll more often: hand it fewer records at a time with max.poll.records. The others wait for it up to max.poll.interval.ms (300000 now).
accounts
    rebalance 2 stable: cause member-joined, triggered by w3, culprit w2
    stood 83400, the longest 27800, stopped 3, unowned 0
    trigger member-joined w3
    barrier join: 0 to 28800, nobody is missing
    barrier sync: 28800 to 28800, nobody is missing
    w1 stayed: 3 to 2, stood 83400, blamed 0
    w2 stayed: 3 to 2, stood 0, blamed 83400
    w3 new: 0 to 2, stood 0, blamed 0
    advice max.poll.interval.ms 300000

== while others may still come in time nobody is the culprit
stable w1 w2
join w3
wait 2s
accounts
    rebalance 2 running: cause member-joined, triggered by w3, no culprit
    stood 0, the longest 0, stopped 0, unowned 0
    trigger member-joined w3
    barrier join: 0 to -1, nobody is missing
    w1 stayed: 3 to 0, stood 0, blamed 0
    w2 stayed: 3 to 0, stood 0, blamed 0
    w3 new: 0 to 0, stood 0, blamed 0
    advice max.poll.interval.ms 300000
join w1
wait 3s w2
join w4
accounts
    rebalance 2 running: cause member-joined, triggered by w3, culprit w2
    stood 9000, the longest 3000, stopped 3, unowned 0
    trigger member-joined w3
    trigger member-joined w4
    barrier join: 0 to -1, nobody is missing
    w1 stayed: 3 to 0, stood 9000, blamed 0
    w2 stayed: 3 to 0, stood 0, blamed 9000
    w3 new: 0 to 0, stood 0, blamed 0
    w4 new: 0 to 0, stood 0, blamed 0
    advice max.poll.interval.ms 300000

== one that is busy until it leaves without a word is told to poll
# librdkafka on a topic without records: nothing was committed, so only the barrier shows that it is busy.
stable w1 w2
wait 400s w1 w2
join w3
wait 1s
join w1
wait 56s w2
leave w2 version=1
sync w1 w3
tell
    rebalance 2 stable, cause member-joined, triggered by w3, culprit w2
    w3 joined; the join barrier waited 57.0 s for w2; generation 2 was Stable after 57.0 s.
      22:21:00.001 w3 (10.0.0.1) joined.
      22:21:00.001 the join barrier opened, to wait for w1 and w2 at most 5 min.
      22:21:57.001 w2 (10.0.0.0) left, since its application had not called poll() in time; it gave no reason, but its connection stayed open and the group had waited 57.0 s for it to rejoin, so its application was busy or blocked; its max.poll.interval.ms is 5 min.
      22:21:57.001 the join barrier closed after 57.0 s: w2 was waited for until then.
      22:21:57.001 generation 2 began, led by w1 (10.0.0.9) with range.
      22:21:57.001 w1 sent the assignments after 0 ms.
      22:21:57.001 the group was Stable with 2 members, 57.0 s after it began.
      3 partitions stood still, the longest for 56.0 s: 168.0 partition-seconds in which nobody consumed, all of them on the account of w2.
      3 partitions changed hands: 3 from w2 to w3.
      > Let w2 call poll() more often: hand it fewer records at a time with max.poll.records, or do long work outside of the poll loop; raise max.poll.interval.ms (300000 now) only if its work really takes so long.
accounts
    rebalance 2 stable: cause member-joined, triggered by w3, culprit w2
    stood 168000, the longest 56000, stopped 3, unowned 0
    trigger member-joined w3
    trigger left-poll-timeout w2
    barrier join: 0 to 57000, nobody is missing
    barrier sync: 57000 to 57000, nobody is missing
    w1 stayed: 3 to 3, stood 168000, blamed 0
    w2 left: 3 to 0, stood 0, blamed 168000, last signs at [46000]
    w3 new: 0 to 3, stood 0, blamed 0
    advice max.poll.interval.ms 300000

== one that comes and goes since it is busy is told to poll
stable w1 w2
leave w2 reason="consumer poll timeout has expired."
again w1
wait 3s w1
join w2
again w1
sync w2
wait 5s w1 w2
leave w2 reason="consumer poll timeout has expired."
again w1
wait 3s w1
join w2
again w1
sync w2
wait 5s w1 w2
leave w2 reason="consumer poll timeout has expired."
again w1
wait 3s w1
join w2
again w1
sync w2
wait 5s w1 w2
leave w2 reason="consumer poll timeout has expired."
again w1
wait 3s w1
join w2
again w1
sync w2
wait 5s w1 w2
tell
    rebalance 9 stable, cause flapping-member, triggered by w2, culprit w2
    w2 comes and goes, 4 times within ten minutes: w2 came back, 5.0 s after it missed its poll deadline; the join barrier waited 2.0 s for w1; generation 9 was Stable after 2.0 s.
      22:15:01.211 w2 (10.0.0.0) came back; 5.0 s earlier it missed its poll deadline.
      22:15:01.211 the join barrier opened, to wait for w1 at most 5 min.
      22:15:03.211 the join barrier closed after 2.0 s: w1 (10.0.0.9) came last.
      22:15:03.211 generation 9 began, led by w1 with range.
      22:15:03.231 w1 sent the assignments after 20 ms.
      22:15:03.231 the group was Stable with 2 members, 2.0 s after it began.
      w2 comes and goes; it left or was removed 4 times within ten minutes.
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      3 partitions changed hands: 3 from w1 to w2.
      > Let w2 call poll() more often: hand it fewer records at a time with max.poll.records, or do long work outside of the poll loop; raise max.poll.interval.ms (300000 now) only if its work really takes so long.
accounts
    rebalance 9 stable: cause flapping-member, triggered by w2, culprit w2
    stood 120, the longest 20, stopped 6, unowned 0
    trigger member-returned w2
    trigger flapping-member w2
    barrier join: 0 to 2000, nobody is missing
    barrier sync: 2000 to 2020, nobody is missing
    w1 stayed: 6 to 3, stood 120, blamed 0
    w2 returned: 0 to 3, stood 0, blamed 120
    advice max.poll.interval.ms 300000
leave w2 reason="the consumer is being closed"
again w1
wait 3s w1
join w1
sync w1
tell
    rebalance 11 stable, cause leader-rejoined, triggered by w1, culprit w1
    The leader w1 joined again, which always begins a rebalance; generation 11 was Stable after 0 ms.
      22:15:13.271 the leader w1 (10.0.0.9) joined again, which always begins a rebalance.
      22:15:13.271 generation 11 began, led by w1 with range.
      22:15:13.271 w1 sent the assignments after 0 ms.
      22:15:13.271 the group was Stable with 1 member, 0 ms after it began.
      No partition is known to have stood still.
accounts
    rebalance 11 stable: cause leader-rejoined, triggered by w1, culprit w1
    stood 0, the longest 0, stopped 0, unowned 0
    trigger leader-rejoined w1
    barrier sync: 0 to 0, nobody is missing
    w1 stayed: 6 to 6, stood 0, blamed 0

== what a connection tells later is of that departure and of no pattern
# w2 comes and goes; the last time it leaves while it is awaited, and only then its connection is closed.
stable w1 w2
leave w2 reason="the consumer is being closed"
again w1
join w2
again w1
sync w2
wait 5s w1 w2
leave w2 reason="the consumer is being closed"
again w1
join w2
again w1
sync w2
wait 5s w1 w2
leave w2 reason="the consumer is being closed"
again w1
join w2
again w1
sync w2
wait 5s w1 w2
join w3 w1
wait 20s w2
leave w2 version=1
sync w1 w3
accounts
    rebalance 8 stable: cause flapping-member, triggered by w3, culprit w2
    stood 60000, the longest 20000, stopped 3, unowned 0
    trigger member-joined w3
    trigger left-poll-timeout w2
    trigger flapping-member w2
    barrier join: 0 to 20000, nobody is missing
    barrier sync: 20000 to 20000, nobody is missing
    w1 stayed: 3 to 3, stood 60000, blamed 0
    w2 left: 3 to 0, stood 0, blamed 60000, last signs at [-5000]
    w3 new: 0 to 3, stood 0, blamed 0
    advice max.poll.interval.ms 300000
wait 50ms
disconnect w2
accounts
    rebalance 8 stable: cause flapping-member, triggered by w3, culprit w2
    stood 60000, the longest 20000, stopped 3, unowned 0
    trigger member-joined w3
    trigger left-closed w2
    trigger flapping-member w2
    barrier join: 0 to 20000, nobody is missing
    barrier sync: 20000 to 20000, nobody is missing
    w1 stayed: 3 to 3, stood 60000, blamed 0
    w2 left: 3 to 0, stood 0, blamed 60000, last signs at [-5000]
    w3 new: 0 to 3, stood 0, blamed 0
    advice max.poll.interval.ms 300000

== one that is closed while it is awaited was closed
stable w1 w2
join w3 w1
wait 20s w2
leave w2 version=1
sync w1 w3
accounts
    rebalance 2 stable: cause member-joined, triggered by w3, culprit w2
    stood 60000, the longest 20000, stopped 3, unowned 0
    trigger member-joined w3
    trigger left-poll-timeout w2
    barrier join: 0 to 20000, nobody is missing
    barrier sync: 20000 to 20000, nobody is missing
    w1 stayed: 3 to 3, stood 60000, blamed 0
    w2 left: 3 to 0, stood 0, blamed 60000, last signs at [-18000]
    w3 new: 0 to 3, stood 0, blamed 0
    advice max.poll.interval.ms 300000
wait 50ms
disconnect w2
accounts
    rebalance 2 stable: cause member-joined, triggered by w3, culprit w2
    stood 60000, the longest 20000, stopped 3, unowned 0
    trigger member-joined w3
    trigger left-closed w2
    barrier join: 0 to 20000, nobody is missing
    barrier sync: 20000 to 20000, nobody is missing
    w1 stayed: 3 to 3, stood 60000, blamed 0
    w2 left: 3 to 0, stood 0, blamed 60000, last signs at [-18000]
    w3 new: 0 to 3, stood 0, blamed 0
    advice group.instance.id

== whoever hears of it by its next heartbeat is no culprit
stable w1 w2 w3
join w4 w1
wait 1500ms
join w2
wait 1400ms
join w3
sync w1 w2 w3 w4
accounts
    rebalance 2 stable: cause member-joined, triggered by w4, culprit w4
    stood 8600, the longest 2900, stopped 4, unowned 0
    trigger member-joined w4
    barrier join: 0 to 2900, nobody is missing
    barrier sync: 2900 to 2900, nobody is missing
    w1 stayed: 2 to 2, stood 5800, blamed 0
    w2 stayed: 2 to 2, stood 2800, blamed 0
    w3 stayed: 2 to 1, stood 0, blamed 0
    w4 new: 0 to 1, stood 0, blamed 8600
    advice partition.assignment.strategy range

== what the only other member does keeps nobody waiting but the one that joins
# Nothing is known to stand still: the busy one has all there is.
stable w1
join w2
wait 28800ms w1
join w1
sync w1 w2
accounts
    rebalance 2 stable: cause member-joined, triggered by w2, culprit w1
    stood 0, the longest 0, stopped 0, unowned 0
    trigger member-joined w2
    barrier join: 0 to 28800, nobody is missing
    barrier sync: 28800 to 28800, nobody is missing
    w1 stayed: 6 to 3, stood 0, blamed 0
    w2 new: 0 to 3, stood 0, blamed 0
    advice max.poll.interval.ms 300000

== two that are late share what stands still
stable w1 w2 w3
join w4 w1
wait 9s
join w2
wait 4s
join w3
sync w1 w2 w3 w4
# Both are late for 9 s, with w1's two; then w3 alone, with w1's and w2's.
blamed w2 9000
blamed w3 9000+4*4000
accounts
    rebalance 2 stable: cause member-joined, triggered by w4, culprit w3
    stood 34000, the longest 13000, stopped 4, unowned 0
    trigger member-joined w4
    barrier join: 0 to 13000, nobody is missing
    barrier sync: 13000 to 13000, nobody is missing
    w1 stayed: 2 to 2, stood 26000, blamed 0
    w2 stayed: 2 to 2, stood 8000, blamed 9000
    w3 stayed: 2 to 1, stood 0, blamed 25000
    w4 new: 0 to 1, stood 0, blamed 0
    advice max.poll.interval.ms 300000

== who crashed is the culprit of all that it left
stable w1 w2 w3
disconnect w2
wait 46s w1 w3
again w1 w3 after_ms=0ms
accounts
    rebalance 2 stable: cause session-expired-connection-lost, triggered by w2, culprit w2
    stood 92120, the longest 46020, stopped 6, unowned 0
    trigger session-expired-connection-lost w2
    barrier join: 0 to 1000, nobody is missing
    barrier sync: 1000 to 1020, nobody is missing
    w1 stayed: 2 to 3, stood 40, blamed 0
    w3 stayed: 2 to 3, stood 40, blamed 0
    w2 expired: 2 to 0, stood 92040, blamed 92120, last signs at [-45000, -45000]
    advice session.timeout.ms 45000

== who closes is not the culprit if another keeps the group waiting
stable w1 w2 w3
leave w3 reason="the consumer is being closed"
wait 500ms
join w1
wait 20s
join w2
sync w1 w2
blamed w2 2*20500+2*20000
accounts
    rebalance 2 stable: cause left-closed, triggered by w3, culprit w2
    stood 81000, the longest 20500, stopped 4, unowned 0
    trigger left-closed w3
    barrier join: 0 to 20500, nobody is missing
    barrier sync: 20500 to 20500, nobody is missing
    w1 stayed: 2 to 3, stood 40000, blamed 0
    w2 stayed: 2 to 3, stood 0, blamed 81000
    w3 left: 2 to 0, stood 41000, blamed 0, last signs at [-18000]
    advice max.poll.interval.ms 300000

== a leader that sends no assignments keeps all others waiting
stable w1 w2
join w3 w1 w2
wait 10s
sync w2 w3
sync w1
blamed w1 6*10000
accounts
    rebalance 2 stable: cause member-joined, triggered by w3, culprit w1
    stood 60000, the longest 10000, stopped 6, unowned 0
    trigger member-joined w3
    barrier join: 0 to 0, nobody is missing
    barrier sync: 0 to 10000, nobody is missing
    w1 stayed: 3 to 2, stood 30000, blamed 60000
    w2 stayed: 3 to 2, stood 30000, blamed 0
    w3 new: 0 to 2, stood 0, blamed 0
    advice partition.assignment.strategy range

== a normal start has no culprit
setup group_initial_rebalance_delay_ms=3s
join w1
wait 1500ms
join w2 w3
wait 6s
sync w1 w2 w3
accounts
    rebalance 1 stable: cause group-started, triggered by w1, no culprit
    stood 0, the longest 0, stopped 0, unowned 0
    trigger group-started w1
    trigger member-joined w2
    trigger member-joined w3
    barrier initial delay: 0 to 6000, nobody is missing
    barrier sync: 6000 to 7500, nobody is missing
    w1 new: 0 to 2, stood 0, blamed 0
    w2 new: 0 to 2, stood 0, blamed 0
    w3 new: 0 to 2, stood 0, blamed 0
    advice group.initial.rebalance.delay.ms 3000

== a consumer that starts and is closed is no culprit
stable w1
leave w1 reason="the consumer is being closed"
accounts
    rebalance 2 empty: cause left-closed, triggered by w1, no culprit
    stood 0, the longest 0, stopped 0, unowned 6
    trigger left-closed w1
    w1 left: 6 to 0, stood 0, blamed 0, last signs at [-18000]
    advice group.instance.id

== the last one that crashes is a culprit
stable w1
wait 1m
accounts
    rebalance 2 empty: cause session-expired-silent, triggered by w1, culprit w1
    stood 270000, the longest 45000, stopped 6, unowned 6
    trigger session-expired-silent w1
    w1 expired: 6 to 0, stood 270000, blamed 270000, last signs at [-45000]
    advice session.timeout.ms 45000

== nobody is blamed for what an administrator did
stable w1 w2 w3
leave w2 reason="member was removed by an admin" by=admin
wait 2900ms
again w1 w3 after_ms=0ms
stood 2*2920+4*20
accounts
    rebalance 2 stable: cause removed-by-admin, triggered by w2, no culprit
    stood 5920, the longest 2920, stopped 6, unowned 0
    trigger removed-by-admin w2
    barrier join: 0 to 2900, nobody is missing
    barrier sync: 2900 to 2920, nobody is missing
    w1 stayed: 2 to 3, stood 40, blamed 0
    w3 stayed: 2 to 3, stood 40, blamed 0
    w2 left: 2 to 0, stood 5840, blamed 0, last signs at [-18000]

== partitions that were given up as told are on nobodys account
new w1 w2 w3 assignors=cooperative-sticky
stable w1 w2
join w3
again w1 w2
sync w3
join w2 reason="need to revoke partitions and re-join"
again w1 w3
accounts 2
    rebalance 2 stable: cause member-joined, triggered by w3, culprit w3
    stood 0, the longest 0, stopped 0, unowned 4
    trigger member-joined w3
    barrier join: 0 to 2000, nobody is missing
    barrier sync: 2000 to 2020, nobody is missing
    w1 stayed: 3 to 1, stood 0, blamed 0
    w2 stayed: 3 to 1, stood 0, blamed 0
    w3 new: 0 to 0, stood 0, blamed 0
    rebalance 3 stable: cause cooperative-follow-up, triggered by w2, no culprit
    stood 8120, the longest 2030, stopped 4, unowned 0
    trigger cooperative-follow-up w2
    barrier join: 0 to 2000, nobody is missing
    barrier sync: 2000 to 2020, nobody is missing
    w1 stayed: 1 to 2, stood 4060, blamed 0
    w2 stayed: 1 to 2, stood 4060, blamed 0
    w3 stayed: 0 to 2, stood 0, blamed 0

== a static member that was away is the culprit of its own
new w1 instance=i1
new w2 instance=i2
stable w1 w2
disconnect w2
wait 4s w1
forget w2
join w2
blamed w2 3*4000
accounts
    replacement 2 replaced: cause static-member-replaced, triggered by i2, culprit i2
    stood 12000, the longest 4000, stopped 3, unowned 0
    trigger static-member-replaced w2
    w2 replaced: 3 to 0, stood 12000, blamed 12000

== a barrier that opens again leaves nobody more time
new w1 instance=i1 poll_ms=10s
new w2 instance=i2 poll_ms=10s
new w3 poll_ms=10s
stable w1 w2 w3
leave w3 reason="the consumer is being closed"
wait 12s w1 w2
start w1 w2 after_ms=20ms
# w3's two stood still for 12 s, in which both others were late; then all did for 20 ms.
blamed w1 1*12000
blamed w2 1*12000
blamed w3 6*20
accounts
    rebalance 2 stable: cause left-closed, triggered by w3, culprit i1
    stood 24120, the longest 12020, stopped 6, unowned 0
    trigger left-closed w3
    trigger nobody-rejoined -
    barrier join: 0 to 10000, nobody is missing
    barrier join: 10000 to 12000, nobody is missing
    barrier sync: 12000 to 12020, nobody is missing
    w1 stayed: 2 to 3, stood 40, blamed 12000
    w2 stayed: 2 to 3, stood 40, blamed 12000
    w3 left: 2 to 0, stood 24040, blamed 120, last signs at [-18000]
    advice max.poll.interval.ms 10000

== a member that heartbeats and does not rejoin is named
start w1 w2
wait 1m w1 w2
join w3
wait 1s w1 w2
join w1
wait 310s w2
sync w1 w3
# What w2 had stood still from its last heartbeat on, what w1 had from its JoinGroup on.
stood 3*310000+3*13000
accounts
    rebalance 2 stable: cause member-joined, triggered by w3, culprit w2
    stood 969000, the longest 310000, stopped 6, unowned 0
    trigger member-joined w3
    trigger join-barrier-missed w2
    barrier join: 0 to 300000, w2 is missing
    barrier sync: 300000 to 311000, nobody is missing
    w1 stayed: 3 to 3, stood 930000, blamed 66000
    w2 dropped: 3 to 0, stood 39000, blamed 903000, last signs at [298000]
    w3 new: 0 to 3, stood 0, blamed 0
    advice max.poll.interval.ms 300000
