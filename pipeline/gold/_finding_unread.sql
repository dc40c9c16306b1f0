-- unread_deleted: retention took records before the group had read them.
WITH s AS (
  SELECT cluster_id, topic, partition, date_trunc('MINUTE', sample_ts) AS minute, max(log_start_offset) AS log_start
  FROM log_end_samples GROUP BY ALL),
l AS (
  SELECT m.*, log_start - greatest(committed_offset, 0) AS lost FROM moves m JOIN s USING (cluster_id, topic, partition, minute)
  WHERE greatest(committed_offset, 0) < log_start AND lag_records > 0),
n AS (
  SELECT *, sum(if(minute <= before + INTERVAL 5 MINUTES, 0, 1)) OVER (
              PARTITION BY cluster_id, group_id, topic ORDER BY minute, partition ROWS UNBOUNDED PRECEDING) AS number
  FROM (SELECT *, lag(minute) OVER (PARTITION BY cluster_id, group_id, topic ORDER BY minute, partition) AS before FROM l))
SELECT cluster_id, group_id, 'unread_deleted' AS kind, min(minute) AS started_at,
       CASE WHEN max(minute) < max(newest) - INTERVAL 1 MINUTE THEN max(minute) + INTERVAL 1 MINUTE END AS ended_at, topic,
       CAST(count(DISTINCT partition) AS INT) AS partitions, CAST(NULL AS STRING) AS suspect,
       concat('up to ', max(lost), ' records of a partition were deleted before they were read') AS evidence
FROM n GROUP BY cluster_id, group_id, topic, number
