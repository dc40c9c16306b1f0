"""A segment: one ``.log`` file of batches and the sparse index over it, in Kafka's formats.

The event loop and the writer thread each have their own ``SegmentIndex`` of a segment that is being written, fed with
the same batches; nothing here is shared between threads.
"""

import contextlib
import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from ottla.broker.storage.engine import Corrupt, OffsetAndTimestamp, Unavailable
from ottla.broker.storage.local.files import Files, read_file, write_file
from ottla.broker.storage.local.layout import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, segment_name
from ottla.broker.storage.lookup import first_record_at_or_after
from ottla.protocol.records import HEADER_SIZE, LOG_OVERHEAD, MAGIC, NO_TIMESTAMP

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
_WALK_BYTES: Final = 8192
_MOST_READ_ENDS: Final = 8
_TIME_ENTRY: Final = struct.Struct(">qi")
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
            self.offsets.append(last_offset - self.base_offset)
            self.positions.append(position)
            self.note_time()
            self._bytes_since_entry = 0
        self._bytes_since_entry += size

    def note_time(self) -> None:
        """Make an entry of the largest timestamp, unless the last one has it."""
        if self.max_timestamp_ms > (self.times[-1] if self.times else NO_TIMESTAMP):
            self.times.append(self.max_timestamp_ms)
            self.time_offsets.append(self.offset_of_max - self.base_offset)

    def position_of(self, offset: int) -> int:
        """Where to begin to look for ``offset``: at a batch, none before it contains a later offset."""
        entry = bisect_right(self.offsets, offset - self.base_offset) - 1
        return self.positions[entry] if entry >= 0 else 0

    def position_before(self, position: int) -> int:
        """The last place known to be a batch's beginning that is not after ``position``."""
        entry = bisect_right(self.positions, position) - 1
        return self.positions[entry] if entry >= 0 else 0

    def position_for_timestamp(self, timestamp_ms: int) -> int:
        """Where to begin to look for a record with this timestamp or a later one."""
        entry = bisect_left(self.times, timestamp_ms) - 1
        return self.position_of(self.base_offset + self.time_offsets[entry]) if entry >= 0 else 0

    @property
    def size_bytes(self) -> int:
        """The size of the larger of both files."""
        return max(OFFSET_ENTRY_BYTES * len(self.offsets), TIME_ENTRY_BYTES * len(self.times))

    def copy(self) -> "SegmentIndex":
        twin = SegmentIndex(self.base_offset)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(twin, name, value[:] if isinstance(value, array) else value)
        return twin

    def encode(self) -> tuple[bytes, bytes]:
        """The contents of the ``.index`` and the ``.timeindex`` file of a segment that is complete."""
        self.note_time()
        entries = array("i", bytes(OFFSET_ENTRY_BYTES * len(self.offsets)))
        entries[0::2] = self.offsets
        entries[1::2] = self.positions
        _to_big_endian(entries)
        times = b"".join(map(_TIME_ENTRY.pack, self.times, self.time_offsets))
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
        for timestamp_ms, offset in _TIME_ENTRY.iter_unpack(time_file):
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


def write_index(files: Files, directory: str, index: SegmentIndex) -> None:
    """Write both index files and sync them; without room there are none, and they are rebuilt when needed."""
    for data, suffix in zip(index.encode(), (INDEX_SUFFIX, TIME_INDEX_SUFFIX), strict=True):
        path = os.path.join(directory, segment_name(index.base_offset, suffix))
        try:
            write_file(files, path, data)
        except OSError:
            # The pair belongs together: a time index that is missing makes the reader rebuild both.
            remove_index(files, directory, index.base_offset)
            return


def remove_index(files: Files, directory: str, base_offset: int) -> None:
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        with contextlib.suppress(OSError):
            files.remove(os.path.join(directory, segment_name(base_offset, suffix)))


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
    """Handles to read segments with, opened when needed; the least recently used one is closed when there are many."""

    def __init__(self, files: Files, most: int) -> None:
        self.files = files
        self._most = most
        self._handles: dict[Segment, int] = {}

    def handle(self, segment: "Segment") -> int:
        handle = self._handles.pop(segment, None)
        if handle is None:
            handle = self.files.open(segment.path)
            while len(self._handles) >= self._most:
                self.close(next(iter(self._handles)))
        self._handles[segment] = handle
        return handle

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
    """A segment as the event loop sees it: only what is acknowledged."""

    __slots__ = (
        "_index",
        "_is_complete",
        "_max_timestamp_ms",
        "_read_ends",
        "_readers",
        "base_offset",
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
        index: SegmentIndex | None = None,
    ) -> None:
        """``index`` None means that the segment is complete and its index lies in files, read when first needed."""
        self.path = os.path.join(directory, segment_name(base_offset, LOG_SUFFIX))
        self.base_offset = base_offset
        self.size = size
        self.next_offset = base_offset if next_offset is None else next_offset
        self._readers = readers
        self._index = index
        # Only the index of a complete segment is in files and may be forgotten.
        self._is_complete = index is None
        self._max_timestamp_ms: int | None = None
        # Where recent reads ended, position by offset: there consumers begin that read on.
        self._read_ends: dict[int, int] = {}

    @property
    def index(self) -> SegmentIndex:
        if self._index is None:
            self._index = self._load_index()
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

    def add(self, base_offset: int, count: int, size: int, max_timestamp_ms: int, interval: int) -> None:
        """Show a batch that was appended."""
        self.index.add(base_offset + count - 1, self.size, size, max_timestamp_ms, interval)
        self.size += size
        self.next_offset = base_offset + count

    def begin_writing(self) -> SegmentIndex:
        """The segment will grow; return a copy of its index for the writer."""
        index = self.index
        self._is_complete = False
        return index.copy()

    def complete(self) -> None:
        """Nothing will be added any more, and the index lies in files."""
        self._is_complete = True

    def forget(self) -> None:
        """Let go of what can be read again."""
        if self._is_complete and self._index is not None:
            self._max_timestamp_ms = self._index.max_timestamp_ms
            self._index = None

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

    def first_at_or_after(self, timestamp_ms: int, from_offset: int) -> OffsetAndTimestamp | None:
        """The first record with this timestamp or a later one."""
        files, handle = self._readers.files, self._open()
        begin = self.index.position_for_timestamp(timestamp_ms)
        for step in walk(files, self.path, handle, begin, self.size):
            if step.max_timestamp_ms >= timestamp_ms and step.last_offset >= from_offset:
                batch = files.read(handle, step.size, step.position)
                found = first_record_at_or_after(batch, timestamp_ms, from_offset)
                if found is not None:
                    return found
        return None

    def _open(self) -> int:
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
        end = max(begin, min(self.index.position_before(most), self.index.position_of(upto_offset - 1)))
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
            handle = files.open(self.path.removesuffix(LOG_SUFFIX) + TIME_INDEX_SUFFIX)
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
        timestamp_ms, offset = _TIME_ENTRY.unpack(last)
        rises = timestamp_ms > _TIME_ENTRY.unpack(first)[0] if size > TIME_ENTRY_BYTES else timestamp_ms > 0
        return timestamp_ms if rises and 0 <= offset < self.next_offset - self.base_offset else None

    def _load_index(self) -> SegmentIndex:
        files = self._readers.files
        base = self.path.removesuffix(LOG_SUFFIX)
        offset_file, time_file = (read_file(files, base + suffix) for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX))
        if offset_file is not None and time_file is not None:
            index = SegmentIndex.decode(self.base_offset, offset_file, time_file, self.size)
            if index is not None:
                return index
        index = SegmentIndex(self.base_offset)
        for step in walk(files, self.path, self._open(), 0, self.size):
            index.add(step.last_offset, step.position, step.size, step.max_timestamp_ms, _WALK_BYTES // 2)
        return index
