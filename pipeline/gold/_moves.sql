-- What the rules of findings look at: each partition in each minute, beside its topic and the five minutes before.
WITH m AS (
  SELECT l.*, max(minute) OVER (PARTITION BY cluster_id) AS newest,
         sum(commits) OVER (PARTITION BY cluster_id, group_id, topic, minute) AS topic_commits,
         lag(minute, 5) OVER w = minute - INTERVAL 5 MINUTES AS whole,
         lag_records - lag(lag_records, 5) OVER w AS grown,
         -- Who commits the largest number there is, twice, adds up to more than there is.
         try_sum(consumed) OVER five AS consumed_5,
         sum(produced) OVER five AS produced_5
  FROM lag_by_partition l
  WINDOW w AS (PARTITION BY cluster_id, group_id, topic, partition ORDER BY minute),
         five AS (PARTITION BY cluster_id, group_id, topic, partition ORDER BY minute ROWS 4 PRECEDING))
SELECT cluster_id, group_id, topic, partition, minute, newest, committed_offset, lag_records, lag_seconds, commits,
       topic_commits, consumed, produced, consumed_5, produced_5,
       -- Falling behind: the lag matters, grew by more than chance would have it, and somebody does read.
       coalesce(whole AND lag_seconds >= 30 AND grown > 0.05 * produced_5 AND consumed_5 > 0, false) AS rising
FROM m
