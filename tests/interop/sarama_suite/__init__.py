"""sarama's own functional tests."""
