"""librdkafka's own test runner."""
