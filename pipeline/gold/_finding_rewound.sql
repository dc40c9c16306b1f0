-- rewound: offsets went back by more than a minute's work. Less is a commit that was overtaken by a later one.
WITH usual AS (
  SELECT cluster_id, group_id, topic, partition, percentile(consumed, 0.5) AS a_minute
  FROM moves WHERE consumed > 0 GROUP BY ALL),
b AS (
  SELECT r.*, lag(log_ts) OVER (PARTITION BY cluster_id, group_id, topic ORDER BY log_ts, partition) AS before
  FROM rewinds r LEFT JOIN usual USING (cluster_id, group_id, topic, partition)
  WHERE records_repeated > coalesce(a_minute, 0)),
n AS (
  SELECT *, sum(if(log_ts <= before + INTERVAL 5 MINUTES, 0, 1)) OVER (
              PARTITION BY cluster_id, group_id, topic ORDER BY log_ts, partition ROWS UNBOUNDED PRECEDING) AS number FROM b)
SELECT cluster_id, group_id, 'rewound' AS kind, min(log_ts) AS started_at, max(log_ts) AS ended_at, topic,
       CAST(count(DISTINCT partition) AS INT) AS partitions, CAST(NULL AS STRING) AS suspect,
       concat(coalesce(string(try_sum(records_repeated)), 'more than 2^63'), ' records are read again; a partition went back by up to ', max(records_repeated)) AS evidence
FROM n GROUP BY cluster_id, group_id, topic, number
