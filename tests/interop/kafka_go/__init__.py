"""kafka-go's own tests."""
