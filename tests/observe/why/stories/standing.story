== eager members stop when they rejoin
setup partitions=orders:6
start w1 w2
wait 30s w1 w2
join w3
wait 1s
join w1
wait 2s
join w2
wait 500ms
sync w1 w2 w3
# w1's three from 1.0 s, w2's three from 3.0 s, both until 3.5 s.
stood 3*2500+3*500
accounts
    rebalance 2 stable: cause member-joined, triggered by w3, culprit w3
    stood 9000, the longest 2500, stopped 6, unowned 0
    trigger member-joined w3
    barrier join: 0 to 3000, nobody is missing
    barrier sync: 3000 to 3500, nobody is missing
    w1 stayed: 3 to 2, stood 7500, blamed 0
    w2 stayed: 3 to 2, stood 1500, blamed 0
    w3 new: 0 to 2, stood 0, blamed 9000
    advice partition.assignment.strategy range

== who is silent stopped when it was last heard of
setup partitions=orders:6
start w1 w2
wait 30s w1 w2
wait 48s w1
start w1 after_ms=100ms
# w2's session ran out 45 s after its last heartbeat; w1 rejoined 3 s later and had the assignment 0.1 s after that.
stood w1 3*100
stood w2 3*48100
accounts
    rebalance 2 stable: cause session-expired-silent, triggered by w2, culprit w2
    stood 144600, the longest 48100, stopped 6, unowned 0
    trigger session-expired-silent w2
    barrier join: 0 to 3000, nobody is missing
    barrier sync: 3000 to 3100, nobody is missing
    w1 stayed: 3 to 6, stood 300, blamed 0
    w2 expired: 3 to 0, stood 144300, blamed 144600, last signs at [-45000]
    advice session.timeout.ms 45000

== a lost connection is later than the last heartbeat
setup partitions=orders:6
start w1 w2
wait 30s w1 w2
wait 2s
disconnect w2
wait 46s w1
start w1 after_ms=10ms
# It stood still since the connection was lost, which was 2 s after its last heartbeat.
accounts
    rebalance 2 stable: cause session-expired-connection-lost, triggered by w2, culprit w2
    stood 138060, the longest 46010, stopped 6, unowned 0
    trigger session-expired-connection-lost w2
    barrier join: 0 to 3000, nobody is missing
    barrier sync: 3000 to 3010, nobody is missing
    w1 stayed: 3 to 6, stood 30, blamed 0
    w2 expired: 3 to 0, stood 138030, blamed 138060, last signs at [-45000, -43000]
    advice session.timeout.ms 45000

== who leaves stops at once
setup partitions=orders:6
start w1 w2
wait 30s w1 w2
leave w2
wait 1500ms
start w1 after_ms=10ms
stood w1 3*10
stood w2 3*1510
accounts
    rebalance 2 stable: cause left-without-reason, triggered by w2, culprit w2
    stood 4560, the longest 1510, stopped 6, unowned 0
    trigger left-without-reason w2
    barrier join: 0 to 1500, nobody is missing
    barrier sync: 1500 to 1510, nobody is missing
    w1 stayed: 3 to 6, stood 30, blamed 0
    w2 left: 3 to 0, stood 4530, blamed 4560, last signs at [-30000]
    advice group.instance.id

== cooperative members go on with what they keep
new w1 w2 w3 assignors=cooperative-sticky
stable w1 w2
join w3
again w1 w2
sync w3
join w2 reason="need to revoke partitions and re-join"
again w1 w3
# In the first rebalance nothing stands still; it ends with two partitions of each given up, for the new member.
# They stand still until the second is over.
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

== what stood still is charged once over several rebalances
setup partitions=orders:6
start w1 w2
wait 30s w1 w2
join w1 w2
wait 1s
join w3
join w1 w2
wait 2s
sync w1 w2 w3
# the leader rejoins: everything stops
# before anybody has an assignment
# The first stands still for 6*1000.
stood 6*2000
accounts 2
    rebalance 2 superseded: cause leader-rejoined, triggered by w1, culprit w1
    stood 6000, the longest 1000, stopped 6, unowned 0
    trigger leader-rejoined w1
    barrier join: 0 to 0, nobody is missing
    barrier sync: 0 to 1000, nobody is missing
    w1 stayed: 3 to 0, stood 3000, blamed 6000
    w2 stayed: 3 to 0, stood 3000, blamed 0
    rebalance 3 stable: cause member-joined, triggered by w3, culprit w3
    stood 12000, the longest 2000, stopped 6, unowned 0
    trigger member-joined w3
    barrier join: 0 to 0, nobody is missing
    barrier sync: 0 to 2000, nobody is missing
    w1 stayed: 3 to 2, stood 6000, blamed 0
    w2 stayed: 3 to 2, stood 6000, blamed 0
    w3 new: 0 to 2, stood 0, blamed 12000
    advice partition.assignment.strategy range

== nobody is left
setup partitions=orders:6
start w1
wait 30s w1
leave w1
accounts
    rebalance 2 empty: cause left-without-reason, triggered by w1, no culprit
    stood 0, the longest 0, stopped 0, unowned 6
    trigger left-without-reason w1
    w1 left: 6 to 0, stood 0, blamed 0, last signs at [-30000]
    advice group.instance.id
wait 60m
start w2
# A group that nobody was in for an hour did not stand still: nobody wanted anything.
accounts
    rebalance 3 stable: cause group-started, triggered by w2, no culprit
    stood 0, the longest 0, stopped 0, unowned 0
    trigger group-started w2
    barrier initial delay: 0 to 0, nobody is missing
    barrier sync: 0 to 1, nobody is missing
    w2 new: 0 to 6, stood 0, blamed 0

== topics that nobody wants any more do not stand still
setup partitions=orders:2+refunds:2
new w1 topics=orders+refunds
start w1
wait 10s w1
change w1 topics=orders
start w1 after_ms=1s
accounts
    rebalance 2 stable: cause subscription-changed, triggered by w1, culprit w1
    stood 4000, the longest 1000, stopped 4, unowned 0
    trigger subscription-changed w1
    barrier sync: 0 to 1000, nobody is missing
    w1 stayed: 4 to 2, stood 4000, blamed 4000
    advice topics
wait 9s w1
start w1 after_ms=10ms
stood 2*10
accounts
    rebalance 3 stable: cause leader-rejoined, triggered by w1, culprit w1
    stood 20, the longest 10, stopped 2, unowned 0
    trigger leader-rejoined w1
    barrier sync: 0 to 10, nobody is missing
    w1 stayed: 2 to 2, stood 20, blamed 20

== what is assigned and not fetched stands still
join w1 w2
wait 1ms
sync w1
wait 7s w1 w2
sync w2
wait 1s w1 w2
start w1 w2 after_ms=10ms
# late, but in time
stood 6*10
accounts
    rebalance 2 stable: cause leader-rejoined, triggered by w1, culprit w1
    stood 60, the longest 10, stopped 6, unowned 0
    trigger leader-rejoined w1
    barrier join: 0 to 0, nobody is missing
    barrier sync: 0 to 10, nobody is missing
    w1 stayed: 3 to 3, stood 30, blamed 60
    w2 stayed: 3 to 3, stood 30, blamed 0

== a static member that is away stands still until it is back
new w1 instance=i1
new w2 instance=i2
stable w1 w2
disconnect w2
wait 4s w1
forget w2
join w2
accounts
    replacement 2 replaced: cause static-member-replaced, triggered by i2, culprit i2
    stood 12000, the longest 4000, stopped 3, unowned 0
    trigger static-member-replaced w2
    w2 replaced: 3 to 0, stood 12000, blamed 12000
stood 3*4000
wait 5ms
sync w2
wait 2s w1 w2
join w3
again w1 w2 after_ms=10ms
accounts
    rebalance 3 stable: cause member-joined, triggered by w3, culprit w3
    stood 120, the longest 20, stopped 6, unowned 0
    trigger member-joined w3
    barrier join: 0 to 10, nobody is missing
    barrier sync: 10 to 30, nobody is missing
    w1 stayed: 3 to 2, stood 60, blamed 0
    w2 stayed: 3 to 2, stood 60, blamed 0
    w3 new: 0 to 2, stood 0, blamed 120

== assignments that cannot be read are called unknown
new c1 c2 type=connect assignors=sessioned
start c1 c2
wait 3s c1 c2
leave c2
start c1 after_ms=10ms
tell
    rebalance 2 stable, cause left-without-reason, triggered by c2, culprit c2
    c2 left without saying why; generation 2 was Stable after 10 ms.
      22:13:23.001 c2 (10.0.0.0) left without saying why.
      22:13:23.001 the join barrier opened, to wait at most 5 min.
      22:13:23.001 the join barrier closed after 0 ms.
      22:13:23.001 generation 2 began, led by c1 (10.0.0.9) with sessioned.
      22:13:23.011 c1 sent the assignments after 10 ms.
      22:13:23.011 the group was Stable with 1 member, 10 ms after it began.
      What stood still is unknown: the members' assignments cannot be read.
accounts
    rebalance 2 stable: cause left-without-reason, triggered by c2, culprit c2
    stood 0, the longest 0, stopped 0, unowned 0
    trigger left-without-reason c2
    barrier join: 0 to 0, nobody is missing
    barrier sync: 0 to 10, nobody is missing
    c1 stayed: 0 to 0, stood 0, blamed 0
    c2 left: 0 to 0, stood 0, blamed 0, last signs at [-3000]
