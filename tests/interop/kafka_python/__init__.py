"""kafka-python: the newest release, and the one of two years ago."""
