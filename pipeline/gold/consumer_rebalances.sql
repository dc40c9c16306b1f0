-- Rebalances of groups of the consumer protocol, in the order of the log. An episode begins with the first record of a
-- higher epoch since the last target, and ends when all members are STABLE at the epoch of the target that follows.
WITH c AS (
  SELECT *, record = 'target_epoch' AND NOT is_tombstone AS is_target,
         record = 'group_epoch' AND NOT is_tombstone AS is_bump,
         record = 'member' AND NOT is_tombstone AND coalesce(lag(is_tombstone) OVER w, true) AS is_new,
         record = 'member' AND is_tombstone AND NOT coalesce(lag(is_tombstone) OVER w, true) AS is_gone
  FROM consumer_group_changes
  WINDOW w AS (PARTITION BY cluster_id, group_id, record, member_id ORDER BY log_offset)),
n AS (
  SELECT *, sum(int(is_new) - int(is_gone)) OVER (PARTITION BY cluster_id, group_id ORDER BY log_offset
                                                   ROWS UNBOUNDED PRECEDING) AS members
  FROM c),
-- A target, the end of the group, and a group that became empty: what comes after belongs to the next episode.
e AS (
  SELECT *, coalesce(sum(int(is_target OR (record = 'group_epoch' AND (is_tombstone OR members = 0)))) OVER (
                     PARTITION BY cluster_id, group_id ORDER BY log_offset
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS episode
  FROM n),
-- Each record of an assignment beside the target that was in force.
t AS (
  SELECT *, last(CASE WHEN is_target THEN struct(episode, epoch) END, true) OVER (
              PARTITION BY cluster_id, group_id ORDER BY log_offset ROWS UNBOUNDED PRECEDING) AS target
  FROM e),
a AS (
  SELECT cluster_id, group_id, target.episode, log_offset, log_ts, member_id, members, state,
         int(coalesce(NOT is_tombstone AND state = 'STABLE' AND epoch = target.epoch, false)) AS is_there,
         lead(log_ts) OVER (PARTITION BY cluster_id, group_id, member_id ORDER BY log_offset) AS next_ts
  FROM t WHERE record = 'assignment'),
k AS (
  SELECT *, is_there - CASE WHEN lag(episode) OVER w = episode THEN lag(is_there) OVER w ELSE 0 END AS more
  FROM a WINDOW w AS (PARTITION BY cluster_id, group_id, member_id ORDER BY log_offset)),
ends AS (
  SELECT cluster_id, group_id, episode, min(log_ts) AS ended_at, min_by(member_id, log_offset) AS slowest_member,
         min_by(members, log_offset) AS members
  FROM (SELECT *, sum(more) OVER (PARTITION BY cluster_id, group_id, episode ORDER BY log_offset
                                  ROWS UNBOUNDED PRECEDING) AS there FROM k)
  WHERE there = members AND is_there = 1 GROUP BY ALL),
revocations AS (
  SELECT cluster_id, group_id, episode, max(unix_millis(next_ts) - unix_millis(log_ts)) AS revocation_ms,
         max_by(member_id, unix_millis(next_ts) - unix_millis(log_ts)) AS revoked_by
  FROM a WHERE state = 'UNREVOKED_PARTITIONS' AND next_ts IS NOT NULL GROUP BY ALL),
moved AS (
  SELECT cluster_id, group_id, episode, count_if(record = 'target' AND NOT is_tombstone) AS moved_members
  FROM e GROUP BY ALL),
bumps AS (
  SELECT *, CASE WHEN NOT lag(is_tombstone) OVER w THEN lag(epoch) OVER w END AS epoch_before
  FROM e WHERE record = 'group_epoch' WINDOW w AS (PARTITION BY cluster_id, group_id ORDER BY log_offset)),
b AS (
  SELECT cluster_id, group_id, episode, min(log_offset) AS log_offset, min_by(log_ts, log_offset) AS started_at,
         min_by(epoch_before, log_offset) AS epoch_before, max(epoch) AS epoch, count(*) AS bumps,
         max_by(members, log_offset) AS members
  FROM bumps WHERE is_bump GROUP BY ALL),
-- What was written with the first record of a higher epoch, before it, says why it rose.
why AS (
  SELECT b.cluster_id, b.group_id, b.episode, max(is_gone) AS is_gone, max(is_new) AS is_new,
         count_if(record = 'member') > 0 AS said, count_if(record = 'regex' AND NOT is_tombstone) > 0 AS is_resolved,
         max_by(e.member_id, e.log_offset) FILTER (WHERE record = 'member') AS trigger_member
  FROM b JOIN e ON e.cluster_id = b.cluster_id AND e.group_id = b.group_id AND e.episode = b.episode
               AND e.log_ts = b.started_at AND e.log_offset < b.log_offset
  GROUP BY ALL),
-- One batch has one time: a group is upgraded where its classic record goes in the batch that has its first epoch.
upgrades AS (
  SELECT DISTINCT b.cluster_id, b.group_id, b.episode
  FROM b JOIN group_generations g ON g.cluster_id = b.cluster_id AND g.group_id = b.group_id AND g.is_tombstone
                                 AND g.log_ts = b.started_at AND g.log_offset < b.log_offset
  WHERE b.epoch_before IS NULL),
rebalances AS (
  SELECT b.*, upgrades.episode IS NOT NULL AS is_upgrade, why.is_gone, why.is_new, why.said, why.is_resolved,
         trigger_member, ended_at, slowest_member, ends.members AS members_at_end, revocation_ms, revoked_by,
         moved_members, lead(b.episode) OVER (PARTITION BY b.cluster_id, b.group_id ORDER BY b.log_offset) AS next
  FROM b LEFT JOIN why USING (cluster_id, group_id, episode) LEFT JOIN upgrades USING (cluster_id, group_id, episode)
         LEFT JOIN ends USING (cluster_id, group_id, episode) LEFT JOIN moved USING (cluster_id, group_id, episode)
         LEFT JOIN revocations USING (cluster_id, group_id, episode))
SELECT cluster_id, group_id, log_offset, CASE WHEN is_upgrade THEN 'upgrade' ELSE 'rebalance' END AS kind, started_at,
       CASE WHEN members = 0 THEN started_at ELSE ended_at END AS ended_at,
       CASE WHEN members = 0 THEN 'empty' WHEN ended_at IS NOT NULL THEN 'stable'
            WHEN next IS NOT NULL THEN 'superseded' ELSE 'running' END AS outcome,
       CASE WHEN members = 0 THEN 0 ELSE unix_millis(ended_at) - unix_millis(started_at) END AS duration_ms,
       epoch_before, epoch, bumps,
       CASE WHEN is_upgrade THEN 'group-upgraded' WHEN is_gone AND is_new THEN 'static-member-replaced'
            WHEN is_gone THEN 'member-left' WHEN is_new THEN 'member-joined' WHEN said THEN 'subscription-changed'
            WHEN is_resolved THEN 'regex-resolved' ELSE 'topic-metadata-changed' END AS cause,
       CASE WHEN NOT is_upgrade THEN trigger_member END AS trigger_member, coalesce(members_at_end, members) AS members,
       moved_members, slowest_member, revocation_ms, revoked_by, to_date(started_at) AS date
FROM rebalances WHERE to_date(started_at) >= :since
UNION ALL
-- And it is downgraded where a classic record comes in the batch that takes its epoch away.
SELECT d.cluster_id, d.group_id, d.log_offset, 'downgrade', d.log_ts, d.log_ts, 'stable', 0, d.epoch_before,
       g.generation, 0, 'group-downgraded', NULL, g.member_count, 0, NULL, NULL, NULL, to_date(d.log_ts)
FROM bumps d JOIN group_generations g ON g.cluster_id = d.cluster_id AND g.group_id = d.group_id
                                     AND g.log_ts = d.log_ts AND g.log_offset > d.log_offset AND NOT g.is_tombstone
WHERE d.is_tombstone AND to_date(d.log_ts) >= :since
