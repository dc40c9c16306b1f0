SELECT cluster_id, group_id, topic, started_at, last_minute, minutes, worst_lag_seconds
FROM slo_breaches
WHERE (:group IS NULL OR group_id = :group) AND (:topic IS NULL OR topic = :topic)
  AND (:since IS NULL OR last_minute >= :since)
ORDER BY minutes DESC, worst_lag_seconds DESC, cluster_id, group_id, topic, started_at LIMIT :limit
