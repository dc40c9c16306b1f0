"""The HTTP port: console, metrics, health and the read-only API under ``/v1``.

Nothing here is imported unless it is asked for. Everything is read through interfaces (`parts`), so that this room
knows no other one of the broker.
"""
