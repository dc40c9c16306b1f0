"""Logs in a database that speaks PostgreSQL's protocol: the machines of a node, and the port to the database."""
