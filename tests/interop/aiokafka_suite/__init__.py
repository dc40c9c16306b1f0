"""aiokafka's own tests."""
