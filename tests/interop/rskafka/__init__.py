"""rskafka's own integration tests."""
