"""File descriptors of the process: how many there may be, and how many of them are no connections."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

RESERVED: Final = 256
"""Descriptors that no connection of a client gets, besides those of HTTP connections.

The log holds 234 at most (``Sizes.most_handles``). The event loop, listening sockets, standard streams and the
recorder's file take a dozen; the rest is for what is imported or read for a moment.
"""


def raise_limit() -> None:
    """Raise the process's soft limit of descriptors to the hard one, as far as the system lets us."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(ValueError, OSError):  # macOS has a smaller one that it does not tell
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def most_descriptors() -> int | None:
    """The limit of descriptors of the process; None if there is none."""
    try:
        import resource
    except ImportError:
        return None
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def most_connections(wanted: int, http: int) -> int:
    """The number of client connections that there is room for, at most ``wanted``.

    A process that may have few descriptors gives half of them to its clients.

    Args:
        http: how many HTTP connections there may be besides.
    """
    most = most_descriptors()
    return wanted if most is None else max(1, min(wanted, max(most - RESERVED - http, most // 2)))
