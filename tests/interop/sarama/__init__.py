"""IBM's sarama, the older of Go's clients."""
