== a join
~ start a1
~ join b2
~ wait 250ms
~ join a1
~ sync a1 b2
join c3 reason="a word of mine"
    join_received {"ts_ms":251,"event":"join_received","generation":2,"member":"","client":"c3","host":"/10.0.0.1","reason":"a word of mine","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    join_received {"ts_ms":251,"event":"join_received","generation":2,"member":"c3-3","client":"c3","host":"/10.0.0.1","reason":"need to re-join with the given member-id: c3-3","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    rebalance_started {"ts_ms":251,"event":"rebalance_started","generation":2,"member":"c3-3","client":"c3","host":"/10.0.0.1","reason":"Adding new member c3-3; client reason: need to re-join with the given member-id: c3-3","cause":"","members":3}

== the first generation
start a1
    join_received {"ts_ms":0,"event":"join_received","generation":-1,"member":"","client":"a1","host":"/10.0.0.9","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    join_received {"ts_ms":0,"event":"join_received","generation":-1,"member":"a1-1","client":"a1","host":"/10.0.0.9","reason":"need to re-join with the given member-id: a1-1","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    rebalance_started {"ts_ms":0,"event":"rebalance_started","generation":0,"member":"a1-1","client":"a1","host":"/10.0.0.9","reason":"Adding new member a1-1; client reason: need to re-join with the given member-id: a1-1","cause":"","members":1}
    rebalance_completed {"ts_ms":1,"event":"rebalance_completed","generation":1,"member":"a1-1","client":"a1","host":"/10.0.0.9","reason":"group-started","cause":"group-started","duration_ms":1,"outcome":"stable","waited_for":[],"stood_ms":0,"moved":6,"members":1,"trigger":"a1-1","culprit":""}

== a rebalance that waits
~ start a1
join b2
    join_received {"ts_ms":1,"event":"join_received","generation":1,"member":"","client":"b2","host":"/10.0.0.0","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    join_received {"ts_ms":1,"event":"join_received","generation":1,"member":"b2-2","client":"b2","host":"/10.0.0.0","reason":"need to re-join with the given member-id: b2-2","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    rebalance_started {"ts_ms":1,"event":"rebalance_started","generation":1,"member":"b2-2","client":"b2","host":"/10.0.0.0","reason":"Adding new member b2-2; client reason: need to re-join with the given member-id: b2-2","cause":"","members":2}
wait 250ms
join a1
    join_received {"ts_ms":251,"event":"join_received","generation":1,"member":"a1-1","client":"a1","host":"/10.0.0.9","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
sync a1 b2
    rebalance_completed {"ts_ms":251,"event":"rebalance_completed","generation":2,"member":"b2-2","client":"b2","host":"/10.0.0.0","reason":"member-joined","cause":"member-joined","duration_ms":250,"outcome":"stable","waited_for":["a1-1"],"stood_ms":0,"moved":3,"members":2,"trigger":"b2-2","culprit":"b2-2"}

== a member leaves
~ start a1
~ join b2
~ wait 250ms
~ join a1
~ sync a1 b2
leave b2 reason="the consumer is being closed"
    member_left {"ts_ms":251,"event":"member_left","generation":2,"member":"b2-2","client":"b2","host":"/10.0.0.0","reason":"the consumer is being closed","cause":"","how":"left"}
    rebalance_started {"ts_ms":251,"event":"rebalance_started","generation":2,"member":"b2-2","client":"b2","host":"/10.0.0.0","reason":"explicit `LeaveGroup` request for (b2-2) members.","cause":"","members":1}
join a1
    join_received {"ts_ms":251,"event":"join_received","generation":2,"member":"a1-1","client":"a1","host":"/10.0.0.9","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
sync a1
    rebalance_completed {"ts_ms":251,"event":"rebalance_completed","generation":3,"member":"b2-2","client":"b2","host":"/10.0.0.0","reason":"left-closed: the consumer is being closed","cause":"left-closed","duration_ms":0,"outcome":"stable","waited_for":["a1-1"],"stood_ms":0,"moved":3,"members":1,"trigger":"b2-2","culprit":"b2-2"}

== an administrator removes a member
~ start a1
~ join b2
~ wait 250ms
~ join a1
~ sync a1 b2
leave b2 reason="member was removed by an admin: 12 of them" by=tool
    member_left {"ts_ms":251,"event":"member_left","generation":2,"member":"b2-2","client":"b2","host":"/10.0.0.0","reason":"member was removed by an admin: 12 of them","cause":"","how":"left"}
    rebalance_started {"ts_ms":251,"event":"rebalance_started","generation":2,"member":"b2-2","client":"tool","host":"/10.0.0.8","reason":"explicit `LeaveGroup` request for (b2-2) members.","cause":"","members":1}

== without a client's words
~ start a1
~ join b2
~ wait 250ms
~ join a1
~ sync a1 b2
leave b2
    member_left {"ts_ms":251,"event":"member_left","generation":2,"member":"b2-2","client":"b2","host":"/10.0.0.0","reason":"","cause":"","how":"left"}
    rebalance_started {"ts_ms":251,"event":"rebalance_started","generation":2,"member":"b2-2","client":"b2","host":"/10.0.0.0","reason":"explicit `LeaveGroup` request for (b2-2) members.","cause":"","members":1}
join a1
    join_received {"ts_ms":251,"event":"join_received","generation":2,"member":"a1-1","client":"a1","host":"/10.0.0.9","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
sync a1
    rebalance_completed {"ts_ms":251,"event":"rebalance_completed","generation":3,"member":"b2-2","client":"b2","host":"/10.0.0.0","reason":"left-without-reason","cause":"left-without-reason","duration_ms":0,"outcome":"stable","waited_for":["a1-1"],"stood_ms":0,"moved":3,"members":1,"trigger":"b2-2","culprit":"b2-2"}

== the last member leaves
~ start a1
~ join b2
~ wait 250ms
~ join a1
~ sync a1 b2
~ leave b2
~ join a1
~ sync a1
leave a1
    member_left {"ts_ms":251,"event":"member_left","generation":3,"member":"a1-1","client":"a1","host":"/10.0.0.9","reason":"","cause":"","how":"left"}
    rebalance_started {"ts_ms":251,"event":"rebalance_started","generation":3,"member":"a1-1","client":"a1","host":"/10.0.0.9","reason":"explicit `LeaveGroup` request for (a1-1) members.","cause":"","members":0}
    rebalance_completed {"ts_ms":251,"event":"rebalance_completed","generation":4,"member":"a1-1","client":"a1","host":"/10.0.0.9","reason":"left-without-reason","cause":"left-without-reason","duration_ms":0,"outcome":"empty","waited_for":[],"stood_ms":0,"moved":0,"members":0,"trigger":"a1-1","culprit":""}

== a member is not heard of
~ start a1
~ join b2
~ wait 250ms
~ join a1
~ sync a1 b2
wait 46s a1
    heartbeat_expired {"ts_ms":45251,"event":"heartbeat_expired","generation":2,"member":"b2-2","client":"b2","host":"/10.0.0.0","reason":"","cause":"","silent_ms":45000,"session_timeout_ms":45000}
    rebalance_started {"ts_ms":45251,"event":"rebalance_started","generation":2,"member":"","client":"","host":"","reason":"removing member b2-2 on heartbeat expiration","cause":"","members":1}
join a1
    join_received {"ts_ms":46251,"event":"join_received","generation":2,"member":"a1-1","client":"a1","host":"/10.0.0.9","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
sync a1
    rebalance_completed {"ts_ms":46251,"event":"rebalance_completed","generation":3,"member":"b2-2","client":"b2","host":"/10.0.0.0","reason":"session-expired-silent","cause":"session-expired-silent","duration_ms":1000,"outcome":"stable","waited_for":["a1-1"],"stood_ms":138000,"moved":3,"members":1,"trigger":"b2-2","culprit":"b2-2"}

== a member misses the join barrier
~ start a1
~ join b2
~ wait 250ms
~ join a1
~ sync a1 b2
join c3
    join_received {"ts_ms":251,"event":"join_received","generation":2,"member":"","client":"c3","host":"/10.0.0.1","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    join_received {"ts_ms":251,"event":"join_received","generation":2,"member":"c3-3","client":"c3","host":"/10.0.0.1","reason":"need to re-join with the given member-id: c3-3","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    rebalance_started {"ts_ms":251,"event":"rebalance_started","generation":2,"member":"c3-3","client":"c3","host":"/10.0.0.1","reason":"Adding new member c3-3; client reason: need to re-join with the given member-id: c3-3","cause":"","members":3}
wait 300s a1 b2 c3
    member_left {"ts_ms":300251,"event":"member_left","generation":2,"member":"a1-1","client":"a1","host":"/10.0.0.9","reason":"did not rejoin in time","cause":"","how":"dropped"}
    member_left {"ts_ms":300251,"event":"member_left","generation":2,"member":"b2-2","client":"b2","host":"/10.0.0.0","reason":"did not rejoin in time","cause":"","how":"dropped"}

== a member misses the sync barrier
~ start a1
~ join b2
~ wait 250ms
~ join a1
~ sync a1 b2
join c3 a1 b2
    join_received {"ts_ms":251,"event":"join_received","generation":2,"member":"","client":"c3","host":"/10.0.0.1","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    join_received {"ts_ms":251,"event":"join_received","generation":2,"member":"c3-3","client":"c3","host":"/10.0.0.1","reason":"need to re-join with the given member-id: c3-3","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    rebalance_started {"ts_ms":251,"event":"rebalance_started","generation":2,"member":"c3-3","client":"c3","host":"/10.0.0.1","reason":"Adding new member c3-3; client reason: need to re-join with the given member-id: c3-3","cause":"","members":3}
    join_received {"ts_ms":251,"event":"join_received","generation":2,"member":"a1-1","client":"a1","host":"/10.0.0.9","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    join_received {"ts_ms":251,"event":"join_received","generation":2,"member":"b2-2","client":"b2","host":"/10.0.0.0","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
sync a1 b2
    rebalance_completed {"ts_ms":251,"event":"rebalance_completed","generation":3,"member":"c3-3","client":"c3","host":"/10.0.0.1","reason":"member-joined","cause":"member-joined","duration_ms":0,"outcome":"stable","waited_for":["b2-2"],"stood_ms":0,"moved":4,"members":3,"trigger":"c3-3","culprit":"c3-3"}
wait 300s a1 b2 c3
    member_left {"ts_ms":300251,"event":"member_left","generation":3,"member":"c3-3","client":"c3","host":"/10.0.0.1","reason":"sent no SyncGroup in time","cause":"","how":"unsynced"}
    rebalance_started {"ts_ms":300251,"event":"rebalance_started","generation":3,"member":"","client":"","host":"","reason":"Removing c3-3 on pending sync request expiration","cause":"","members":2}

== an id that nobody came back with is no member
~ start a1
~ join b2
~ wait 250ms
~ join a1
~ sync a1 b2
join-once c3
    join_received {"ts_ms":251,"event":"join_received","generation":2,"member":"","client":"c3","host":"/10.0.0.1","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
wait 46s a1 b2

== a static member is replaced
new s1 instance=place-1
start s1
    join_received {"ts_ms":0,"event":"join_received","generation":-1,"member":"","client":"s1","host":"/10.0.0.9","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000,"instance":"place-1"}
    rebalance_started {"ts_ms":0,"event":"rebalance_started","generation":0,"member":"","client":"s1","host":"/10.0.0.9","reason":"Adding new member place-1-1 with group instance id place-1; client reason: not provided","cause":"","members":1}
    rebalance_completed {"ts_ms":1,"event":"rebalance_completed","generation":1,"member":"place-1-1","client":"s1","host":"/10.0.0.9","reason":"group-started","cause":"group-started","duration_ms":1,"outcome":"stable","waited_for":[],"stood_ms":0,"moved":6,"members":1,"trigger":"place-1-1","culprit":""}
forget s1
join s1
    join_received {"ts_ms":1,"event":"join_received","generation":1,"member":"","client":"s1","host":"/10.0.0.9","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000,"instance":"place-1"}
    static_member_fenced {"ts_ms":1,"event":"static_member_fenced","generation":1,"member":"place-1-1","client":"s1","host":"/10.0.0.9","reason":"","cause":"","replaced_by":"place-1-2","instance":"place-1"}
# The generation is the same.
wait 1ms

== another rebalance begins before the end
~ start a1
~ join b2
~ wait 250ms
~ join a1
~ sync a1 b2
join c3 a1 b2
    join_received {"ts_ms":251,"event":"join_received","generation":2,"member":"","client":"c3","host":"/10.0.0.1","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    join_received {"ts_ms":251,"event":"join_received","generation":2,"member":"c3-3","client":"c3","host":"/10.0.0.1","reason":"need to re-join with the given member-id: c3-3","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    rebalance_started {"ts_ms":251,"event":"rebalance_started","generation":2,"member":"c3-3","client":"c3","host":"/10.0.0.1","reason":"Adding new member c3-3; client reason: need to re-join with the given member-id: c3-3","cause":"","members":3}
    join_received {"ts_ms":251,"event":"join_received","generation":2,"member":"a1-1","client":"a1","host":"/10.0.0.9","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    join_received {"ts_ms":251,"event":"join_received","generation":2,"member":"b2-2","client":"b2","host":"/10.0.0.0","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
join d4
    join_received {"ts_ms":251,"event":"join_received","generation":3,"member":"","client":"d4","host":"/10.0.0.2","reason":"","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    join_received {"ts_ms":251,"event":"join_received","generation":3,"member":"d4-4","client":"d4","host":"/10.0.0.2","reason":"need to re-join with the given member-id: d4-4","cause":"","session_timeout_ms":45000,"rebalance_timeout_ms":300000}
    rebalance_started {"ts_ms":251,"event":"rebalance_started","generation":3,"member":"d4-4","client":"d4","host":"/10.0.0.2","reason":"Adding new member d4-4; client reason: need to re-join with the given member-id: d4-4","cause":"","members":4}
    rebalance_superseded {"ts_ms":251,"event":"rebalance_superseded","generation":3,"member":"c3-3","client":"c3","host":"/10.0.0.1","reason":"member-joined","cause":"member-joined","duration_ms":0,"outcome":"superseded","waited_for":["b2-2"],"stood_ms":0,"moved":0,"members":3,"trigger":"c3-3","culprit":"c3-3"}

== the broker stops and another takes over
~ start a1
~ join b2
~ wait 250ms
~ join a1
~ sync a1 b2
restart
    coordinator_moved {"ts_ms":251,"event":"coordinator_moved","generation":2,"member":"","client":"","host":"","reason":"loaded","cause":"","members":2}
unload
    coordinator_moved {"ts_ms":251,"event":"coordinator_moved","generation":2,"member":"","client":"","host":"","reason":"given up","cause":"coordinator-moved","members":2}

== a group changes its protocol, and back
~ stable w1
modern a
    join_received {"ts_ms":60001,"event":"join_received","generation":1,"member":"a-id","client":"a","host":"/10.0.0.7","reason":"","cause":"","rebalance_timeout_ms":60000,"protocol":"consumer"}
    protocol_changed {"ts_ms":60001,"event":"protocol_changed","generation":1,"member":"a-id","client":"a","host":"/10.0.0.7","reason":"group-upgraded","cause":"group-upgraded","members":1,"before":"classic","after":"consumer"}
    rebalance_started {"ts_ms":60001,"event":"rebalance_started","generation":1,"member":"a-id","client":"a","host":"/10.0.0.7","reason":"subscription changed","cause":"","members":2,"protocol":"consumer"}
~ again w1
~ live8 12s a
go a
    member_left {"ts_ms":74031,"event":"member_left","generation":2,"member":"a-id","client":"a","host":"/10.0.0.7","reason":"left","cause":"","how":"left","protocol":"consumer"}
    protocol_changed {"ts_ms":74031,"event":"protocol_changed","generation":2,"member":"a-id","client":"a","host":"/10.0.0.7","reason":"group-downgraded","cause":"group-downgraded","members":1,"before":"consumer","after":"classic","protocol":"consumer"}
    rebalance_started {"ts_ms":74031,"event":"rebalance_started","generation":2,"member":"a-id","client":"a","host":"/10.0.0.7","reason":"Downgrade group billing from consumer to classic for member leaving.","cause":"","members":1}
