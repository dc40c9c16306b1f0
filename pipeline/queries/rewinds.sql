SELECT cluster_id, group_id, topic, partition, log_ts AS at, greatest(was, 0) - greatest(committed_offset, 0) AS records_repeated, committed_offset
FROM (SELECT *, lag(committed_offset) OVER (PARTITION BY cluster_id, group_id, topic, partition ORDER BY log_offset) AS was
      FROM offset_commits
      WHERE (:group IS NULL OR group_id = :group) AND (:topic IS NULL OR topic = :topic))
WHERE committed_offset < was AND (:since IS NULL OR log_ts >= :since)
ORDER BY records_repeated DESC, cluster_id, group_id, topic, partition, at LIMIT :limit
