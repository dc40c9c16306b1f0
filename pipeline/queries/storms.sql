SELECT cluster_id, group_id, kind, suspect_client, main_reason, rebalances, paused_ms, partitions_moved, members,
       distinct_clients, started_at, ended_at
FROM rebalance_storms
WHERE (:group IS NULL OR group_id = :group) AND (:since IS NULL OR ended_at >= :since)
ORDER BY rebalances DESC, cluster_id, group_id, started_at LIMIT :limit
