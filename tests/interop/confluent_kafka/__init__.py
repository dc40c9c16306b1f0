"""confluent-kafka, that is librdkafka, from Python: the newest release, and one about two years old."""
