"""aiokafka: the newest release, and one about two years old."""
