"""What every coordinator has: shards with a life of their own, writes whose outcome is awaited, deadlines, effects."""
