-- slow and hot_partition: the lag grew over fifteen minutes although somebody reads. If that is so for fewer than half
-- of the partitions, and they get more than twice what the others do, it is they that are hot.
WITH r AS (
  SELECT *, unix_seconds(minute) - 60 * row_number() OVER (
              PARTITION BY cluster_id, group_id, topic, partition ORDER BY minute) AS run
  FROM moves WHERE rising),
runs AS (
  SELECT cluster_id, group_id, topic, partition, min(minute) AS first, max(minute) AS last,
         max_by(lag_records, minute) AS lag_records, max(lag_seconds) AS lag_seconds
  FROM r GROUP BY cluster_id, group_id, topic, partition, run HAVING count(*) >= 10),
n AS (
  SELECT *, sum(if(first <= before + INTERVAL 5 MINUTES, 0, 1)) OVER (
              PARTITION BY cluster_id, group_id, topic ORDER BY first, partition ROWS UNBOUNDED PRECEDING) AS number
  FROM (SELECT *, max(last) OVER (PARTITION BY cluster_id, group_id, topic ORDER BY first, partition
                                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before FROM runs)),
f AS (
  SELECT cluster_id, group_id, topic, min(first) AS first, max(last) AS last, collect_set(partition) AS which,
         sum(lag_records) AS lag_records, max(lag_seconds) AS lag_seconds
  FROM n GROUP BY cluster_id, group_id, topic, number),
b AS (
  SELECT f.*, count(DISTINCT m.partition) AS all_partitions, max(m.newest) AS newest,
         avg(if(array_contains(which, m.partition), m.produced, NULL)) AS theirs,
         avg(if(array_contains(which, m.partition), m.consumed, NULL)) AS read,
         avg(if(array_contains(which, m.partition), NULL, m.produced)) AS others
  FROM f JOIN moves m ON m.cluster_id = f.cluster_id AND m.group_id = f.group_id AND m.topic = f.topic
                     AND m.minute BETWEEN f.first AND f.last
  GROUP BY ALL)
SELECT cluster_id, group_id,
       CASE WHEN size(which) * 2 < all_partitions AND theirs > 2 * others THEN 'hot_partition' ELSE 'slow' END AS kind,
       -- A minute counts as rising by the five before it.
       first - INTERVAL 5 MINUTES AS started_at,
       CASE WHEN last < newest - INTERVAL 1 MINUTE THEN last END AS ended_at,
       topic, size(which) AS partitions, CAST(NULL AS STRING) AS suspect,
       concat('of ', CAST(theirs AS BIGINT), ' records a minute ', CAST(read AS BIGINT), ' were read in ',
              if(size(which) = all_partitions, 'each partition', concat('partition ', array_join(array_sort(which), ', '))),
              '; ', lag_records, ' unread, the oldest for ', CAST(lag_seconds AS BIGINT), ' s') AS evidence
FROM b
