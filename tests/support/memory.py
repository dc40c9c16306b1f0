"""The memory that a block of a test allocates."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


class Allocated:
    """What the block has allocated: the most at one time, and what is held at its end."""

    bytes = 0
    held_bytes = 0


@contextmanager
def allocations() -> Iterator[Allocated]:
    allocated = Allocated()
    tracemalloc.start()
    try:
        yield allocated
        allocated.held_bytes, allocated.bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
