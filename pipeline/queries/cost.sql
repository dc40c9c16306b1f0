-- Lag rows are aggregated for each rebalance before durations are summed: joined as they are, they would multiply them.
WITH r AS (
  SELECT *, date_trunc('MINUTE', completed_at) AS m0 FROM rebalances
  WHERE prev_generation IS NOT NULL AND (:group IS NULL OR group_id = :group)
    AND (:since IS NULL OR completed_at >= :since)),
l AS (SELECT cluster_id, group_id, minute, max(lag_seconds) AS s FROM lag_by_partition GROUP BY ALL),
-- A minute is looked up, not compared: four rows for each rebalance and an equal join.
after AS (
  SELECT r.cluster_id, r.group_id, max(l.s) AS worst
  FROM (SELECT DISTINCT cluster_id, group_id, explode(sequence(m0, m0 + INTERVAL 3 MINUTES, INTERVAL 1 MINUTE)) AS minute
        FROM r) r JOIN l USING (cluster_id, group_id, minute)
  GROUP BY ALL),
c AS (
  SELECT cluster_id, group_id, count(*) AS rebalances, sum(partitions_moved) AS partitions_moved,
         round(avg(duration_ms)) AS avg_ms, sum(duration_ms) / 1000 AS paused_s
  FROM r GROUP BY ALL)
SELECT c.*, worst AS worst_lag_seconds
FROM c LEFT JOIN after USING (cluster_id, group_id)
ORDER BY paused_s DESC NULLS LAST, rebalances DESC, cluster_id, group_id LIMIT :limit
