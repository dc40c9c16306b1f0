"""The local engine: plain Kafka v2 segments in a directory."""
