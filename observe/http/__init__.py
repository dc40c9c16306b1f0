"""The HTTP port: console, metrics, health and the read-only API under ``/v1``.

Nothing here is imported unless it is asked for. `parts` has all that can be shown.
"""
