"""Client quotas: what is set, for whom, and what it lets through (KIP-13, KIP-124, KIP-546, KIP-599, KIP-612)."""
