"""Where the logs live, and how much room is there."""

from __future__ import annotations

from typing import NamedTuple


class LogDir(NamedTuple):
    """The one place that holds every log, as DescribeLogDirs shows it. Sizes in bytes, -1 where there is no volume."""

    path: str
    total_bytes: int = -1
    usable_bytes: int = -1
    """Bytes that this process may still take of it."""


IN_MEMORY = LogDir("memory")
"""Logs that live in memory have neither a directory nor a volume."""
