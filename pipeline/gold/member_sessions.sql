-- From when to when each member was there. Who is not in the last record of its group has departed.
WITH last AS (
  SELECT cluster_id, group_id, max(struct(log_ts, is_tombstone)) AS last FROM group_generations GROUP BY ALL),
s AS (
  SELECT cluster_id, group_id, member_id,
         min_by(client_id, struct(log_ts, generation)) AS client_id,
         min_by(client_host, struct(log_ts, generation)) AS client_host,
         min(log_ts) AS first_seen, max(log_ts) AS last_seen,
         min_by(generation, struct(log_ts, generation)) AS first_generation,
         max_by(generation, struct(log_ts, generation)) AS last_generation,
         count(DISTINCT generation, log_ts) AS generations
  FROM group_members WHERE member_id IS NOT NULL GROUP BY ALL)
SELECT s.*, s.last_seen < last.last.log_ts OR last.last.is_tombstone AS departed, to_date(first_seen) AS date
FROM s JOIN last USING (cluster_id, group_id)
