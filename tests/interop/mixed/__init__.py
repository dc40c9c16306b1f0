"""Members of clients in several languages in one group."""
