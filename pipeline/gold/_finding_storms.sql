-- storm and rolling_restart.
SELECT s.cluster_id, s.group_id, s.kind, s.started_at,
       CASE WHEN ended_at + INTERVAL 1 MINUTE <= coalesce(now, ended_at + INTERVAL 1 MINUTE) THEN ended_at END AS ended_at,
       CAST(NULL AS STRING) AS topic, CAST(NULL AS INT) AS partitions, suspect_client AS suspect,
       concat(rebalances, ' rebalances in ', unix_seconds(ended_at) - unix_seconds(started_at), ' s with up to ', members,
              ' members', if(paused_ms IS NULL, '', concat('; ', round(paused_ms / 1000, 1), ' s without work')),
              if(main_reason IS NULL, '', concat('; mostly: ', main_reason))) AS evidence
FROM rebalance_storms s LEFT JOIN (SELECT cluster_id, max(minute) AS now FROM lag_by_partition GROUP BY ALL) USING (cluster_id)
