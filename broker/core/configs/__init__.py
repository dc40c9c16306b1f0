"""What can be set while the broker runs: of topics, brokers and groups."""
