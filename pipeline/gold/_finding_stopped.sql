-- stopped: for five minutes, and for ten times as long as is usual for it, no partition of the topic was committed
-- although records lie unread. What is level or idle is not stopped, nor is a topic that the group gave up.
WITH t AS (
  SELECT cluster_id, group_id, topic, minute, max(newest) AS newest, sum(commits) AS commits, sum(lag_records) AS lag_records,
         count_if(lag_records > 0) AS behind, max(lag_seconds) AS lag_seconds
  FROM moves GROUP BY ALL),
usual AS (
  SELECT cluster_id, group_id, topic, percentile(gap, 0.5) AS gap FROM (
    SELECT *, (unix_seconds(minute) - unix_seconds(lag(minute) OVER (
               PARTITION BY cluster_id, group_id, topic ORDER BY minute))) / 60 AS gap FROM t WHERE commits > 0)
  GROUP BY ALL),
subscribed AS (
  SELECT cluster_id, group_id, max_by(array_distinct(flatten(transform(members, m -> coalesce(m.topics, array())))),
                                      log_offset) AS topics
  FROM group_generations WHERE NOT is_tombstone AND member_count > 0 GROUP BY ALL),
-- Minutes in a row have the same difference to their number.
r AS (
  SELECT *, unix_seconds(minute) - 60 * row_number() OVER (PARTITION BY cluster_id, group_id, topic ORDER BY minute) AS run
  FROM t WHERE commits = 0 AND lag_records > 0),
runs AS (
  SELECT cluster_id, group_id, topic, min(minute) AS started_at, max(minute) AS last, max(newest) AS newest, count(*) AS minutes,
         max(behind) AS partitions, max_by(lag_records, minute) AS lag_records, max(lag_seconds) AS lag_seconds
  FROM r GROUP BY cluster_id, group_id, topic, run)
SELECT runs.cluster_id, runs.group_id, 'stopped' AS kind, started_at,
       CASE WHEN last < newest - INTERVAL 1 MINUTE THEN last + INTERVAL 1 MINUTE END AS ended_at,
       runs.topic, CAST(partitions AS INT) AS partitions, CAST(NULL AS STRING) AS suspect,
       concat('no commit for ', minutes, ' min with ', lag_records, ' records unread, the oldest for ',
              CAST(lag_seconds AS BIGINT), ' s') AS evidence
FROM runs LEFT JOIN usual USING (cluster_id, group_id, topic) LEFT JOIN subscribed USING (cluster_id, group_id)
WHERE minutes >= greatest(5, 10 * coalesce(gap, 0.5))
  AND (subscribed.topics IS NULL OR size(subscribed.topics) = 0 OR array_contains(subscribed.topics, runs.topic))
