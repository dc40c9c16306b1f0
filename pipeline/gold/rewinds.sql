-- Every commit that lies before the one that preceded it. After a tombstone there is none that precedes.
SELECT cluster_id, group_id, topic, partition, log_offset, log_ts, committed_offset,
       greatest(was, 0) - greatest(committed_offset, 0) AS records_repeated, to_date(log_ts) AS date
FROM (SELECT *, lag(committed_offset) OVER (PARTITION BY cluster_id, group_id, topic, partition ORDER BY log_offset) AS was
      FROM offset_commits)
WHERE committed_offset < was AND to_date(log_ts) >= :since
