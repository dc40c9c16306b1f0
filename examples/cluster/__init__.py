"""Nodes over PostgreSQL: nodes and servers fail under load, and the group goes on."""
