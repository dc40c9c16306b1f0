"""The memory that a block of a test allocates."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


class Peak:
    """The most that was allocated at one time inside the block."""

    bytes = 0


@contextmanager
def allocations() -> Iterator[Peak]:
    peak = Peak()
    tracemalloc.start()
    try:
        yield peak
        peak.bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
