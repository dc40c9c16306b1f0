-- What to call the client of a member: its client id, and more where several hosts share that in one generation.
-- Member ids are opaque; those of Kafka's own coordinator only happen to begin with the client id.
WITH seen AS (
  SELECT cluster_id, group_id, member_id, client_id, client_host, group_instance_id FROM group_members
  UNION ALL
  SELECT cluster_id, group_id, member_id, nullif(client_id, ''), nullif(client_host, ''), NULL FROM group_events),
one AS (
  SELECT cluster_id, group_id, member_id, min(client_id) AS client_id, min(client_host) AS client_host,
         min(group_instance_id) AS instance
  FROM seen WHERE member_id <> '' GROUP BY ALL),
shared AS (
  SELECT DISTINCT cluster_id, group_id, client_id FROM (
    SELECT cluster_id, group_id, client_id FROM group_members
    GROUP BY cluster_id, group_id, generation, log_ts, client_id HAVING count(DISTINCT client_host) > 1))
SELECT one.*, CASE WHEN s.client_id IS NULL THEN one.client_id
                   ELSE coalesce(instance, concat(one.client_id, '@', client_host)) END AS client
FROM one LEFT JOIN shared s USING (cluster_id, group_id, client_id)
