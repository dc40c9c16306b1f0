WITH g AS (
  SELECT cluster_id, log_partition, group_id, count(*) AS n, min(log_ts) AS t0, max(log_ts) AS t1
  FROM offset_commits
  WHERE (:group IS NULL OR group_id = :group) AND (:since IS NULL OR log_ts >= :since) GROUP BY ALL)
SELECT cluster_id, log_partition, sum(n) AS commits,
       round(sum(n) / nullif((unix_millis(max(t1)) - unix_millis(min(t0))) / 1000, 0), 1) AS per_s,
       max_by(group_id, struct(n, group_id)) AS top_group, count(*) AS groups
FROM g GROUP BY cluster_id, log_partition
ORDER BY commits DESC, cluster_id, log_partition LIMIT :limit
