-- The generation that stood then, and of that the row of the partition: who owned it in an earlier one does not count.
WITH then AS (
  SELECT cluster_id, group_id, max(struct(log_ts, generation)) AS g FROM group_members
  WHERE (:group IS NULL OR group_id = :group) AND (:at IS NULL OR log_ts <= :at) GROUP BY ALL)
SELECT m.cluster_id, m.group_id, m.topic, m.partition, m.member_id, m.client_id, m.client_host, m.generation,
       m.log_ts AS since
FROM group_members m JOIN then ON then.cluster_id = m.cluster_id AND then.group_id = m.group_id
                              AND then.g.log_ts = m.log_ts AND then.g.generation = m.generation
WHERE m.topic IS NOT NULL AND (:topic IS NULL OR m.topic = :topic) AND (:partition IS NULL OR m.partition = :partition)
ORDER BY m.cluster_id, m.group_id, m.topic, m.partition LIMIT :limit
