"""Topics, partitions and producer state."""
