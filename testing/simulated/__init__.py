"""A database that nodes of a test have in common, simulated: what PostgreSQL promises, and no more."""
