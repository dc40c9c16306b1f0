"""Scenarios that every Python client plays, each in an environment of its own; a client is behind the face of a Kit."""
