-- The newest minute is not over yet: the one before it counts, unless nothing is known of where logs ended then.
WITH newest AS (SELECT cluster_id, max(minute) AS newest FROM lag_by_partition WHERE log_end_offset IS NOT NULL GROUP BY ALL),
whole AS (
  SELECT cluster_id, coalesce(CAST(:at AS TIMESTAMP),
                              max(minute) FILTER (WHERE minute = newest - INTERVAL 1 MINUTE), max(newest)) AS at
  FROM lag_by_partition JOIN newest USING (cluster_id) WHERE log_end_offset IS NOT NULL GROUP BY cluster_id)
SELECT cluster_id, group_id, topic, max(lag_seconds) AS lag_seconds, sum(lag_records) AS lag_records,
       coalesce(bool_or(lag_seconds_is_minimum), false) AS at_least, count(*) AS partitions, minute
FROM lag_by_partition JOIN whole USING (cluster_id)
WHERE minute = date_trunc('MINUTE', at) AND (:group IS NULL OR group_id = :group) AND (:topic IS NULL OR topic = :topic)
GROUP BY cluster_id, group_id, topic, minute
ORDER BY lag_seconds DESC NULLS LAST, lag_records DESC, cluster_id, group_id, topic LIMIT :limit
