SELECT cluster_id, group_id, topic, status, count(*) AS partitions, sum(lag) AS lag_records, max(last_commit) AS last_commit
FROM partition_status
WHERE status <> 'OK' AND (:group IS NULL OR group_id = :group) AND (:topic IS NULL OR topic = :topic)
GROUP BY cluster_id, group_id, topic, status
ORDER BY lag_records DESC, cluster_id, group_id, topic, status LIMIT :limit
