"""kafkajs against Ottla."""
