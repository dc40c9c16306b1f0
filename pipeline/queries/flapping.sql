SELECT cluster_id, group_id, client_id, count(*) AS sessions, min(generations) AS shortest_generations,
       median(unix_millis(last_seen) - unix_millis(first_seen)) / 1000 AS median_seconds,
       array_sort(collect_set(client_host)) AS hosts
FROM member_sessions
WHERE departed AND (:group IS NULL OR group_id = :group) AND (:since IS NULL OR last_seen >= :since)
GROUP BY cluster_id, group_id, client_id HAVING count(*) >= 3
ORDER BY sessions DESC, cluster_id, group_id, client_id LIMIT :limit
