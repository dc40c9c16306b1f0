-- A row for each partition and minute, from the first commit until the offset is deleted or has expired.
-- :from_ts is where the rows begin; what was committed before counts as committed then. :since is the first date.
WITH c AS (
  SELECT cluster_id, group_id, topic, partition,
         greatest(date_trunc('MINUTE', log_ts), :from_ts) AS minute,
         -- Commits of one moment are told apart by their place in the log.
         max_by(struct(committed_offset AS o, log_ts AS ts, is_tombstone AS gone), log_offset) AS last,
         count_if(NOT is_tombstone AND log_ts >= :from_ts) AS n
  FROM offset_commits GROUP BY ALL),
newest AS (
  SELECT cluster_id, date_trunc('MINUTE', max(ts)) AS m1
  FROM (SELECT cluster_id, max(log_ts) AS ts FROM offset_commits GROUP BY ALL
        UNION ALL SELECT cluster_id, max(sample_ts) FROM log_end_samples GROUP BY ALL) GROUP BY ALL),
n AS (
  SELECT c.*, m1, lead(minute) OVER (PARTITION BY cluster_id, group_id, topic, partition ORDER BY minute) AS next
  FROM c JOIN newest USING (cluster_id)),
-- The minute spine: each commit stands until the next, a tombstone, or seven days, after which Kafka expires it
-- (KIP-211). A group that is dead must keep growing lag; without the spine it would vanish. So much is bounded.
f AS (
  SELECT cluster_id, group_id, topic, partition, last.o AS o, last.ts AS last_commit_ts, minute AS at, n,
         explode(sequence(minute, least(coalesce(next - INTERVAL 1 MINUTE, m1), minute + INTERVAL 7 DAYS),
                          INTERVAL 1 MINUTE)) AS minute
  FROM n WHERE NOT last.gone),
ends AS (
  SELECT cluster_id, topic, partition, date_trunc('MINUTE', sample_ts) AS minute,
         max_by(log_end_offset, sample_ts) AS log_end_offset, max(sample_ts) AS sample_ts
  FROM log_end_samples GROUP BY ALL),
first AS (SELECT cluster_id, topic, partition, min(sample_ts) AS first_ts FROM log_end_samples GROUP BY ALL),
-- When did the log last end at this offset or before? Samples and offsets are sorted by offset together, and the
-- latest time up to there counts. The time of a record is a sample too: just before it came, the log ended there.
u AS (
  SELECT cluster_id, topic, partition, log_end_offset AS k, 0 AS kind, max(sample_ts) AS t
  FROM log_end_samples GROUP BY ALL
  UNION ALL SELECT cluster_id, topic, partition, record_offset, 0, max(record_ts) FROM record_times GROUP BY ALL
  UNION ALL SELECT DISTINCT cluster_id, topic, partition, o, 1, CAST(NULL AS TIMESTAMP) FROM f),
reached AS (
  SELECT cluster_id, topic, partition, k AS o, reached_at FROM (
    SELECT *, max(t) OVER (PARTITION BY cluster_id, topic, partition ORDER BY k, kind
                           ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS reached_at FROM u)
  WHERE kind = 1),
-- Topics without samples stay, with lag unknown.
j AS (
  SELECT f.*, e.log_end_offset, e.sample_ts, r.reached_at, first.first_ts
  FROM f LEFT JOIN ends e USING (cluster_id, topic, partition, minute)
         LEFT JOIN reached r USING (cluster_id, topic, partition, o)
         LEFT JOIN first USING (cluster_id, topic, partition)),
v AS (
  SELECT *, lag(minute) OVER w = minute - INTERVAL 1 MINUTE AS follows,
         greatest(o, 0) - lag(greatest(o, 0)) OVER w AS consumed, log_end_offset - lag(log_end_offset) OVER w AS produced
  FROM j WINDOW w AS (PARTITION BY cluster_id, group_id, topic, partition ORDER BY minute))
SELECT cluster_id, group_id, topic, partition, minute, o AS committed_offset, log_end_offset,
       -- Nobody checks what clients commit: of an offset below 0 all is unread, and the least number there is must not
       -- overflow, which would be the end of the whole build.
       CASE WHEN log_end_offset IS NOT NULL THEN greatest(log_end_offset - greatest(o, 0), 0) END AS lag_records,
       -- greatest(0, NULL) is 0 in Spark: a group that stands before the first sample must not look level. Its lag is
       -- at least as old as that sample.
       CASE WHEN log_end_offset IS NULL THEN NULL
            WHEN log_end_offset <= o THEN 0.0D
            ELSE greatest(0, unix_millis(sample_ts) - unix_millis(coalesce(reached_at, first_ts))) / 1000.0D
       END AS lag_seconds,
       log_end_offset > o AND reached_at IS NULL AS lag_seconds_is_minimum,
       if(minute = at, n, 0) AS commits, last_commit_ts,
       if(follows, consumed, NULL) AS consumed, if(follows, produced, NULL) AS produced,
       to_date(minute) AS date
FROM v WHERE to_date(minute) >= :since
