SELECT cluster_id, group_id, client_id, count(*) AS sessions, min(generations) AS shortest_generations,
       median(unix_millis(last_seen) - unix_millis(first_seen)) / 1000 AS median_seconds,
       transform(array_sort(collect_set(client_host)), one -> nullif(one, '')) AS hosts, max(last_seen) AS last_seen, to_date(last_seen) AS date
FROM member_sessions WHERE departed
GROUP BY cluster_id, group_id, client_id, to_date(last_seen) HAVING count(*) >= 3
