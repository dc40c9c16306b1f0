"""The parts that every coordinator has: shards with a life of their own, writes with an outcome, deadlines, effects."""
