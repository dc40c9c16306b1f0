"""Frames: a signed 32-bit length, then that many bytes. Sans-I/O, for both ends of a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.protocol.errors import FrameTooLarge, MalformedFrame

ANY_REQUEST_BYTES: Final = 128 << 10
"""So long may every request be, whatever it asks."""

KEY_BYTES: Final = 2
"""The API key, with which every request begins."""

SHARED_BYTES: Final = 4096
"""Records of at least this size are not copied out of their frame, nor into one that is large as a whole."""


class Gathered:
    """A large frame in pieces, which go out one after the other: nobody copies them into one.

    Attributes:
        pieces: whatever they are, they are not changed any more.
    """

    __slots__ = ("_size", "pieces")

    def __init__(self, pieces: list[bytes], size: int) -> None:
        self.pieces = pieces
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.pieces)


def gathered(chunks: list[bytes], size: int) -> Gathered:
    """A frame of which what is large stays where it is; what is small is joined to what stands beside it."""
    pieces: list[bytes] = []
    small: list[bytes] = []
    for chunk in chunks:
        if len(chunk) < SHARED_BYTES:
            small.append(chunk)
            continue
        if small:
            pieces.append(b"".join(small))
            small.clear()
        pieces.append(chunk)
    pieces.append(b"".join(small))
    return Gathered(pieces, size)


_OTHERS = {"TLS": 0x1603, "HTTP": int.from_bytes(b"GE", "big")}
"""What else may come to a port, and the two bytes with which it begins: as lengths they are too large."""


class FrameReader:
    """Collects bytes and gives whole frames, without their length.

    Memory follows what was received, never what a length announces: a frame of 100 MB that is announced and not sent
    costs four bytes.

    Args:
        max_frame_bytes: the longest frame that is accepted (``socket.request.max.bytes`` on a broker).
        min_frame_bytes: the shortest one; tokens of SASL may be empty.
    """

    def __init__(self, max_frame_bytes: int = 100 << 20, min_frame_bytes: int = 1) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.min_frame_bytes = min_frame_bytes
        self._buffer = bytearray()
        self._start = 0
        self._need = 4  # unread bytes below which `next` cannot give anything
        self._whole: bytearray | None = None  # a frame that was put, before everything else

    @property
    def buffered_bytes(self) -> int:
        """Bytes received and not yet given as frames."""
        return len(self._buffer) - self._start + (0 if self._whole is None else len(self._whole))

    @property
    def held_bytes(self) -> int:
        """Bytes of memory that are held for them."""
        return self._buffer.__alloc__() + (0 if self._whole is None else len(self._whole))

    @property
    def missing_bytes(self) -> int:
        """Bytes that the frame which `next` waits for still lacks; 0 as long as its length is not known."""
        return max(0, self._need - len(self._buffer) + self._start) if self._need > 4 + KEY_BYTES else 0

    def peek(self, count: int) -> bytes | None:
        """The first ``count`` bytes of the next frame, None if they are not there yet."""
        if self._whole is not None:
            return bytes(self._whole[:count])
        begin = self._start + 4
        return bytes(self._buffer[begin : begin + count]) if len(self._buffer) >= begin + count else None

    def take(self) -> tuple[int, bytearray]:
        """Give up the frame that `next` waits for: its length, and what is there of it. It comes back by `put`."""
        size, head = self._need - 4, self._buffer[self._start + 4 :]
        self.clear()
        return size, head

    def put(self, frame: bytearray) -> None:
        """Take a whole frame, to be given next; nothing else waits."""
        self._whole = frame

    def feed(self, data: bytes | memoryview) -> None:
        """Take received bytes."""
        self._buffer += data

    def next(self, check: Callable[[int, bytes], None] | None = None) -> bytes | bytearray | None:
        """The next whole frame, or None until more bytes come. A ``bytearray`` is one that was `put`.

        Args:
            check: refuses, with the error that it raises, a request longer than ANY_REQUEST_BYTES, by its length and
                its API key: before the rest has come.

        Raises:
            MalformedFrame: the length is below ``min_frame_bytes``.
            FrameTooLarge: the length exceeds ``max_frame_bytes``. Nothing is allocated for it.
        """
        if self._whole is not None:
            whole, self._whole = self._whole, None
            return whole
        buffer, start = self._buffer, self._start
        available = len(buffer) - start
        if available < self._need:
            return None
        size = int.from_bytes(buffer[start : start + 4], "big", signed=True)
        check_length(size, self.max_frame_bytes, self.min_frame_bytes)
        if size > ANY_REQUEST_BYTES and check is not None:
            if available < 4 + KEY_BYTES:
                self._need = 4 + KEY_BYTES
                return None
            check(size, bytes(buffer[start + 4 : start + 4 + KEY_BYTES]))
        end = start + 4 + size
        if available < 4 + size:
            self._need = 4 + size
            return None
        frame = bytes(memoryview(buffer)[start + 4 : end])
        self._need = 4
        if end == len(buffer):
            buffer.clear()
            self._start = 0
        elif end > 1 << 16 and end > len(buffer) // 2:
            del buffer[:end]  # moved at most as often as it is halved
            self._start = 0
        else:
            self._start = end
        return frame

    def clear(self) -> None:
        """Forget everything received."""
        self._buffer = bytearray()
        self._start = 0
        self._need = 4
        self._whole = None


def check_length(size: int, max_frame_bytes: int, min_frame_bytes: int = 1) -> None:
    """Refuse a length that no frame of ours may have.

    Raises:
        MalformedFrame: it is below ``min_frame_bytes``: zero or negative.
        FrameTooLarge: it exceeds ``max_frame_bytes``.
    """
    if size < min_frame_bytes:
        raise MalformedFrame(f"frame length {size}")
    if size > max_frame_bytes:
        hint = next((f"; {name} begins like that" for name, first in _OTHERS.items() if size >> 16 == first), "")
        raise FrameTooLarge(f"frame of {size} bytes, allowed are {max_frame_bytes}{hint}")
