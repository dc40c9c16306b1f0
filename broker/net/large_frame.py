"""The rest of one large frame, received straight into the memory that it is served from.

Small reads are handed over as bytes, collected, and cut into frames: three copies. That is right for the thousands of
small requests, and too much for a megabyte of records. So when a large part of a frame is missing, the transport gives
what it reads to a `LargeFrame` until the frame is whole.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

LARGE_BYTES: Final = 32 << 10
"""A frame of which more than this is missing is received on its own."""

_GROWTH: Final = 4
"""Memory follows what was received and not what a length announces: at most so many times as much."""


class Owner(Protocol):
    """The connection whose frame it is."""

    def large_received(self, frame: bytearray) -> None: ...
    def large_grew(self) -> None: ...
    def eof_received(self) -> bool: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class LargeFrame(asyncio.BufferedProtocol):
    """Receives in the place of its owner. ``size`` is the frame's without its length, ``head`` what is there of it."""

    __slots__ = ("_buffer", "_owner", "_size", "received_bytes")

    def __init__(self, owner: Owner, size: int, head: bytes | bytearray) -> None:
        self._owner = owner
        self._size = size
        self.received_bytes = len(head)
        self._buffer = bytearray()
        self._grow(head)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self.received_bytes == len(self._buffer):
            self._grow(self._buffer)
        return memoryview(self._buffer)[self.received_bytes :]

    def buffer_updated(self, nbytes: int) -> None:
        self.received_bytes += nbytes
        if self.received_bytes == self._size:
            self._owner.large_received(self._buffer)
        elif self.received_bytes == len(self._buffer):
            self._owner.large_grew()

    def _grow(self, head: bytes | bytearray) -> None:
        grown = bytearray(min(self._size, max(_GROWTH * len(head), LARGE_BYTES)))
        grown[: len(head)] = head
        self._buffer = grown

    # -- what is the owner's business

    def eof_received(self) -> bool:
        return self._owner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._owner.pause_writing()

    def resume_writing(self) -> None:
        self._owner.resume_writing()
