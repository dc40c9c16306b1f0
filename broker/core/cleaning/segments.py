"""The segments of a log, by which cleaning goes, as the storage boundary describes them."""

from __future__ import annotations

from typing import Protocol


class Segment(Protocol):
    """A stretch of a log that goes as a whole. Offsets, bytes, Unix milliseconds (-1: no record has a time)."""

    @property
    def base_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def max_timestamp_ms(self) -> int: ...
    @property
    def is_closed(self) -> bool: ...
