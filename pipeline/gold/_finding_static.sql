-- flapping_static_member: one group.instance.id got a new member id four times, each within five minutes. Two processes
-- with the same id fence each other, or one starts again and again: no rebalance shows that (KIP-345).
WITH d AS (
  SELECT DISTINCT cluster_id, group_id, group_instance_id, member_id, log_ts, generation, client_host
  FROM group_members WHERE group_instance_id IS NOT NULL),
c AS (
  SELECT * FROM (
    SELECT *, lag(member_id) OVER (PARTITION BY cluster_id, group_id, group_instance_id ORDER BY log_ts, generation) AS was
    FROM d)
  WHERE member_id <> was),
n AS (
  SELECT *, sum(if(log_ts <= before + INTERVAL 5 MINUTES, 0, 1)) OVER (
              PARTITION BY cluster_id, group_id, group_instance_id ORDER BY log_ts ROWS UNBOUNDED PRECEDING) AS number
  FROM (SELECT *, lag(log_ts) OVER (PARTITION BY cluster_id, group_id, group_instance_id ORDER BY log_ts) AS before FROM c))
SELECT cluster_id, group_id, 'flapping_static_member' AS kind, min(log_ts) AS started_at, max(log_ts) AS ended_at,
       CAST(NULL AS STRING) AS topic, CAST(NULL AS INT) AS partitions, group_instance_id AS suspect,
       concat('member ', group_instance_id, ' came ', count(*), ' times anew, from ',
              array_join(array_sort(collect_set(client_host)), ', ')) AS evidence
FROM n GROUP BY cluster_id, group_id, group_instance_id, number HAVING count(*) >= 4
