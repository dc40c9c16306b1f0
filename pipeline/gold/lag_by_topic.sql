SELECT cluster_id, group_id, topic, minute, max(lag_seconds) AS lag_seconds, sum(lag_records) AS lag_records,
       coalesce(bool_or(lag_seconds_is_minimum), false) AS lag_seconds_is_minimum, count(*) AS partitions,
       to_date(minute) AS date
FROM lag_by_partition WHERE to_date(minute) >= :since GROUP BY ALL
