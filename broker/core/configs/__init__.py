"""Settings of topics, brokers and groups that change while the broker runs."""
