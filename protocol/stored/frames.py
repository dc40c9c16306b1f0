"""Frames of the journal: a header of 40 bytes, a body, and zeros up to a multiple of eight.

    magic u16 | kind u8 | flags u8 | length u32 | lsn u64 | synced_lsn u64 | log_id u32 | epoch u32 | crc32c u32 | 0 u32

An lsn is a place in the journal as a whole, in bytes: a file that begins at lsn F has the frame with lsn L at L - F, so
a frame left over from an earlier use of the file is known by its lsn. ``synced_lsn`` says how far the journal was
certainly on the disk when the frame was written. The CRC covers the header up to itself, and the body.
"""

import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from ottla.protocol.compression import Buffer
from ottla.protocol.crc import crc32c
from ottla.protocol.stored.files import ReadableFiles

MAGIC: Final = 0x4F4A
HEADER_BYTES: Final = 40
NEW_SEGMENT: Final = 1
"""Flag of a batch: it is the first of a new segment."""
_WINDOW: Final = 1024 * 1024
_TOPIC_ID_BYTES: Final = 16
_COVERED: Final = struct.Struct(">HBBIQQII")
_HEADER: Final = struct.Struct(">HBBIQQIIII")
_AFTER_COVERED: Final = struct.Struct(">II")
_MAGIC_BYTES: Final = MAGIC.to_bytes(2, "big")
PADDING: Final = tuple(bytes(-size % 8) for size in range(8))
"""The padding behind a body, by ``size % 8``."""


class Kind(IntEnum):
    """The kinds of frames."""

    BATCH = 1
    """A record batch as it lies in a segment."""
    LOG = 2
    """A log begins: its id, its topic's id and its directory's name. Comes before its first batch."""
    MARK = 3
    """Has only a later ``synced_lsn``: vouches for the last group before the journal fell idle."""


class Frame(NamedTuple):
    """A valid frame."""

    kind: int
    flags: int
    lsn: int
    synced_lsn: int
    log_id: int
    epoch: int
    body: bytes

    @property
    def end_lsn(self) -> int:
        return self.lsn + frame_bytes(len(self.body))

    @property
    def log_name(self) -> str:
        """Of a ``LOG`` frame: the name of the directory of the log that begins."""
        return self.body[_TOPIC_ID_BYTES:].decode(errors="replace")

    @property
    def topic_id(self) -> UUID:
        """Of a ``LOG`` frame: the id of the topic."""
        return UUID(bytes=self.body[:_TOPIC_ID_BYTES])


def frame_bytes(length: int) -> int:
    """The bytes of a frame with a body of ``length`` bytes."""
    return (HEADER_BYTES + length + 7) & ~7


def crc_of(crc: int, pieces: Sequence[Buffer]) -> int:
    """The CRC-32C of ``pieces``, which follow what ``crc`` is of."""
    for piece in pieces:
        crc = crc32c(piece, crc)
    return crc


def header(
    kind: int, flags: int, length: int, lsn: int, synced_lsn: int, log_id: int, epoch: int, body: Sequence[Buffer]
) -> bytes:
    """The header of a frame with ``length`` bytes in ``body``."""
    covered = _COVERED.pack(MAGIC, kind, flags, length, lsn, synced_lsn, log_id, epoch)
    crc = crc32c(covered)
    for piece in body:
        crc = crc32c(piece, crc)
    return covered + _AFTER_COVERED.pack(crc, 0)


class Window:
    """A file seen through a buffer."""

    def __init__(self, files: ReadableFiles, path: str) -> None:
        self._files = files
        self._handle = files.open(path)
        self.path = path
        self.size = files.size(self._handle)
        self._chunk = b""
        self._chunk_at = 0

    def close(self) -> None:
        self._files.close(self._handle)

    def read(self, position: int, size: int) -> bytes:
        """Up to ``size`` bytes; fewer at the end of the file only."""
        begin = position - self._chunk_at
        if begin < 0 or begin + size > len(self._chunk):
            self._chunk = self._files.read(self._handle, max(size, _WINDOW), position)
            self._chunk_at, begin = position, 0
        return self._chunk[begin : begin + size]

    def find(self, sought: bytes, position: int) -> int:
        """The first place at ``position`` or later where ``sought`` lies, -1 if there is none."""
        while position < self.size:
            if not self._chunk_at <= position < self._chunk_at + len(self._chunk) - len(sought):
                self.read(position, len(sought))
                if self._chunk_at != position:
                    self._chunk = self._files.read(self._handle, _WINDOW, position)
                    self._chunk_at = position
            found = self._chunk.find(sought, position - self._chunk_at)
            if found >= 0:
                return self._chunk_at + found
            # The end of this chunk may hold the beginning of it.
            after = self._chunk_at + len(self._chunk) - len(sought) + 1
            position = max(after, position + 1)
        return -1


def read_frame(window: Window, first_lsn: int, position: int) -> Frame | None:
    """The frame at ``position`` of a file that begins at ``first_lsn``; None if there is no valid one."""
    head = window.read(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return None
    magic, kind, flags, length, lsn, synced_lsn, log_id, epoch, crc, zero = _HEADER.unpack(head)
    if magic != MAGIC or lsn != first_lsn + position or zero or position + frame_bytes(length) > window.size:
        return None
    body = window.read(position + HEADER_BYTES, length)
    if crc_of(crc32c(head[: _COVERED.size]), (body,)) != crc:
        return None
    return Frame(kind, flags, lsn, synced_lsn, log_id, epoch, body)


def consecutive_frames(window: Window, first_lsn: int, position: int) -> Iterator[Frame]:
    """The frames that follow each other from ``position`` on, up to the first that is not valid."""
    unpack = _HEADER.unpack_from
    while True:
        chunk = window.read(position, min(_WINDOW, max(window.size - position, 0)))
        at, size = 0, len(chunk)
        # Most frames lie in one chunk: this is what a start after a crash spends its time on.
        while at + HEADER_BYTES <= size:
            magic, kind, flags, length, lsn, synced_lsn, log_id, epoch, crc, zero = unpack(chunk, at)
            if magic != MAGIC or lsn != first_lsn + position + at or zero:
                return
            end = at + HEADER_BYTES + length
            if end > size:
                break
            body = chunk[at + HEADER_BYTES : end]
            if crc32c(body, crc32c(chunk[at : at + _COVERED.size])) != crc:
                return
            yield Frame(kind, flags, lsn, synced_lsn, log_id, epoch, body)
            at = (end + 7) & ~7
        if not at:
            frame = read_frame(window, first_lsn, position)
            if frame is None:
                return
            yield frame
            at = frame_bytes(len(frame.body))
        position += at


def claimed_bytes(window: Window, first_lsn: int, position: int) -> int:
    """The bytes that the frame begun at ``position`` would take, 0 if none was begun."""
    head = window.read(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return 0
    magic, _, _, length, lsn, *_ = _HEADER.unpack(head)
    if magic != MAGIC or lsn != first_lsn + position:
        return 0
    return min(frame_bytes(length), window.size - position)


def scan_frames(window: Window, first_lsn: int, position: int) -> Iterator[Frame]:
    """Valid frames anywhere at ``position`` or later, whatever lies between them."""
    while (position := window.find(_MAGIC_BYTES, position)) >= 0:
        frame = read_frame(window, first_lsn, position) if position % 8 == 0 else None
        position = position + 1 if frame is None else frame.end_lsn - first_lsn
        if frame is not None:
            yield frame
