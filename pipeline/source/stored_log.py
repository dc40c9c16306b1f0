"""One partition's log as it lies in files: its segments, then what only the journal has."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ottla.pipeline.codec import Aborted, Chunk, Damage, Transactions, walk
from ottla.pipeline.source.journal import Journal
from ottla.pipeline.source.logs import Broken, SourceError
from ottla.pipeline.source.segments import GULP, Segment, batch_places, end_offset, entries, position_of, segments_of
from ottla.protocol.records import HEADER_SIZE, LOG_OVERHEAD, TRANSACTIONAL_BIT, TopicPartition
from ottla.protocol.stored.checkpoint import LogState
from ottla.protocol.stored.journal import Place

_LENGTH_AND_ATTRIBUTES = struct.Struct(">i9xh").unpack_from
_MOST_LOOKS = 10


class Moved(Exception):
    """A file is not there any more, or another one has its name: a broker is at work. Look again."""


@dataclass(eq=False)
class StoredLog:
    """A log, seen through the files of a moment; `forget` looks at those of the next.

    Args:
        directory: of the partition.
        journal: gives what the data directory's journal says now.
        least_start: the least that the log can begin at.
    """

    tp: TopicPartition
    directory: Path
    _journal: Callable[[], Journal | None]
    _least_start: int
    _segments: list[Segment] | None = None
    _segments_end: int | None = None
    _transactions: Transactions = field(default_factory=Transactions)
    _scanned: int = 0  # up to this offset `_transactions` knows everything

    def forget(self) -> None:
        """The files may have changed."""
        self._segments = self._segments_end = None

    # -- where it begins and ends

    @property
    def segments(self) -> list[Segment]:
        """The segments that count."""
        if self._segments is None:
            # The journal is looked at first: what leaves it meanwhile is in the segments by then.
            journal = self._journal()
            self._segments = segments_of(self.directory, journal.trusted(self.directory.name) if journal else None)
        return self._segments

    @property
    def segments_end(self) -> int:
        """Behind the last batch of the segments."""
        if self._segments_end is None:
            self._segments_end = end_offset(self.segments[-1]) if self.segments else 0
        return self._segments_end

    @property
    def places(self) -> list[Place]:
        """Batches of the journal that the segments do not have."""
        journal = self._journal()
        places = journal.followed.places.get(self.directory.name, []) if journal is not None else []
        return [place for place in places if place.base_offset >= self.segments_end]

    @property
    def _state(self) -> LogState | None:
        journal = self._journal()
        return None if journal is None else journal.followed.states.get(self.directory.name)

    @property
    def start_offset(self) -> int:
        """The first offset of the log."""
        if (state := self._state) is not None:
            return max(self._least_start, state.log_start_offset)
        if self.segments:
            return max(self._least_start, self.segments[0].base_offset)
        return max(self._least_start, self.places[0].base_offset if self.places else 0)

    @property
    def end_offset(self) -> int:
        """Behind the last batch."""
        least = self.start_offset if (state := self._state) is None else state.next_offset
        return max(least, self.segments_end, *(place.end_offset for place in self.places[-1:]))

    def stable_end(self, limit: int | None = None) -> int:
        """Before it no transaction is open (the last stable offset), as far as ``limit``, or the end."""
        for _ in range(_MOST_LOOKS):
            try:
                end = self.end_offset if limit is None else limit
                self._scan(end)
                break
            except (Moved, FileNotFoundError):
                self.forget()
        else:
            raise SourceError(f"{self.directory}: files come and go faster than they can be read")
        found = self._transactions
        return min(end, found.last_stable_offset) if found.last_stable_offset < found.next_offset else end

    def aborted(self) -> tuple[Aborted, ...]:
        """Aborted transactions that `stable_end` has met."""
        return tuple(self._transactions.aborted)

    def offset_at(self, timestamp_ms: int) -> int | None:
        """The first record with that time (Unix ms) or a later one; None if there is none."""
        for number, segment in enumerate(self.segments):
            closed = number < len(self.segments) - 1
            if closed and (times := entries(segment, ".timeindex")) and times[-1][0] < timestamp_ms:
                continue
            for place in batch_places(segment):
                if place.max_timestamp >= timestamp_ms and place.end_offset > self.start_offset:
                    data = _read(segment.path, place.position, place.size)
                    if (found := self._first_at(data, timestamp_ms)) is not None:
                        return found
        for one in self.places:
            if (found := self._first_at(self._read_place(one), timestamp_ms)) is not None:
                return found
        return None

    def history(self, interval_ms: int) -> list[tuple[int, int]]:
        """Times (Unix ms) and the log's end at each: as often as files tell, but no two closer than ``interval_ms``.

        One for the end of each segment and one for the end of all are there in any case.
        """
        found: list[tuple[int, int]] = []

        def note(at_ms: int, end: int, *, in_any_case: bool = False) -> None:
            if at_ms < 0 or (found and at_ms < found[-1][0]):
                at_ms = found[-1][0] if found else -1  # times of producers may go back
            if at_ms < 0 or (found and end <= found[-1][1]):
                return
            if in_any_case or not found or at_ms >= found[-1][0] + interval_ms:
                found.append((at_ms, end))

        segments = self.segments
        for number, segment in enumerate(segments):
            closed = number + 1 < len(segments)
            times = entries(segment, ".timeindex") if closed else []
            for at_ms, relative in times[:-1]:
                note(at_ms, segment.base_offset + relative + 1)
            if times:
                note(times[-1][0], segments[number + 1].base_offset, in_any_case=True)
                continue
            largest = -1
            for place in batch_places(segment):
                largest = max(largest, place.max_timestamp)
                note(largest, place.end_offset)
            note(largest, segments[number + 1].base_offset if closed else self.segments_end, in_any_case=True)
        largest = -1
        for one in self.places:
            largest = max(largest, int.from_bytes(self._read_place(one)[35:43], "big", signed=True))
            note(largest, one.end_offset)
        note(largest, self.end_offset, in_any_case=True)
        return found

    def _first_at(self, data: bytes, timestamp_ms: int) -> int | None:
        chunk = walk(data, start_offset=self.start_offset)
        rows = (chunk.timestamps >= timestamp_ms).nonzero()[0]
        return int(chunk.offsets[rows[0]]) if len(rows) else None

    # -- records

    def chunks(self, start: int, end: int, aborted: Sequence[Aborted], broken: Broken) -> Iterator[Chunk]:
        """The records from ``start`` to before ``end``, some MiB at a time.

        Raises:
            SourceError: files change faster than they can be read.
        """
        for _ in range(_MOST_LOOKS):
            try:
                for chunk in self._chunks(start, end, aborted, broken):
                    yield chunk
                    start = max(start, chunk.next_offset)
                return
            except (Moved, FileNotFoundError):
                self.forget()
        raise SourceError(f"{self.directory}: files come and go faster than they can be read")

    def _chunks(self, start: int, end: int, aborted: Sequence[Aborted], broken: Broken) -> Iterator[Chunk]:
        segments = self.segments
        for number, segment in enumerate(segments):
            behind = segments[number + 1].base_offset if number + 1 < len(segments) else end
            if behind > start and segment.base_offset < end:
                for chunk in self._of_segment(segment, (start, end), aborted, broken):
                    yield chunk
                    start = max(start, chunk.next_offset)
                if number + 1 < len(segments):
                    start = max(start, behind)
        for data in self._of_journal(start, end):
            chunk = self._walk(data, (start, end), aborted, broken)
            yield chunk
            start = max(start, chunk.next_offset)

    def _of_segment(
        self, segment: Segment, span: tuple[int, int], aborted: Sequence[Aborted], broken: Broken
    ) -> Iterator[Chunk]:
        (start, end), position, size = span, position_of(segment, span[0]), GULP
        handle = os.open(segment.path, os.O_RDONLY)
        try:
            while position < segment.end and start < end:
                data = os.pread(handle, min(size, segment.end - position), position)
                chunk = self._walk(data, (start, end), aborted, broken)
                yield chunk
                start, position, size = chunk.next_offset, position + chunk.consumed, GULP
                if any(damage.is_fatal for damage in chunk.damage):
                    return  # the next file begins with a batch
                if chunk.consumed:
                    continue
                if not len(data) <= chunk.partial_size <= segment.end - position:
                    if any(data):  # zeros are room that was taken in advance
                        damage = Damage(start, f"{segment.path.name} ends within a batch", None)
                        broken(self.tp, damage)
                        yield replace(chunk, damage=(damage,))
                    return
                size = chunk.partial_size
        finally:
            os.close(handle)

    def _of_journal(self, start: int, end: int) -> Iterator[bytes]:
        pieces: list[bytes] = []
        size = 0
        for place in self.places:
            if place.end_offset <= start or place.base_offset >= end:
                continue
            pieces.append(self._read_place(place))
            size += place.size
            if size >= GULP:
                yield b"".join(pieces)
                pieces, size = [], 0
        if pieces:
            yield b"".join(pieces)

    def _walk(self, data: bytes, span: tuple[int, int], aborted: Sequence[Aborted], broken: Broken) -> Chunk:
        chunk = walk(
            data,
            topic=self.tp.topic,
            partition=self.tp.partition,
            start_offset=span[0],
            end_offset=span[1],
            aborted=[one for one in aborted if one.last_offset is None or one.last_offset >= span[0]],
        )
        for damage in chunk.damage:
            broken(self.tp, damage)
        return chunk

    def _read_place(self, place: Place) -> bytes:
        data = _read(place.path, place.position, place.size)
        if len(data) < place.size or int.from_bytes(data[:8], "big") != place.base_offset:
            raise Moved
        return data

    # -- transactions

    def _scan(self, end: int) -> None:
        """Go on to ``end`` with looking for transactions."""
        segments = self.segments
        for number, segment in enumerate(segments):
            behind = segments[number + 1].base_offset if number + 1 < len(segments) else end
            if behind > self._scanned:
                self._scan_segment(segment)
        for place in self.places:
            if place.base_offset >= self._scanned:
                self._scan_batches(self._read_place(place))
        self._scanned = max(self._scanned, end)

    def _scan_segment(self, segment: Segment) -> None:
        position, size = position_of(segment, self._scanned), GULP
        handle = os.open(segment.path, os.O_RDONLY)
        try:
            while position < segment.end:
                data = os.pread(handle, min(size, segment.end - position), position)
                took, size = self._scan_batches(data)
                if not took and not len(data) < size <= segment.end - position:
                    return
                position += took
        finally:
            os.close(handle)

    def _scan_batches(self, data: bytes) -> tuple[int, int]:
        """Look at whole batches; gives their bytes, and how many to read next."""
        at, last, scanned = 0, len(data) - HEADER_SIZE, self._scanned
        while at <= last:
            length, attributes = _LENGTH_AND_ATTRIBUTES(data, at + 8)
            behind = at + LOG_OVERHEAD + length
            if length < HEADER_SIZE - LOG_OVERHEAD:
                return at, 0
            if behind > len(data):
                return at, GULP if at else behind - at
            if attributes & TRANSACTIONAL_BIT and int.from_bytes(data[at : at + 8], "big") >= scanned:
                self._transactions.feed(data[at:behind])
            at = behind
        return at, GULP


def _read(path: Path, position: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(position)
        return file.read(size)
