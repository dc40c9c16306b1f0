WITH g AS (
  SELECT cluster_id, log_partition, group_id, count(*) AS commits, min(log_ts) AS first_commit, max(log_ts) AS last_commit,
         to_date(log_ts) AS date
  FROM offset_commits WHERE to_date(log_ts) >= :since GROUP BY ALL)
SELECT cluster_id, log_partition, group_id, commits, last_commit, date,
       round(commits / nullif((unix_millis(last_commit) - unix_millis(first_commit)) / 1000, 0), 1) AS per_s,
       sum(commits) OVER (PARTITION BY cluster_id, log_partition, date) AS partition_commits
FROM g
