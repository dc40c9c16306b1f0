-- Burrow's rules over the last ten commits of each partition, as of the newest record of its cluster:
-- stopped (unless it was level at one of the last ten samples), else OK if level at any of the commits, else rewound,
-- else stalled, else WARN if the lag never shrank, else OK. An offset that was committed once is not judged.
WITH newest AS (
  SELECT cluster_id, max(ts) AS now
  FROM (SELECT cluster_id, max(log_ts) AS ts FROM offset_commits GROUP BY ALL
        UNION ALL SELECT cluster_id, max(sample_ts) FROM log_end_samples GROUP BY ALL) GROUP BY ALL),
k AS (
  SELECT cluster_id, group_id, topic, partition, committed_offset AS o, log_ts AS t, log_offset AS n, is_tombstone
  FROM offset_commits
  QUALIFY row_number() OVER (PARTITION BY cluster_id, group_id, topic, partition ORDER BY log_offset DESC) <= 10),
-- What was committed before a deletion is of another life.
kept AS (
  SELECT * FROM k
  QUALIFY n > coalesce(max(if(is_tombstone, n, NULL)) OVER (PARTITION BY cluster_id, group_id, topic, partition), -1)),
-- The lag at each commit: the sample before it.
u AS (
  SELECT cluster_id, topic, partition, sample_ts AS t, 0 AS kind, log_end_offset AS e,
         CAST(NULL AS STRING) AS group_id, CAST(NULL AS BIGINT) AS o, CAST(NULL AS BIGINT) AS n
  FROM log_end_samples
  UNION ALL SELECT cluster_id, topic, partition, t, 1, CAST(NULL AS BIGINT), group_id, o, n FROM kept),
c AS (
  SELECT * FROM (
    SELECT *, last_value(e) IGNORE NULLS OVER (PARTITION BY cluster_id, topic, partition ORDER BY t, kind
             ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS end_then FROM u)
  WHERE kind = 1),
w AS (
  SELECT cluster_id, group_id, topic, partition,
         array_sort(collect_list(struct(n, t, o, greatest(end_then - greatest(o, 0), if(end_then IS NULL, NULL, 0)) AS lag))) AS a
  FROM c GROUP BY ALL),
e AS (
  SELECT cluster_id, topic, partition, max_by(log_end_offset, sample_ts) AS now_end, min(log_end_offset) AS recent_end
  FROM (SELECT * FROM log_end_samples
        QUALIFY row_number() OVER (PARTITION BY cluster_id, topic, partition ORDER BY sample_ts DESC) <= 10)
  GROUP BY ALL),
z AS (
  SELECT w.cluster_id, group_id, topic, partition, now, greatest(now_end - greatest(element_at(a, -1).o, 0), if(now_end IS NULL, NULL, 0)) AS lag,
         size(a) AS commits, element_at(a, -1).t AS t1,
         unix_millis(now) - unix_millis(element_at(a, -1).t) > unix_millis(element_at(a, -1).t) - unix_millis(a[0].t) AS silent,
         recent_end <= element_at(a, -1).o AS level_recently,
         exists(a, x -> x.lag <=> 0) AS level_once,
         exists(zip_with(a, slice(a, 2, 9), (x, y) -> coalesce(y.o < x.o, false)), b -> b) AS went_back,
         forall(a, x -> x.o = a[0].o) AS frozen,
         exists(zip_with(filter(a, x -> x.lag IS NOT NULL), slice(filter(a, x -> x.lag IS NOT NULL), 2, 9),
                         (x, y) -> coalesce(y.lag < x.lag, false)), b -> b) AS shrank
  FROM w LEFT JOIN e USING (cluster_id, topic, partition) JOIN newest USING (cluster_id))
SELECT cluster_id, group_id, topic, partition, lag,
       CASE WHEN lag IS NULL OR lag = 0 OR commits < 2 THEN 'OK'
            WHEN silent AND NOT level_recently THEN 'STOP'
            WHEN level_once THEN 'OK'
            WHEN went_back THEN 'REWIND'
            WHEN frozen THEN 'STALL'
            WHEN NOT shrank THEN 'WARN'
            ELSE 'OK' END AS status,
       t1 AS last_commit, to_date(now) AS date
FROM z
