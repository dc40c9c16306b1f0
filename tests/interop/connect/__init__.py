"""Kafka Connect and MirrorMaker 2, whose workers, connectors and brokers come and go."""
