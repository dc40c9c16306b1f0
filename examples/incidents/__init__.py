"""Eight well-known incidents of consumer groups, played with real clients, and what ``ottla why`` says of each."""
