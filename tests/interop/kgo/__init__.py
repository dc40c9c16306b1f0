"""franz-go's own tests of its client, unmodified."""
