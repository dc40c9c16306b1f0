-- Runs of minutes in which a group was behind by more than its objective in a topic.
WITH m AS (
  SELECT cluster_id, group_id, topic, minute, max(lag_seconds) AS lag_s FROM lag_by_partition GROUP BY ALL),
goal AS (
  SELECT g.group_id, min_by(o.seconds, o.rank) AS seconds
  FROM (SELECT DISTINCT group_id FROM m) g JOIN objectives o ON g.group_id RLIKE o.pattern GROUP BY ALL),
b AS (
  SELECT m.*, if(lag(minute) OVER w = minute - INTERVAL 1 MINUTE, 0, 1) AS is_new
  FROM m JOIN goal USING (group_id) WHERE lag_s > seconds
  WINDOW w AS (PARTITION BY cluster_id, m.group_id, topic ORDER BY minute)),
c AS (
  SELECT *, sum(is_new) OVER (PARTITION BY cluster_id, group_id, topic ORDER BY minute) AS run FROM b)
SELECT cluster_id, group_id, topic, min(minute) AS started_at, max(minute) AS last_minute, count(*) AS minutes,
       max(lag_s) AS worst_lag_seconds, to_date(min(minute)) AS date
FROM c GROUP BY cluster_id, group_id, topic, run HAVING to_date(min(minute)) >= :since
