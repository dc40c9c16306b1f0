"""A segment: one ``.log`` file of batches and the sparse index over it, in Kafka's formats.

The index of a segment that is being written is fed by the keeper's thread and read by the event loop, without a lock:
it only grows, each entry is complete before it can be found, and the event loop looks at nothing beyond the size of
the segment that it was told of.
"""

import contextlib
import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.broker.engine import Corrupt, Unavailable
from ottla.broker.storage.local.files import NO_HANDLE, Files, read_file, write_file
from ottla.protocol.records import HEADER_SIZE, LOG_OVERHEAD, MAGIC, NO_TIMESTAMP
from ottla.protocol.stored.names import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    OFFSET_ENTRY,
    TIME_ENTRY,
    TIME_INDEX_SUFFIX,
    parse_segment_name,
    segment_name,
)

OFFSET_ENTRY_BYTES: Final = OFFSET_ENTRY.size
TIME_ENTRY_BYTES: Final = TIME_ENTRY.size
_WALK_BYTES: Final = 8192
_MOST_READ_ENDS: Final = 8
# Base offset, batch length, magic, last offset delta and max timestamp of a batch header.
_STEP: Final = struct.Struct(">qi4xb6xi8xq")


class SegmentIndex:
    """Positions of some batches by their last offsets, and the largest timestamp so far at those moments.

    Kafka's meaning: an entry ``(last offset, position)`` says where the batch with that last offset begins; an entry
    ``(timestamp, offset)`` says that nothing up to that place is younger. Offsets are relative to the base offset.
    """

    __slots__ = (
        "_bytes_since_entry",
        "base_offset",
        "max_timestamp_ms",
        "offset_of_max",
        "offsets",
        "positions",
        "time_offsets",
        "times",
    )

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.offsets = array("i")
        self.positions = array("i")
        self.times = array("q")
        self.time_offsets = array("i")
        self.max_timestamp_ms = NO_TIMESTAMP
        self.offset_of_max = base_offset
        self._bytes_since_entry = 0

    def add(self, last_offset: int, position: int, size: int, max_timestamp_ms: int, interval: int) -> None:
        """Note a batch that was appended at ``position``; an entry is made every ``interval`` bytes."""
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.offset_of_max = last_offset
        if self._bytes_since_entry > interval:
            self.positions.append(position)
            self.offsets.append(last_offset - self.base_offset)
            self.note_time()
            self._bytes_since_entry = 0
        self._bytes_since_entry += size

    def note_time(self) -> None:
        """Make an entry of the largest timestamp, unless the last one has it."""
        if self.max_timestamp_ms > (self.times[-1] if self.times else NO_TIMESTAMP):
            self.time_offsets.append(self.offset_of_max - self.base_offset)
            self.times.append(self.max_timestamp_ms)

    def position_of(self, offset: int) -> int:
        """The position of a batch to begin a search for ``offset`` at: no earlier one contains it."""
        entry = bisect_right(self.offsets, offset - self.base_offset) - 1
        return self.positions[entry] if entry >= 0 else 0

    def position_before(self, position: int) -> int:
        """The last place known to be a batch's beginning that is not after ``position``."""
        entry = bisect_right(self.positions, position) - 1
        return self.positions[entry] if entry >= 0 else 0

    def position_for_timestamp(self, timestamp_ms: int) -> int:
        """The position of a batch to begin a search for a record of this time or later at."""
        entry = bisect_left(self.times, timestamp_ms) - 1
        return self.position_of(self.base_offset + self.time_offsets[entry]) if entry >= 0 else 0

    def encode(self, from_entry: int = 0, from_time: int = 0) -> tuple[bytes, bytes]:
        """The content of the ``.index`` and the ``.timeindex`` file, from these entries on."""
        offsets, positions = self.offsets[from_entry:], self.positions[from_entry:]
        entries = array("i", bytes(OFFSET_ENTRY_BYTES * len(offsets)))
        entries[0::2] = offsets
        entries[1::2] = positions
        _to_big_endian(entries)
        times = b"".join(map(TIME_ENTRY.pack, self.times[from_time:], self.time_offsets[from_time:]))
        return entries.tobytes(), times

    @classmethod
    def decode(cls, base_offset: int, offset_file: bytes, time_file: bytes, log_size: int) -> "SegmentIndex | None":
        """The index that lies in the two files, None if they make no sense: an index is only worth rebuilding."""
        if len(offset_file) % OFFSET_ENTRY_BYTES or len(time_file) % TIME_ENTRY_BYTES:
            return None
        entries = array("i", offset_file)
        _to_big_endian(entries)
        index = cls(base_offset)
        index.offsets, index.positions = entries[0::2], entries[1::2]
        for timestamp_ms, offset in TIME_ENTRY.iter_unpack(time_file):
            index.times.append(timestamp_ms)
            index.time_offsets.append(offset)
        if index.times:
            index.max_timestamp_ms = index.times[-1]
            index.offset_of_max = base_offset + index.time_offsets[-1]
        if not (_rises(index.offsets) and _rises(index.positions) and _rises(index.times)):
            return None
        if index.positions and (index.positions[0] <= 0 or index.positions[-1] >= log_size):
            return None
        return index


def _to_big_endian(entries: "array[int]") -> None:
    # Files are big-endian; swapping back is the same.
    if struct.pack("=h", 1) != struct.pack(">h", 1):
        entries.byteswap()


def _rises(numbers: "array[int]") -> bool:
    return all(map(int.__lt__, numbers, numbers[1:]))


def segment_path(directory: str, base_offset: int, suffix: str = LOG_SUFFIX) -> str:
    """One of the files of a segment."""
    return os.path.join(directory, segment_name(base_offset, suffix))


def segment_bases(files: Files, directory: str) -> list[int]:
    """The base offsets of the segments in a directory, rising. Raises ``OSError``."""
    return sorted(base for name in files.list(directory) if (base := parse_segment_name(name)) is not None)


def write_index(files: Files, directory: str, index: SegmentIndex) -> None:
    """Write both index files of a complete segment and sync them; without room there are none."""
    index.note_time()
    for data, suffix in zip(index.encode(), (INDEX_SUFFIX, TIME_INDEX_SUFFIX), strict=True):
        path = segment_path(directory, index.base_offset, suffix)
        try:
            write_file(files, path, data)
        except OSError:
            # The pair belongs together: a time index that is missing makes the reader rebuild both.
            remove_index(files, directory, index.base_offset)
            return


def load_index(
    files: Files, path: str, handle: int, base_offset: int, size: int, entries: tuple[int, int] | None
) -> tuple[SegmentIndex, bool]:
    """The index of a segment of ``size`` bytes in ``path``, open as ``handle``, and whether it had to be rebuilt.

    ``entries`` is how many of each file count, None for all.
    """
    base = path.removesuffix(LOG_SUFFIX)
    found = [read_file(files, base + suffix) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX)]
    if entries is not None:
        wanted = (entries[0] * OFFSET_ENTRY_BYTES, entries[1] * TIME_ENTRY_BYTES)
        found = [
            data[:most] if data is not None and len(data) >= most else None if most else b""
            for data, most in zip(found, wanted, strict=True)
        ]
    if found[0] is not None and found[1] is not None:
        index = SegmentIndex.decode(base_offset, found[0], found[1], size)
        if index is not None:
            return index, False
    index = SegmentIndex(base_offset)
    for step in walk(files, path, handle, 0, size):
        index.add(step.last_offset, step.position, step.size, step.max_timestamp_ms, _WALK_BYTES // 2)
    return index, True


def remove_segment(files: Files, directory: str, base_offset: int) -> None:
    """Remove a segment's files, as far as they are there."""
    with contextlib.suppress(FileNotFoundError):
        files.remove(segment_path(directory, base_offset))
    remove_index(files, directory, base_offset)


def remove_index(files: Files, directory: str, base_offset: int) -> None:
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        with contextlib.suppress(OSError):
            files.remove(segment_path(directory, base_offset, suffix))


class Step(NamedTuple):
    """A batch met on a walk."""

    position: int
    size: int
    last_offset: int
    max_timestamp_ms: int


def walk(files: Files, path: str, handle: int, position: int, end: int) -> Iterator[Step]:
    """The batches from ``position``, which is a batch's beginning, up to ``end``; only their headers are read.

    Raises ``Corrupt`` where there is no batch.
    """
    chunk = b""
    chunk_at = position
    while position < end:
        if position + HEADER_SIZE > chunk_at + len(chunk):
            chunk = files.read(handle, min(_WALK_BYTES, end - position), position)
            chunk_at = position
        try:
            base_offset, length, magic, last_delta, max_timestamp_ms = _STEP.unpack_from(chunk, position - chunk_at)
        except struct.error:
            raise Corrupt(f"{path}, byte {position}: {end - position} bytes are too few for a batch") from None
        after = position + length + LOG_OVERHEAD
        if magic != MAGIC or length < HEADER_SIZE - LOG_OVERHEAD or after > end:
            raise Corrupt(f"{path}, byte {position}: there is no batch")
        yield Step(position, after - position, base_offset + last_delta, max_timestamp_ms)
        position = after


class Readers:
    """Handles to read segments with, opened when needed; the least recently used one is closed when there are many.

    It is closed too when nothing else is left to open a file with, so that only who has none goes without.
    """

    def __init__(self, files: Files, most: int) -> None:
        self.files = files
        self._most = most
        self._handles: dict[Segment, int] = {}

    def handle(self, segment: "Segment") -> int:
        handle = self._handles.pop(segment, None)
        if handle is None:
            handle = self.open(segment.path)
            while len(self._handles) >= self._most:
                self.close(next(iter(self._handles)))
        self._handles[segment] = handle
        return handle

    def open(self, path: str) -> int:
        """Open a file, for the caller to close. Raises ``OSError``."""
        while True:
            try:
                return self.files.open(path)
            except OSError as error:
                if not self.gives_way(error):
                    raise

    def gives_way(self, error: OSError, *, but: int = 0) -> bool:
        """Close a handle if none is left to open a file with, but not the last ``but`` used; tell whether one was."""
        if error.errno not in NO_HANDLE or len(self._handles) <= but:
            return False
        self.close(next(iter(self._handles)))
        return True

    def close(self, segment: "Segment") -> None:
        """Close the segment's handle if it has one."""
        handle = self._handles.pop(segment, None)
        if handle is not None:
            self.files.close(handle)
            segment.forget()

    def close_all(self) -> None:
        for segment in list(self._handles):
            self.close(segment)


class Segment:
    """A segment as the event loop sees it: only what has been written to it."""

    __slots__ = (
        "_entries",
        "_index",
        "_max_timestamp_ms",
        "_pinned",
        "_read_ends",
        "_readers",
        "base_offset",
        "is_closed",
        "next_offset",
        "path",
        "size",
    )

    def __init__(
        self,
        readers: Readers,
        directory: str,
        base_offset: int,
        *,
        size: int = 0,
        next_offset: int | None = None,
        is_closed: bool = True,
        max_timestamp_ms: int | None = None,
    ) -> None:
        """Without ``resume`` or ``grown`` the index is read from its files when first needed."""
        self.path = segment_path(directory, base_offset)
        self.base_offset = base_offset
        self.size = size
        self.next_offset = base_offset if next_offset is None else next_offset
        self.is_closed = is_closed
        self._readers = readers
        self._index: SegmentIndex | None = None
        self._entries: tuple[int, int] | None = None
        self._max_timestamp_ms = max_timestamp_ms
        self._pinned: int | None = None
        # Where recent reads ended, position by offset: there consumers begin that read on.
        self._read_ends: dict[int, int] = {}

    @property
    def index(self) -> SegmentIndex:
        while self._index is None:
            try:
                self._index, rebuilt = load_index(
                    self._readers.files, self.path, self._open(), self.base_offset, self.size, self._entries
                )
            except OSError as error:
                if not self._readers.gives_way(error, but=1):
                    raise
            else:
                if not rebuilt and self._max_timestamp_ms is not None:
                    self._index.max_timestamp_ms = self._max_timestamp_ms
        return self._index

    @property
    def max_timestamp_ms(self) -> int:
        """The largest timestamp of a batch, -1 if none has one."""
        if self._index is not None:
            return self._index.max_timestamp_ms
        if self._max_timestamp_ms is None:
            peeked = self._peek_max_timestamp()
            self._max_timestamp_ms = self.index.max_timestamp_ms if peeked is None else peeked
        return self._max_timestamp_ms

    def resume(self, index: SegmentIndex | None, entries: tuple[int, int], max_timestamp_ms: int) -> None:
        """The segment will be gone on with; so many entries of its index files count."""
        self.is_closed = False
        self._index, self._entries, self._max_timestamp_ms = index, entries, max_timestamp_ms

    def grown(self, index: SegmentIndex, size: int, next_offset: int) -> None:
        """More has been written to it."""
        self._index = index
        self.size = size
        self.next_offset = next_offset

    def close(self) -> None:
        """Mark it as complete: the index lies in files."""
        self.is_closed = True
        self._entries = None

    def forget(self) -> None:
        """Let go of what can be read again."""
        # While it is pinned its index files may already be those of what replaces it.
        if self.is_closed and self._index is not None and self._pinned is None:
            self._max_timestamp_ms = self._index.max_timestamp_ms
            self._index = None

    def pin(self) -> None:
        """Stay readable while the file of this name may be replaced."""
        if self._pinned is None:
            _ = self.index
            self._pinned = self._readers.open(self.path)

    def unpin(self) -> None:
        if self._pinned is not None:
            handle, self._pinned = self._pinned, None
            self._readers.files.close(handle)

    def read(self, start_offset: int, upto_offset: int, max_bytes: int, at_least_one: bool) -> tuple[bytes, bool]:
        """Whole batches from the one that contains ``start_offset`` or is the next after it.

        Also tells whether that was all up to the segment's end, so that the next segment goes on where this one ends.
        """
        files, handle = self._readers.files, self._open()
        first = self._locate(handle, start_offset)
        if first is None:
            return b"", True
        if first.last_offset >= upto_offset:
            return b"", False
        begin = first.position
        if first.size > max_bytes:
            end = begin + first.size
            if not at_least_one:
                return b"", False
        else:
            end = self._end_of_read(handle, begin, upto_offset, max_bytes)
        data = files.read(handle, end - begin, begin)
        if len(data) != end - begin:
            raise Corrupt(f"{self.path}: {end - begin} bytes should be at {begin}, {len(data)} are")
        return data, end == self.size

    def batch_for_timestamp(self, timestamp_ms: int, from_offset: int) -> bytes | None:
        """The first batch at or after an offset whose largest timestamp is this one or later."""
        files, handle = self._readers.files, self._open()
        begin = max(self.index.position_for_timestamp(timestamp_ms), self.index.position_of(from_offset))
        for step in walk(files, self.path, handle, begin, self.size):
            if step.max_timestamp_ms >= timestamp_ms and step.last_offset >= from_offset:
                return files.read(handle, step.size, step.position)
        return None

    def _open(self) -> int:
        if self._pinned is not None:
            return self._pinned
        try:
            return self._readers.handle(self)
        except FileNotFoundError:
            raise Corrupt(f"{self.path} is missing") from None
        except OSError as error:
            raise Unavailable(f"opening {self.path}: {error.strerror}") from None

    def _locate(self, handle: int, offset: int) -> Step | None:
        """The first batch that ends at ``offset`` or later."""
        known = self._read_ends.get(offset)
        begin = self.index.position_of(offset) if known is None else known
        for step in walk(self._readers.files, self.path, handle, begin, self.size):
            if step.last_offset >= offset:
                return step
        return None

    def _end_of_read(self, handle: int, begin: int, upto_offset: int, max_bytes: int) -> int:
        """The end of the last batch that ends below ``upto_offset`` and within ``max_bytes``; the first one does."""
        most = begin + max_bytes
        if most >= self.size and upto_offset >= self.next_offset:
            self._note_end(self.next_offset, self.size)
            return self.size
        # Entries beyond what this segment is known to hold may be there already.
        most = min(most, self.size)
        last = min(upto_offset, self.next_offset) - 1
        end = max(begin, min(self.index.position_before(most), self.index.position_of(last)))
        after = -1
        for step in walk(self._readers.files, self.path, handle, end, self.size):
            if step.last_offset >= upto_offset or step.position + step.size > most:
                break
            end = step.position + step.size
            after = step.last_offset + 1
        if after >= 0:
            self._note_end(after, end)
        return end

    def _note_end(self, next_offset: int, position: int) -> None:
        self._read_ends[next_offset] = position
        if len(self._read_ends) > _MOST_READ_ENDS:
            del self._read_ends[next(iter(self._read_ends))]

    def _peek_max_timestamp(self) -> int | None:
        """The last entry of the time index, None if it does not look like one: a search by time asks every segment."""
        files = self._readers.files
        try:
            handle = self._readers.open(self.path.removesuffix(LOG_SUFFIX) + TIME_INDEX_SUFFIX)
        except FileNotFoundError:
            return None
        try:
            size = files.size(handle)
            first = files.read(handle, TIME_ENTRY_BYTES, 0)
            last = files.read(handle, TIME_ENTRY_BYTES, max(size - TIME_ENTRY_BYTES, 0))
        finally:
            files.close(handle)
        if not size or size % TIME_ENTRY_BYTES:
            return None
        timestamp_ms, offset = TIME_ENTRY.unpack(last)
        rises = timestamp_ms > TIME_ENTRY.unpack(first)[0] if size > TIME_ENTRY_BYTES else timestamp_ms > 0
        return timestamp_ms if rises and 0 <= offset < self.next_offset - self.base_offset else None
