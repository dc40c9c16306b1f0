"""The rest of one large frame, received straight into the memory that it is served from.

Small reads are handed over as bytes, collected, and cut into frames: three copies. That is right for the thousands of
small requests, and too much for a megabyte of records. So when a large part of a frame is missing, the transport gives
what it reads to a `LargeFrame` until the frame is whole.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final, Protocol, cast

LARGE_BYTES: Final = 32 << 10
"""A frame of which more than this is missing is received on its own."""

_GROWTH: Final = 4
"""Memory follows what was received and not what a length announces: at most so many times as much."""

_KEPT_BUFFERS: Final = 32
_KEPT_BYTES: Final = 2 << 20


class Buffers:
    """Memory of large frames, used again.

    Fresh memory is cleared before it is filled, which costs as much as receiving it. A buffer is free when nobody else
    refers to it: what was decoded from a frame refers to it as long as it lives. A few buffers of up to two megabytes
    are kept, and let go when no large frame has come for a while.
    """

    def __init__(self) -> None:
        self._kept: list[bytearray] = [bytearray(1)]
        # How many references a buffer has that nobody else knows differs between interpreters, so it is looked up.
        self._references_of_free = self._references(0)
        self._was_asked = False

    def _references(self, index: int) -> int:
        return sys.getrefcount(self._kept[index])

    def get(self, size: int) -> bytearray:
        """A buffer of ``size`` bytes with anything in it."""
        self._was_asked = True
        if size > _KEPT_BYTES:
            return bytearray(size)
        for index in range(len(self._kept)):
            if self._references(index) == self._references_of_free:
                buffer = self._kept[index]
                if len(buffer) > size:
                    del buffer[size:]
                else:
                    buffer += bytes(size - len(buffer))
                return buffer
        buffer = bytearray(size)
        if len(self._kept) < _KEPT_BUFFERS:
            self._kept.append(buffer)
        return buffer

    def sweep(self) -> None:
        """Keep nothing if nobody has asked since the last sweep."""
        if not self._was_asked:
            self._kept.clear()
        self._was_asked = False


buffers: Final = Buffers()
"""Of the process: whatever asks, asks on the event loop's thread."""


class Owner(Protocol):
    """The connection whose frame it is."""

    def large_received(self, frame: bytearray) -> None: ...
    def large_grew(self) -> None: ...
    def eof_received(self) -> bool: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class LargeFrame(asyncio.BufferedProtocol):
    """Receives in the place of its owner, who lets it `grow` when `lacks_bytes` is not 0.

    ``size`` is the frame's without its length, ``head`` what is there of it.
    """

    __slots__ = ("_buffer", "_owner", "_size", "received_bytes")

    def __init__(self, owner: Owner, size: int, head: bytes | bytearray | memoryview) -> None:
        self._owner = owner
        self._size = size
        self.received_bytes = len(head)
        self._buffer: bytes | bytearray | memoryview = head

    @property
    def held_bytes(self) -> int:
        """Bytes of memory that are held for it."""
        return len(self._buffer)

    @property
    def lacks_bytes(self) -> int:
        """Bytes by which its memory has to grow before more is received; 0 while there is room in it."""
        return self._grown_bytes - len(self._buffer) if self.received_bytes == len(self._buffer) else 0

    @property
    def _grown_bytes(self) -> int:
        return min(self._size, max(_GROWTH * self.received_bytes, LARGE_BYTES))

    def grow(self) -> None:
        """Make room for more; the memory was full."""
        grown = buffers.get(self._grown_bytes)
        grown[: self.received_bytes] = self._buffer
        self._buffer = grown

    def get_buffer(self, sizehint: int) -> memoryview:
        if self.received_bytes == len(self._buffer):
            self.grow()
        return memoryview(self._buffer)[self.received_bytes :]

    def buffer_updated(self, nbytes: int) -> None:
        self.received_bytes += nbytes
        if self.received_bytes == self._size:
            self._owner.large_received(cast(bytearray, self._buffer))
        elif self.received_bytes == len(self._buffer):
            self._owner.large_grew()

    # -- what is the owner's business

    def eof_received(self) -> bool:
        return self._owner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._owner.pause_writing()

    def resume_writing(self) -> None:
        self._owner.resume_writing()
