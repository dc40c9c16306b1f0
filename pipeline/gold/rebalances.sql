-- Every generation beside the one before it, in the order of the log.
WITH g AS (
  SELECT cluster_id, group_id, generation, log_ts, log_offset, is_tombstone,
         coalesce(transform(members, m -> m.member_id), array()) AS ids,
         coalesce(flatten(transform(members, m -> transform(coalesce(m.assigned, array()),
                  a -> concat(a.topic, '-', a.partition, '@', m.member_id)))), array()) AS owns
  FROM group_generations),
p AS (
  SELECT *, lag(named_struct('generation', generation, 'ts', log_ts, 'ids', ids, 'owns', owns, 'gone', is_tombstone))
            OVER (PARTITION BY cluster_id, group_id ORDER BY log_offset) AS was
  FROM g),
-- A group that was deleted begins anew: its generations are counted from 1 again, whether or not the tombstone is
-- still there. A static member that comes back is written into the generation that is (KIP-345): no rebalance.
q AS (
  SELECT *, CASE WHEN NOT was.gone AND was.generation < generation THEN was END AS prev
  FROM p WHERE NOT is_tombstone AND to_date(log_ts) >= :since
           AND NOT coalesce(was.generation = generation AND NOT was.gone, false)),
-- Events may have been written more than once, and generations repeat after a deletion: the nearest one in time counts.
-- They are aggregated before the join, else durations would be multiplied.
e AS (
  SELECT cluster_id, group_id, generation, ts, max(duration_ms) AS duration_ms, max(nullif(reason, '')) AS reason,
         max(nullif(member_id, '')) AS member_id
  FROM group_events WHERE event = 'rebalance_completed' GROUP BY ALL),
near AS (
  SELECT q.cluster_id, q.group_id, q.log_offset,
         min_by(struct(e.duration_ms, e.reason, e.member_id),
                struct(abs(unix_millis(e.ts) - unix_millis(q.log_ts)), e.ts)) AS e
  FROM q JOIN e ON e.cluster_id = q.cluster_id AND e.group_id = q.group_id AND e.generation = q.generation
           AND e.ts BETWEEN q.log_ts - INTERVAL 5 MINUTES AND q.log_ts + INTERVAL 5 MINUTES
  GROUP BY ALL),
-- How long work stood still is seen in commits too, for which no event topic is needed. They stand in one log with the
-- generations of their group, so that their places tell which came first.
b AS (
  SELECT cluster_id, group_id, topic, partition, log_offset, log_ts, CAST(NULL AS BIGINT) AS began
  FROM offset_commits WHERE NOT is_tombstone
  UNION ALL SELECT cluster_id, group_id, NULL, NULL, log_offset, log_ts, log_offset
  FROM group_generations
  QUALIFY NOT is_tombstone
      AND NOT lag(generation) OVER (PARTITION BY cluster_id, group_id ORDER BY log_offset) <=> generation),
d AS (
  SELECT *, lag(log_ts) OVER w AS before, lag(after) OVER w AS after_before
  FROM (SELECT *, max(began) OVER (PARTITION BY cluster_id, group_id ORDER BY log_offset
                                   ROWS UNBOUNDED PRECEDING) AS after FROM b)
  WHERE began IS NULL WINDOW w AS (PARTITION BY cluster_id, group_id, topic, partition ORDER BY log_offset)),
gap AS (
  SELECT cluster_id, group_id, after AS log_offset,
         CAST(percentile(unix_millis(log_ts) - unix_millis(before), 0.5) AS BIGINT) AS commit_gap_ms
  FROM d WHERE after > coalesce(after_before, -1) AND log_ts - INTERVAL 1 HOUR <= before GROUP BY ALL)
SELECT q.cluster_id, q.group_id, q.generation, prev.generation AS prev_generation, q.log_ts AS completed_at,
       e.duration_ms, e.reason,
       coalesce(e.member_id, get(array_except(prev.ids, ids), 0), get(array_except(ids, prev.ids), 0)) AS trigger_member,
       size(ids) AS members_after, size(prev.ids) AS members_before,
       array_except(ids, prev.ids) AS joined, array_except(prev.ids, ids) AS left_members,
       size(array_except(owns, prev.owns)) AS partitions_moved, size(owns) AS partitions_total,
       unix_millis(q.log_ts) - unix_millis(prev.ts) AS since_prev_ms,
       q.generation - prev.generation - 1 AS generations_missing, commit_gap_ms, to_date(q.log_ts) AS date
FROM q LEFT JOIN near ON near.cluster_id = q.cluster_id AND near.group_id = q.group_id
                     AND near.log_offset = q.log_offset
       LEFT JOIN gap ON gap.cluster_id = q.cluster_id AND gap.group_id = q.group_id AND gap.log_offset = q.log_offset
