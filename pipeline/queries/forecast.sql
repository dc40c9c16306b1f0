SELECT cluster_id, group_id, topic, lag_now, lag_per_s, r2, minutes_to_500k, minutes_to_drain, as_of
FROM lag_forecast
WHERE r2 > 0.8 AND abs(lag_per_s) > 5 AND (:group IS NULL OR group_id = :group) AND (:topic IS NULL OR topic = :topic)
ORDER BY minutes_to_500k NULLS LAST, minutes_to_drain NULLS LAST, cluster_id, group_id, topic LIMIT :limit
