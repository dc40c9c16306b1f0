-- stalled: some partitions stand still for five minutes, and ten times as long as is usual for them, with records
-- unread, while the group goes on to commit. One record does not count: it may be the marker of a transaction.
WITH usual AS (
  SELECT cluster_id, group_id, topic, partition, percentile(gap, 0.5) AS gap FROM (
    SELECT *, (unix_seconds(minute) - unix_seconds(lag(minute) OVER (
               PARTITION BY cluster_id, group_id, topic, partition ORDER BY minute))) / 60 AS gap FROM moves WHERE consumed > 0)
  GROUP BY ALL),
r AS (
  SELECT *, unix_seconds(minute) - 60 * row_number() OVER (
              PARTITION BY cluster_id, group_id, topic, partition ORDER BY minute) AS run
  FROM moves WHERE consumed = 0 AND lag_records > 1),
runs AS (
  SELECT cluster_id, group_id, topic, partition, min(minute) AS started_at, max(minute) AS last, max(newest) AS newest,
         count(*) AS minutes, max_by(lag_records, minute) AS lag_records
  FROM r GROUP BY cluster_id, group_id, topic, partition, run HAVING count_if(topic_commits > 0) * 2 >= count(*)),
long AS (
  SELECT runs.*, max(last) OVER w AS before FROM runs LEFT JOIN usual USING (cluster_id, group_id, topic, partition)
  WHERE minutes >= greatest(5, 10 * coalesce(gap, 0.5))
  WINDOW w AS (PARTITION BY cluster_id, group_id, topic ORDER BY started_at, partition
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)),
-- Partitions that stood still at the same time are one finding.
n AS (
  SELECT *, sum(if(started_at <= before + INTERVAL 1 MINUTE, 0, 1)) OVER (
              PARTITION BY cluster_id, group_id, topic ORDER BY started_at, partition ROWS UNBOUNDED PRECEDING) AS number
  FROM long)
SELECT cluster_id, group_id, 'stalled' AS kind, min(started_at) AS started_at,
       CASE WHEN max(last) < max(newest) - INTERVAL 1 MINUTE THEN max(last) + INTERVAL 1 MINUTE END AS ended_at,
       topic, CAST(count(DISTINCT partition) AS INT) AS partitions, CAST(NULL AS STRING) AS suspect,
       concat('partition ', array_join(array_sort(collect_set(partition)), ', '), ' stood still for ', max(minutes),
              ' min while the group went on; ', max(lag_records), ' records unread') AS evidence
FROM n GROUP BY cluster_id, group_id, topic, number
