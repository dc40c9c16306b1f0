-- A row for each partition that a member owns in a generation. A generation without members gives one row without any.
SELECT cluster_id, group_id, generation, log_ts, protocol, m.member_id = leader_id AS is_leader, m.member_id,
       m.group_instance_id, m.client_id, m.client_host, m.session_timeout_ms, m.rebalance_timeout_ms,
       a.topic, a.partition, to_date(log_ts) AS date
FROM group_generations
     LATERAL VIEW OUTER explode(members) x AS m
     LATERAL VIEW OUTER explode(m.assigned) y AS a
WHERE NOT is_tombstone AND to_date(log_ts) >= :since
