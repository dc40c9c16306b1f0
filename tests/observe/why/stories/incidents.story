== the first generation
setup group_initial_rebalance_delay_ms=3s
new one two three session_ms=6s poll_ms=6s
start one two three after_ms=6s
live one two three for_ms=5s
accounts
    rebalance 1 stable: cause group-started, triggered by one, no culprit
    stood 0, the longest 0, stopped 0, unowned 0
    trigger group-started one
    trigger member-joined two
    trigger member-joined three
    barrier initial delay: 0 to 6000, nobody is missing
    barrier sync: 6000 to 6000, nobody is missing
    one new: 0 to 2, stood 0, blamed 0
    two new: 0 to 2, stood 0, blamed 0
    three new: 0 to 2, stood 0, blamed 0
    advice group.initial.rebalance.delay.ms 3000

== slow poll loop, said
setup group_initial_rebalance_delay_ms=3s
new one two three session_ms=6s poll_ms=6s
start one two three after_ms=6s
live one two three for_ms=5s
live one two three for_ms=6s busy=two
leave two reason="consumer poll timeout has expired."
wait 500ms
again one three after_ms=20ms
live one three for_ms=3s
accounts
    rebalance 2 stable: cause left-poll-timeout, triggered by two, culprit two
    stood 1160, the longest 540, stopped 6, unowned 0
    trigger left-poll-timeout two
    barrier join: 0 to 520, nobody is missing
    barrier sync: 520 to 540, nobody is missing
    one stayed: 2 to 3, stood 40, blamed 0
    three stayed: 2 to 3, stood 40, blamed 0
    two left: 2 to 0, stood 1080, blamed 1160, last signs at [-1000]
    advice max.poll.interval.ms 6000

== slow poll loop, not said
# Clients of librdkafka do not say why they leave; but they stay connected, and heartbeated to the last.
setup group_initial_rebalance_delay_ms=3s
new one two three session_ms=6s poll_ms=6s
start one two three after_ms=6s
live one two three for_ms=5s
live one two three for_ms=6s busy=two
leave two
wait 500ms
again one three after_ms=20ms
live one three for_ms=3s
accounts
    rebalance 2 stable: cause left-poll-timeout, triggered by two, culprit two
    stood 1160, the longest 540, stopped 6, unowned 0
    trigger left-poll-timeout two
    barrier join: 0 to 520, nobody is missing
    barrier sync: 520 to 540, nobody is missing
    one stayed: 2 to 3, stood 40, blamed 0
    three stayed: 2 to 3, stood 40, blamed 0
    two left: 2 to 0, stood 1080, blamed 1160, last signs at [-1000]
    advice max.poll.interval.ms 6000

== who comes back is told with how it went
# That is the last that is told of most incidents, so the cause must not be hidden behind it.
setup group_initial_rebalance_delay_ms=3s
new one two three session_ms=6s poll_ms=6s
start one two three after_ms=6s
live one two three for_ms=5s
live one two three for_ms=6s busy=two
leave two
again one three after_ms=20ms
live one three for_ms=4s
join two
again one three after_ms=20ms
sync two
tell
    rebalance 3 stable, cause member-returned, triggered by two, culprit two
    two came back, 4.0 s after it missed its poll deadline; generation 3 was Stable after 40 ms.
      22:13:41.050 two (10.0.0.1) came back; 4.0 s earlier it missed its poll deadline.
      22:13:41.050 the join barrier opened, to wait for one and three at most 6 s.
      22:13:41.070 the join barrier closed after 20 ms.
      22:13:41.070 generation 3 began, led by one (10.0.0.1) with range.
      22:13:41.090 one sent the assignments after 20 ms.
      22:13:41.090 the group was Stable with 3 members, 40 ms after it began.
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      4 partitions changed hands: 1 from one to three, 1 from one to two, 1 from three to one, 1 from three to two.
      > Let two call poll() more often: hand it fewer records at a time with max.poll.records, or do long work outside of the poll loop; raise max.poll.interval.ms (6000 now) only if its work really takes so long.
accounts
    rebalance 3 stable: cause member-returned, triggered by two, culprit two
    stood 120, the longest 20, stopped 6, unowned 0
    trigger member-returned two
    barrier join: 0 to 20, nobody is missing
    barrier sync: 20 to 40, nobody is missing
    one stayed: 3 to 2, stood 60, blamed 0
    three stayed: 3 to 2, stood 60, blamed 0
    two returned: 0 to 2, stood 0, blamed 120
    advice max.poll.interval.ms 6000

== a leader that comes back
setup group_initial_rebalance_delay_ms=3s
new one two three session_ms=30s poll_ms=6s
join one two three
wait 6s
sync two three
wait 6s
start two three after_ms=20ms
live two three for_ms=2s
forget one
join one
again two three after_ms=20ms
sync one
tell
    rebalance 3 stable, cause member-returned, triggered by one, culprit one
    one came back, 2.0 s after it was dropped for sending no assignments; generation 3 was Stable after 40 ms.
      22:13:34.020 one (10.0.0.1) came back; 2.0 s earlier it was dropped for sending no assignments.
      22:13:34.020 the join barrier opened, to wait for two and three at most 6 s.
      22:13:34.040 the join barrier closed after 20 ms.
      22:13:34.040 generation 3 began, led by two (10.0.0.1) with range.
      22:13:34.060 two sent the assignments after 20 ms.
      22:13:34.060 the group was Stable with 3 members, 40 ms after it began.
      6 partitions stood still, the longest for 20 ms: 0.1 partition-seconds in which nobody consumed.
      4 partitions changed hands: 1 from two to three, 1 from two to one, 1 from three to two, 1 from three to one.
      > See what one does between JoinGroup and SyncGroup: as leader it computes the assignments there, and its rebalance listener or assignor is blocked. Others wait for it up to max.poll.interval.ms (6000 now).

== slow flush at a rebalance
setup group_initial_rebalance_delay_ms=3s
new one two three session_ms=6s poll_ms=6s
start one two three after_ms=6s
live one two three for_ms=5s
new four session_ms=6s poll_ms=6s
join four
beat one three
join one three
live two for_ms=6s busy=two
sync one three four
accounts
    rebalance 2 stable: cause member-joined, triggered by four, culprit two
    stood 26000, the longest 6000, stopped 6, unowned 0
    trigger member-joined four
    trigger join-barrier-missed two
    barrier join: 0 to 6000, two is missing
    barrier sync: 6000 to 6000, nobody is missing
    one stayed: 2 to 2, stood 12000, blamed 0
    two dropped: 2 to 0, stood 2000, blamed 26000, last signs at [5000]
    three stayed: 2 to 2, stood 12000, blamed 0
    four new: 0 to 2, stood 0, blamed 0
    advice max.poll.interval.ms 6000

== crash
setup group_initial_rebalance_delay_ms=3s
new one two three session_ms=6s poll_ms=6s
start one two three after_ms=6s
live one two three for_ms=5s
disconnect two
live one three for_ms=6s
again one three after_ms=20ms
# It began 6 s after the connection was lost.
accounts
    rebalance 2 stable: cause session-expired-connection-lost, triggered by two, culprit two
    stood 12160, the longest 6040, stopped 6, unowned 0
    trigger session-expired-connection-lost two
    barrier join: 0 to 20, nobody is missing
    barrier sync: 20 to 40, nobody is missing
    one stayed: 2 to 3, stood 40, blamed 0
    three stayed: 2 to 3, stood 40, blamed 0
    two expired: 2 to 0, stood 12080, blamed 12160, last signs at [-6000, -6000]
    advice session.timeout.ms 6000

== standing still
# As SIGSTOP, a long collection of garbage, or a machine that swaps.
setup group_initial_rebalance_delay_ms=3s
new one two three session_ms=6s poll_ms=6s
start one two three after_ms=6s
live one two three for_ms=5s
live one three for_ms=6s
again one three after_ms=20ms
accounts
    rebalance 2 stable: cause session-expired-silent, triggered by two, culprit two
    stood 12160, the longest 6040, stopped 6, unowned 0
    trigger session-expired-silent two
    barrier join: 0 to 20, nobody is missing
    barrier sync: 20 to 40, nobody is missing
    one stayed: 2 to 3, stood 40, blamed 0
    three stayed: 2 to 3, stood 40, blamed 0
    two expired: 2 to 0, stood 12080, blamed 12160, last signs at [-6000]
    advice session.timeout.ms 6000

== rolling restart of an application
setup group_initial_rebalance_delay_ms=3s
new one two three session_ms=6s poll_ms=6s
start one two three after_ms=6s
live one two three for_ms=5s
leave one reason="the consumer is being closed"
wait 5ms
disconnect one
wait 400ms
again two three after_ms=20ms
live two three for_ms=2s
join one
wait 300ms
again two three after_ms=20ms
sync one
live one two three for_ms=2s
accounts 2
    rebalance 2 stable: cause left-closed, triggered by one, culprit one
    stood 970, the longest 445, stopped 6, unowned 0
    trigger left-closed one
    barrier join: 0 to 425, nobody is missing
    barrier sync: 425 to 445, nobody is missing
    two stayed: 2 to 3, stood 40, blamed 0
    three stayed: 2 to 3, stood 40, blamed 0
    one left: 2 to 0, stood 890, blamed 970, last signs at [0]
    advice group.instance.id
    rebalance 3 stable: cause member-returned, triggered by one, culprit one
    stood 120, the longest 20, stopped 6, unowned 0
    trigger member-returned one
    barrier join: 0 to 320, nobody is missing
    barrier sync: 320 to 340, nobody is missing
    two stayed: 3 to 2, stood 60, blamed 0
    three stayed: 3 to 2, stood 60, blamed 0
    one returned: 0 to 2, stood 0, blamed 120
    advice group.instance.id
leave two reason="the consumer is being closed"
wait 5ms
disconnect two
wait 400ms
again one three after_ms=20ms
live one three for_ms=2s
join two
wait 300ms
again one three after_ms=20ms
sync two
live one two three for_ms=2s
accounts 2
    rebalance 4 stable: cause left-closed, triggered by two, culprit two
    stood 970, the longest 445, stopped 6, unowned 0
    trigger left-closed two
    barrier join: 0 to 425, nobody is missing
    barrier sync: 425 to 445, nobody is missing
    three stayed: 2 to 3, stood 40, blamed 0
    one stayed: 2 to 3, stood 40, blamed 0
    two left: 2 to 0, stood 890, blamed 970, last signs at [0]
    advice group.instance.id
    rebalance 5 stable: cause rolling-restart, triggered by two, culprit two
    stood 120, the longest 20, stopped 6, unowned 0
    trigger member-returned two
    trigger rolling-restart two
    barrier join: 0 to 320, nobody is missing
    barrier sync: 320 to 340, nobody is missing
    three stayed: 3 to 2, stood 60, blamed 0
    one stayed: 3 to 2, stood 60, blamed 0
    two returned: 0 to 2, stood 0, blamed 120
    advice group.instance.id
leave three reason="the consumer is being closed"
wait 5ms
disconnect three
wait 400ms
again one two after_ms=20ms
live one two for_ms=2s
join three
wait 300ms
again one two after_ms=20ms
sync three
live one two three for_ms=2s
accounts 2
    rebalance 6 stable: cause rolling-restart, triggered by three, culprit three
    stood 970, the longest 445, stopped 6, unowned 0
    trigger left-closed three
    trigger rolling-restart three
    barrier join: 0 to 425, nobody is missing
    barrier sync: 425 to 445, nobody is missing
    one stayed: 2 to 3, stood 40, blamed 0
    two stayed: 2 to 3, stood 40, blamed 0
    three left: 2 to 0, stood 890, blamed 970, last signs at [0]
    advice group.instance.id
    rebalance 7 stable: cause rolling-restart, triggered by three, culprit three
    stood 120, the longest 20, stopped 6, unowned 0
    trigger member-returned three
    trigger rolling-restart three
    barrier join: 0 to 320, nobody is missing
    barrier sync: 320 to 340, nobody is missing
    one stayed: 3 to 2, stood 60, blamed 0
    two stayed: 3 to 2, stood 60, blamed 0
    three returned: 0 to 2, stood 0, blamed 120
    advice group.instance.id

== rolling restart of static applications
setup group_initial_rebalance_delay_ms=3s
new one session_ms=6s poll_ms=6s instance=pod-one
new two session_ms=6s poll_ms=6s instance=pod-two
new three session_ms=6s poll_ms=6s instance=pod-three
start one two three after_ms=6s
wait 1s
disconnect one
live two three for_ms=2s
forget one
start one after_ms=5ms
accounts
    replacement 2 replaced: cause static-member-replaced, triggered by pod-one, culprit pod-one
    stood 4000, the longest 2000, stopped 2, unowned 0
    trigger static-member-replaced one
    one replaced: 2 to 0, stood 4000, blamed 4000
wait 1s
disconnect two
live one three for_ms=2s
forget two
start two after_ms=5ms
accounts
    replacement 3 replaced: cause rolling-restart, triggered by pod-two, culprit pod-two
    stood 4000, the longest 2000, stopped 2, unowned 0
    trigger static-member-replaced two
    trigger rolling-restart two
    two replaced: 2 to 0, stood 4000, blamed 4000
wait 1s
disconnect three
live one two for_ms=2s
forget three
start three after_ms=5ms
accounts
    replacement 4 replaced: cause rolling-restart, triggered by pod-three, culprit pod-three
    stood 4000, the longest 2000, stopped 2, unowned 0
    trigger static-member-replaced three
    trigger rolling-restart three
    three replaced: 2 to 0, stood 4000, blamed 4000

== mixed assignors
setup group_initial_rebalance_delay_ms=3s
new one two three session_ms=6s poll_ms=6s
start one two three after_ms=6s
live one two three for_ms=5s
new four session_ms=6s poll_ms=6s assignors=cooperative-sticky
join four
tell
    refusal 2 refused, cause turned-away-assignor-mismatch, triggered by four, culprit four
    four was turned away: the members have no assignor in common with it.
      22:13:31.000 four (10.0.0.4) was turned away: the members have no assignor in common with it; it offers cooperative-sticky; all members of the group have range; one, two, three have nothing in common with it.
      > Let all members have one partition.assignment.strategy in common (four has cooperative-sticky). Add range to those of four.

== flapping member
setup group_initial_rebalance_delay_ms=3s
new one two three session_ms=6s poll_ms=6s
start one two three after_ms=6s
live one two three for_ms=5s
leave two reason="the consumer is being closed"
wait 5ms
disconnect two
wait 300ms
join two
again one three after_ms=20ms
sync two
live one two three for_ms=2s
leave two reason="the consumer is being closed"
wait 5ms
disconnect two
wait 300ms
join two
again one three after_ms=20ms
sync two
live one two three for_ms=2s
leave two reason="the consumer is being closed"
wait 5ms
disconnect two
wait 300ms
join two
again one three after_ms=20ms
sync two
live one two three for_ms=2s
leave two reason="the consumer is being closed"
wait 5ms
disconnect two
wait 300ms
join two
again one three after_ms=20ms
sync two
live one two three for_ms=2s
tell
    rebalance 5 stable, cause flapping-member, triggered by two-6, culprit two-6
    two comes and goes, 4 times within ten minutes: two-6 was closed; generation 5 was Stable after 345 ms.
      22:13:38.065 two-6 (10.0.0.1) was closed; it said "the consumer is being closed".
      22:13:38.065 the join barrier opened, to wait for one and three at most 6 s.
      22:13:38.370 two-7 (10.0.0.1) came back; 305 ms earlier it was closed.
      22:13:38.390 the join barrier closed after 325 ms.
      22:13:38.390 generation 5 began, led by one (10.0.0.1) with range.
      22:13:38.410 one sent the assignments after 20 ms.
      22:13:38.410 the group was Stable with 3 members, 345 ms after it began.
      two comes and goes; it left or was removed 4 times within ten minutes.
      6 partitions stood still, the longest for 345 ms: 0.8 partition-seconds in which nobody consumed.
      2 partitions changed hands: 2 from two-6 to two-7.
      > Look at two before anything else: each of its comings and goings is a rebalance for all. Until it is mended a group.instance.id of its own (not set now) keeps its restarts from the others.

== blocked leader
setup group_initial_rebalance_delay_ms=3s
new one two three session_ms=30s poll_ms=6s
join one two three
wait 6s
sync two three
wait 3s
tell
    rebalance 1 running, cause group-started, triggered by one, no culprit
    one started the group; the rebalance is running and waits for one.
      22:13:20.000 one (10.0.0.1) started the group.
      22:13:20.000 two (10.0.0.1) joined.
      22:13:20.000 three (10.0.0.1) joined.
      22:13:20.000 the group waited 6 s for others to start, too.
      22:13:26.000 generation 1 began, led by one with range.
      > See what one does between JoinGroup and SyncGroup: as leader it computes the assignments there, and its rebalance listener or assignor is blocked. Others wait for it up to max.poll.interval.ms (6000 now).
wait 3s
start two three after_ms=20ms
accounts 2
    rebalance 1 superseded: cause group-started, triggered by one, culprit one
    stood 0, the longest 0, stopped 0, unowned 0
    trigger group-started one
    trigger member-joined two
    trigger member-joined three
    trigger leader-never-synced one
    barrier initial delay: 0 to 6000, nobody is missing
    barrier sync: 6000 to 12000, one is missing
    one unsynced: 0 to 0, stood 0, blamed 0, last signs at [6000]
    two new: 0 to 0, stood 0, blamed 0
    three new: 0 to 0, stood 0, blamed 0
    advice max.poll.interval.ms 6000
    rebalance 2 stable: cause leader-never-synced, triggered by one, culprit one
    stood 0, the longest 0, stopped 0, unowned 0
    trigger leader-never-synced one
    barrier join: 0 to 0, nobody is missing
    barrier sync: 0 to 20, nobody is missing
    two stayed: 0 to 3, stood 0, blamed 0
    three stayed: 0 to 3, stood 0, blamed 0
    one unsynced: 0 to 0, stood 0, blamed 0, last signs at [-6000]
    advice max.poll.interval.ms 6000

== subscription change
setup group_initial_rebalance_delay_ms=3s
new one two three session_ms=6s poll_ms=6s
start one two three after_ms=6s
live one two three for_ms=5s
change two topics=orders+archive
join two
again one three after_ms=20ms
sync two
tell
    rebalance 2 stable, cause subscription-changed, triggered by two, culprit two
    two changed its subscription; generation 2 was Stable after 40 ms.
      22:13:31.000 two (10.0.0.1) changed its subscription; it subscribed to archive.
      22:13:31.000 the join barrier opened, to wait for one and three at most 6 s.
      22:13:31.020 the join barrier closed after 20 ms.
      22:13:31.020 generation 2 began, led by one (10.0.0.1) with range.
      22:13:31.040 one sent the assignments after 20 ms.
      22:13:31.040 the group was Stable with 3 members, 40 ms after it began.
      6 partitions stood still, the longest for 40 ms: 0.2 partition-seconds in which nobody consumed.
      > Let all members of a group subscribe to the same topics, and change that in all of them at once: each member that changes its subscription is a rebalance of its own.

== oversized group
setup group_initial_rebalance_delay_ms=3s group_max_size=3
new one two three session_ms=6s poll_ms=6s
start one two three after_ms=6s
live one two three for_ms=5s
join four
live one two three for_ms=1s
join four
live one two three for_ms=1s
join four
live one two three for_ms=1s
join four
live one two three for_ms=1s
join four
live one two three for_ms=1s
tell
    refusal 2 refused, cause turned-away-group-full, triggered by four, culprit four
    four was turned away: the group is full (5 times, the last at 22:13:35.000).
      22:13:31.000 four (10.0.0.4) was turned away: the group is full; it has 3 members.
      It happened 5 times until 22:13:35.000.
      > Stop a member that is not needed, or raise group.max.size (3 now) of the broker.
accounts
    refusal 2 refused: cause turned-away-group-full, triggered by four, culprit four
    stood 0, the longest 0, stopped 0, unowned 0
    trigger turned-away-group-full four
    four refused: 0 to 0, stood 0, blamed 0
    advice group.max.size 3
