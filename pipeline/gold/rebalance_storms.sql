SELECT * FROM rebalance_runs WHERE kind IS NOT NULL AND date >= :since
