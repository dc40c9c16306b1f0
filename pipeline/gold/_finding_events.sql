-- What only the event topic can show: oversized_barrier, a rebalance that took half a minute or more, and the alarms of
-- the broker's sentinels under their names, but those that the tables show anyway.
WITH barrier AS (
  SELECT cluster_id, group_id, 'oversized_barrier' AS kind, timestamp_millis(unix_millis(ts) - least(max(duration_ms), 604800000)) AS started_at,
         ts AS ended_at, max(nullif(client_id, '')) AS suspect,
         concat('all members waited ', round(max(duration_ms) / 1000, 1), ' s for a rebalance to end',
                if(max(nullif(reason, '')) IS NULL, '', concat('; ', max(nullif(reason, ''))))) AS evidence
  FROM group_events WHERE event = 'rebalance_completed' AND duration_ms >= 30000
  GROUP BY cluster_id, group_id, generation, ts),
a AS (
  SELECT *, substring_index(reason, ':', 1) AS name,
         lead(if(event = 'alarm_cleared', ts, NULL)) IGNORE NULLS OVER (
           PARTITION BY cluster_id, group_id, substring_index(reason, ':', 1) ORDER BY ts) AS cleared,
         lead(if(event = 'alarm_cleared', reason, NULL)) IGNORE NULLS OVER (
           PARTITION BY cluster_id, group_id, substring_index(reason, ':', 1) ORDER BY ts) AS said_last
  FROM group_events WHERE event IN ('alarm_raised', 'alarm_cleared')),
alarm AS (
  SELECT cluster_id, group_id, name AS kind, ts AS started_at, max(cleared) AS ended_at,
         max(coalesce(nullif(client_id, ''), nullif(member_id, ''))) AS suspect,
         regexp_replace(max(coalesce(said_last, reason)), '^[a-z_]+: ', '') AS evidence
  FROM a WHERE event = 'alarm_raised'
           AND name NOT IN ('rebalance_storm', 'idle_partition', 'offset_jump', 'old_barrier', '')
  GROUP BY cluster_id, group_id, name, ts)
SELECT cluster_id, group_id, kind, started_at, ended_at, CAST(NULL AS STRING) AS topic, CAST(NULL AS INT) AS partitions,
       suspect, evidence
FROM (SELECT * FROM barrier UNION ALL SELECT * FROM alarm)
