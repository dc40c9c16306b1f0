"""kcat, the command-line client on librdkafka."""
