"""franz-go, Go's client kgo with its admin client kadm."""
