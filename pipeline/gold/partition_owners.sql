-- Generations in a row that give a partition to the same member are one row. Every record of a group ends the one before
-- it, also that of a deletion or of a generation without members.
WITH g AS (
  SELECT cluster_id, group_id, generation, log_ts, is_tombstone, members,
         row_number() OVER w AS number, lead(log_ts) OVER w AS next_ts
  FROM group_generations WINDOW w AS (PARTITION BY cluster_id, group_id ORDER BY log_offset)),
o AS (
  SELECT cluster_id, group_id, generation, log_ts, number, next_ts, m.member_id, m.client_id, m.client_host,
         a.topic, a.partition
  FROM g LATERAL VIEW explode(members) x AS m LATERAL VIEW explode(m.assigned) y AS a WHERE NOT is_tombstone),
n AS (
  SELECT *, sum(is_new) OVER (PARTITION BY cluster_id, group_id, topic, partition ORDER BY number
                              ROWS UNBOUNDED PRECEDING) AS run
  FROM (SELECT *, if(lag(number) OVER w = number - 1 AND lag(member_id) OVER w = member_id, 0, 1) AS is_new FROM o
        WINDOW w AS (PARTITION BY cluster_id, group_id, topic, partition ORDER BY number)))
SELECT cluster_id, group_id, topic, partition, min(member_id) AS member_id, min_by(client_id, number) AS client_id,
       min_by(client_host, number) AS client_host, min_by(generation, number) AS generation,
       min_by(log_ts, number) AS since, max_by(next_ts, number) AS until, to_date(min_by(log_ts, number)) AS date
FROM n GROUP BY cluster_id, group_id, topic, partition, run
