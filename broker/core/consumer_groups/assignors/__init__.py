"""Which member gets which partitions: Kafka's ``uniform`` and ``range``, by name, in its order of preference."""
