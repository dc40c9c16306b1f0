"""confluent's JavaScript client, built on librdkafka, against Ottla."""
