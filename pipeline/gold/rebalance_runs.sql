-- Rebalances of which each came within a minute of the one before belong together. Five and more have a kind.
WITH x AS (
  SELECT r.*, c.client, if(since_prev_ms <= 60000, 0, 1) AS is_new
  FROM rebalances r LEFT JOIN clients c
    ON c.cluster_id = r.cluster_id AND c.group_id = r.group_id AND c.member_id = r.trigger_member
  WHERE prev_generation IS NOT NULL),
y AS (
  SELECT *, sum(is_new) OVER (PARTITION BY cluster_id, group_id ORDER BY completed_at, generation
                              ROWS UNBOUNDED PRECEDING) AS run FROM x),
z AS (
  SELECT cluster_id, group_id, run, min(completed_at) AS first_at, max(completed_at) AS ended_at, count(*) AS rebalances,
         -- It began when the first of them began, where that is known.
         timestamp_millis(min(unix_millis(completed_at) - least(greatest(coalesce(duration_ms, 0), 0), 3600000)))
           AS started_at,
         try_sum(duration_ms) AS paused_ms, sum(partitions_moved) AS partitions_moved, mode(reason, true) AS main_reason,
         count(DISTINCT trigger_member) AS distinct_triggers, count(DISTINCT client) AS distinct_clients,
         max(commit_gap_ms) AS commit_gap_ms, sum(generations_missing) AS generations_missing,
         mode(client, true) AS client, max(members_after) AS members,
         -- Who began the group together did not come in somebody's place.
         flatten(collect_list(if(members_before = 0, array(), coalesce(joined, array())))) AS came,
         flatten(collect_list(coalesce(left_members, array()))) AS went,
         collect_list(client) AS clients
  FROM y GROUP BY cluster_id, group_id, run),
-- A minute is looked up, not compared: four rows for each rebalance and an equal join.
after AS (
  SELECT cluster_id, group_id, run, max(lag_seconds) AS worst_lag_seconds
  FROM (SELECT DISTINCT cluster_id, group_id, run,
               explode(sequence(date_trunc('MINUTE', completed_at),
                                date_trunc('MINUTE', completed_at) + INTERVAL 3 MINUTES, INTERVAL 1 MINUTE)) AS minute
        FROM y) JOIN lag_by_topic USING (cluster_id, group_id, minute)
  GROUP BY ALL),
-- Who is restarted in turn leaves once and comes once. In a storm somebody comes and goes, or nobody does.
k AS (
  SELECT *, CASE WHEN rebalances < 5 THEN NULL
                 WHEN size(array_intersect(came, went)) = 0
                      AND size(array_union(came, went)) >= 0.8 * rebalances THEN 'rolling_restart'
                 ELSE 'storm' END AS kind
  FROM z)
SELECT cluster_id, group_id, unix_seconds(first_at) AS sid, kind, started_at, ended_at, rebalances, generations_missing,
       paused_ms, commit_gap_ms, worst_lag_seconds, partitions_moved, members, client,
       -- One client is to blame if it began half of them.
       CASE WHEN kind = 'storm' AND size(filter(clients, one -> one = client)) * 2 >= rebalances THEN client
       END AS suspect_client,
       main_reason, distinct_triggers, distinct_clients, to_date(first_at) AS date
FROM k LEFT JOIN after USING (cluster_id, group_id, run) WHERE to_date(first_at) >= :since
