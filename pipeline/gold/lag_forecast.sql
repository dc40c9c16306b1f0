-- A line through the lag of the last half hour. Minutes in which the lag of a partition is not known do not count, nor
-- do groups that are gone.
WITH newest AS (SELECT cluster_id, max(minute) AS hi FROM lag_by_partition GROUP BY ALL),
m AS (
  SELECT cluster_id, group_id, topic, minute, hi, sum(lag_records) AS lag
  FROM lag_by_partition JOIN newest USING (cluster_id)
  WHERE minute > hi - INTERVAL 30 MINUTES
  GROUP BY ALL HAVING count(lag_records) = count(*)),
s AS (
  SELECT cluster_id, group_id, topic, max(minute) AS as_of, max_by(lag, minute) AS lag_now,
         regr_slope(lag, unix_seconds(minute)) AS lag_per_s, regr_r2(lag, unix_seconds(minute)) AS r2
  FROM m GROUP BY cluster_id, group_id, topic, hi HAVING count(*) >= 3 AND max(minute) >= hi - INTERVAL 2 MINUTES)
SELECT *,
       CASE WHEN lag_per_s > 0 AND lag_now < 500000 THEN (500000 - lag_now) / lag_per_s / 60 END AS minutes_to_500k,
       CASE WHEN lag_per_s < 0 AND lag_now > 0 THEN lag_now / -lag_per_s / 60 END AS minutes_to_drain,
       to_date(as_of) AS date
FROM s
