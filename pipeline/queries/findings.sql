SELECT cluster_id, group_id, kind, started_at, ended_at, topic, partitions, suspect, evidence
FROM findings
WHERE (:group IS NULL OR group_id = :group) AND (:topic IS NULL OR topic = :topic)
  AND (:since IS NULL OR ended_at IS NULL OR ended_at >= :since)
ORDER BY started_at DESC, cluster_id, group_id, kind, topic LIMIT :limit
