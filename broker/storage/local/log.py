"""The log of one partition, as the event loop sees it."""

import asyncio
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Final, Protocol
from uuid import UUID

from ottla.broker.engine import (
    Corrupt,
    Done,
    EngineError,
    EpochEnd,
    LogConfig,
    OffsetAndTimestamp,
    OffsetOutOfRange,
    SegmentInfo,
    Unavailable,
)
from ottla.broker.storage.epochs import EpochHistory
from ottla.broker.storage.local.changes import Change, EndedSegment, Replace, Trim
from ottla.broker.storage.local.files import NO_HANDLE
from ottla.broker.storage.local.keeper import RemoveSegments
from ottla.broker.storage.local.kept_log import KeptLog
from ottla.broker.storage.local.materialise import Written
from ottla.broker.storage.local.operations import Append, EndSegment, Front, Operation
from ottla.broker.storage.local.segment import Readers, Segment
from ottla.broker.storage.lookup import search
from ottla.broker.storage.replacement import check_replacement
from ottla.protocol.compression import Buffer
from ottla.protocol.records import LOG_OVERHEAD, MAGIC_AT, NO_TIMESTAMP, TopicPartition
from ottla.protocol.steps import Steps

_BEFORE_MAGIC: Final = struct.Struct(">qii")
_COPY_BELOW: Final = 32 * 1024
"""A batch smaller than this costs less to copy than to keep in pieces."""
_END: Final = attrgetter("next_offset")


class Ways(Protocol):
    """The ways from a log to the threads."""

    def commit(self, operation: Operation) -> None: ...
    def keep(self, operation: Operation) -> None: ...
    def change(self, change: Change) -> None: ...
    async def flush(self) -> None: ...
    def call_soon(self, callback: Callable[[], None]) -> object: ...


class LocalLog:
    """Segments, and a tail: what is acknowledged and not yet in a segment."""

    def __init__(
        self,
        tp: TopicPartition,
        config: LogConfig,
        leader_epoch: int,
        kept: KeptLog,
        front: Front,
        segments: list[Segment],
        readers: Readers,
        ways: Ways,
    ) -> None:
        self.tp = tp
        self.topic_id: UUID = kept.uuid
        self.config = config
        self.leader_epoch = leader_epoch
        self.log_start_offset = kept.log_start_offset
        self.log_end_offset = kept.next_offset
        self.high_watermark = kept.next_offset
        self.size_bytes = sum(segment.size for segment in segments)
        self.kept = kept
        self.front = front
        self._epochs = EpochHistory(kept.epochs)
        self._epochs.begin(leader_epoch, kept.next_offset)
        kept.epochs = self._epochs.entries
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._tail: list[Append] = []
        # How much of the tail the keeper has been given.
        self._handed = 0
        self._readers = readers
        self._ways = ways
        self._changing = asyncio.Lock()
        # Appends queued before a failure belong to an earlier attempt than those after it.
        self._attempt = 0
        self._closed: EngineError | None = None

    def append(self, batch: Buffer | Sequence[Buffer], *, count: int, max_timestamp_ms: int, done: Done) -> int:
        base_offset = self.log_end_offset
        if self._closed is not None:
            error = self._closed
            self._ways.call_soon(lambda: done(base_offset, error))
            return base_offset
        # The fields that the broker sets lie before what the CRC covers: sixteen bytes are new.
        body: Sequence[Buffer]
        if isinstance(batch, bytes):
            size = len(batch)
            prefix = _BEFORE_MAGIC.pack(base_offset, size - LOG_OVERHEAD, self.leader_epoch)
            body = (prefix + batch[MAGIC_AT:],) if size < _COPY_BELOW else (prefix, memoryview(batch)[MAGIC_AT:])
        else:
            head, *rest = (batch,) if isinstance(batch, (bytearray, memoryview)) else batch
            size = len(head) + sum(map(len, rest))
            prefix = _BEFORE_MAGIC.pack(base_offset, size - LOG_OVERHEAD, self.leader_epoch)
            body = (prefix, memoryview(head)[MAGIC_AT:], *rest)
            if size < _COPY_BELOW:
                body = (b"".join(body),)
        append = Append(self, self.config, self._attempt, base_offset, count, max_timestamp_ms, body, size, done)
        self.log_end_offset = append.next_offset
        self._ways.commit(append)
        return base_offset

    # --- reading ---

    def read(
        self, start_offset: int, *, max_bytes: int, upto_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes:
        self._check_open()
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"{start_offset} is not in [{self.log_start_offset}, {self.log_end_offset}]")
        upto = self.high_watermark if upto_offset is None else min(upto_offset, self.high_watermark)
        if start_offset >= upto:
            return b""
        pieces: list[Buffer] = []
        room = max_bytes
        tail = self._tail
        if not tail or start_offset < tail[0].base_offset:
            room = self._read_segments(start_offset, upto, room, min_one_batch, pieces)
        if room >= 0 and tail:
            self._read_tail(start_offset, upto, room, min_one_batch and not pieces, pieces)
        if len(pieces) == 1 and isinstance(pieces[0], bytes):
            return pieces[0]
        return b"".join(pieces)

    def _read_segments(self, start_offset: int, upto: int, room: int, one: bool, pieces: list[Buffer]) -> int:
        """Read from segments; return the room that is left if the tail may follow, else -1."""
        try:
            for segment in self._segments[max(bisect_right(self._bases, start_offset) - 1, 0) :]:
                piece, to_its_end = segment.read(start_offset, upto, room, one and not pieces)
                if piece:
                    pieces.append(piece)
                    room -= len(piece)
                if not to_its_end:
                    return -1
        except OSError as error:
            raise self._unreadable(error) from None
        return max(room, 0)

    def _read_tail(self, start_offset: int, upto: int, room: int, one: bool, pieces: list[Buffer]) -> None:
        tail = self._tail
        for position in range(bisect_right(tail, start_offset, key=_END), len(tail)):
            append = tail[position]
            if append.next_offset > upto or (append.size > room and not one):
                return
            pieces += append.body
            room -= append.size
            one = False

    def offset_for_timestamp(self, timestamp_ms: int) -> Steps[OffsetAndTimestamp | None]:
        return search(self, timestamp_ms, self.log_start_offset)

    def max_timestamp(self) -> Steps[OffsetAndTimestamp | None]:
        self._check_open()
        try:
            largest = max((segment.max_timestamp_ms for segment in self._segments), default=NO_TIMESTAMP)
        except OSError as error:
            raise self._unreadable(error) from None
        largest = max((append.max_timestamp_ms for append in self._tail), default=largest)
        return search(self, max(largest, NO_TIMESTAMP), 0)

    def batch_for_timestamp(self, timestamp_ms: int, from_offset: int) -> bytes | None:
        """For `search`."""
        self._check_open()
        try:
            for segment in self._segments:
                if segment.max_timestamp_ms >= timestamp_ms and segment.next_offset > from_offset:
                    batch = segment.batch_for_timestamp(timestamp_ms, from_offset)
                    if batch is not None:
                        return batch
        except OSError as error:
            raise self._unreadable(error) from None
        for append in self._tail:
            if append.max_timestamp_ms >= timestamp_ms and append.next_offset > from_offset:
                return b"".join(append.body)
        return None

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        return self._epochs.end_of(leader_epoch, self.log_end_offset)

    # --- segments ---

    def segments(self) -> Sequence[SegmentInfo]:
        try:
            return list(self._infos())
        except OSError as error:
            raise self._unreadable(error) from None

    def _infos(self) -> Iterator[SegmentInfo]:
        """The segments, those included that are in the tail alone."""
        runs = self._tail_runs()
        for position, segment in enumerate(self._segments):
            info = SegmentInfo(
                segment.base_offset, segment.next_offset, segment.size, segment.max_timestamp_ms, segment.is_closed
            )
            if position == len(self._segments) - 1:
                # Batches may have been trimmed before the next segment was begun.
                if runs and not self._tail[0].begins_segment:
                    more = runs.pop(0)
                    largest = max(info.max_timestamp_ms, more.max_timestamp_ms)
                    info = SegmentInfo(
                        info.base_offset, more.next_offset, info.size_bytes + more.size_bytes, largest, False
                    )
                info = info._replace(is_closed=info.is_closed or bool(runs))
            yield info
        for position, run in enumerate(runs):
            yield run._replace(is_closed=position < len(runs) - 1)

    def _tail_runs(self) -> list[SegmentInfo]:
        """The tail, by segments."""
        runs: list[SegmentInfo] = []
        for append in self._tail:
            end = append.next_offset
            if not runs or append.begins_segment:
                runs.append(SegmentInfo(append.base_offset, end, append.size, append.max_timestamp_ms, False))
            else:
                last = runs[-1]
                largest = max(last.max_timestamp_ms, append.max_timestamp_ms)
                runs[-1] = SegmentInfo(last.base_offset, end, last.size_bytes + append.size, largest, False)
        return runs

    async def roll(self) -> None:
        self._check_open()
        async with self._changing:
            last = next(iter(self.segments()[-1:]), None)
            if last is not None and not last.is_closed and last.size_bytes:
                await self._end_segment(EndedSegment(self.kept, self._ended))

    async def trim(self, offset: int) -> int:
        self._check_open()
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"{offset} is above the high watermark {self.high_watermark}")
        async with self._changing:
            self._check_open()
            if offset > self.log_start_offset:
                everything = offset >= self.high_watermark
                trim = Trim(self.kept, lambda: self._trimmed(offset, everything), offset, ends_segment=everything)
                if everything:
                    # Not even the segment that is being written will have anything to show: it ends, and may go.
                    await self._end_segment(trim)
                else:
                    self._ways.change(trim)
                    await trim.future
        return self.log_start_offset

    async def replace(self, first_offset: int, next_offset: int, batches: Sequence[Buffer]) -> None:
        self._check_open()
        async with self._changing:
            self._check_open()
            closed = [info for info in self.segments() if first_offset <= info.base_offset < next_offset]
            if (
                not closed
                or closed[0].base_offset != first_offset
                or closed[-1].next_offset != next_offset
                or not all(info.is_closed for info in closed)
            ):
                raise ValueError(f"{first_offset} and {next_offset} are not ends of closed segments")
            check_replacement(first_offset, next_offset, batches)
            if self._tail and self._tail[0].base_offset < next_offset:
                # Only what lies in files can be held fast for readers.
                await self._ways.flush()
                self._check_open()
                if self._tail and self._tail[0].base_offset < next_offset:
                    raise Unavailable("batches wait for room on the disk")
            old = [segment for segment in self._segments if first_offset <= segment.base_offset < next_offset]
            change = Replace(
                self.kept,
                lambda: self._replaced(change),
                first_offset,
                next_offset,
                batches,
                self.config.index_interval_bytes,
            )
            try:
                for segment in old:
                    # Until the event loop hears of it, it reads the old ones.
                    segment.pin()
                self._ways.change(change)
                await change.future
            except OSError as error:
                raise self._unreadable(error) from None
            finally:
                for segment in old:
                    segment.unpin()

    @property
    def cleaned_offset(self) -> int:
        return self.kept.cleaned_offset

    def mark_cleaned(self, offset: int) -> None:
        self.kept.cleaned_offset = offset

    async def _end_segment(self, change: Change) -> None:
        """Have the committer begin a new segment with the next batch, and then make ``change``."""

        def ended(error: EngineError | None) -> None:
            if error is None:
                self._ways.change(change)
            elif not change.future.done():
                change.future.set_exception(error)

        self._ways.commit(EndSegment(ended, self.front))
        await change.future

    # --- what the threads report, on the event loop ---

    def completed(self, append: Append) -> None:
        """An append is durable: show it."""
        self._tail.append(append)
        self.size_bytes += append.size
        self.high_watermark = append.next_offset

    def failed(self, append: Append) -> None:
        """An append is over and nothing came of it: give its offset again."""
        if append.attempt == self._attempt:
            self._attempt += 1
            self.log_end_offset = self.high_watermark

    def hand_over(self) -> list[Append]:
        """Take the part of the tail that the keeper has not been given yet."""
        queued = self._tail[self._handed :]
        self._handed = len(self._tail)
        return queued

    def materialised(self, written: Sequence[Written]) -> int:
        """These batches are in segments now and need not be kept any more; return how many bytes they have."""
        count = size_bytes = 0
        for one in written:
            count += one.count
            size_bytes += one.size_bytes
            if not self._segments or self._bases[-1] != one.segment_base:
                if self._segments:
                    self._segments[-1].close()
                self._segments.append(Segment(self._readers, self.kept.directory, one.segment_base, is_closed=False))
                self._bases.append(one.segment_base)
            self._segments[-1].grown(one.index, one.size, one.next_offset)
        del self._tail[:count]
        self._handed -= count
        return size_bytes

    def drop_tail(self) -> int:
        """The log is deleted; return how many bytes were not yet in a segment."""
        size_bytes = sum(append.size for append in self._tail)
        self._tail, self._handed = [], 0
        return size_bytes

    def shut(self, error: EngineError) -> None:
        """Refuse everything from now on."""
        if self._closed is None:
            self._closed = error
        for segment in self._segments:
            self._readers.close(segment)

    def _ended(self) -> None:
        if self._segments:
            self._segments[-1].close()

    def _trimmed(self, offset: int, everything: bool) -> None:
        """The new start is durable: hide what lies before it, and let whole segments go."""
        self.log_start_offset = max(self.log_start_offset, offset)
        if everything:
            self._ended()
        gone = []
        while self._segments and self._segments[0].is_closed and self._segments[0].next_offset <= offset:
            segment = self._segments.pop(0)
            gone.append(self._bases.pop(0))
            self.size_bytes -= segment.size
            self._readers.close(segment)
        if gone:
            self._ways.keep(RemoveSegments(self.kept, gone))

    def _replaced(self, change: Replace) -> None:
        """One segment has taken the place of several."""
        first = self._bases.index(change.first_offset)
        last = bisect_right(self._bases, change.next_offset - 1)
        for segment in self._segments[first:last]:
            self.size_bytes -= segment.size
            self._readers.close(segment)
        new = Segment(
            self._readers,
            self.kept.directory,
            change.first_offset,
            size=change.size,
            next_offset=change.next_offset,
            max_timestamp_ms=change.max_timestamp_ms,
        )
        self._segments[first:last] = [new]
        self._bases[first:last] = [change.first_offset]
        self.size_bytes += change.size

    # --- within ---

    def _unreadable(self, error: OSError) -> EngineError:
        kind = Unavailable if error.errno in NO_HANDLE else Corrupt
        return kind(f"{self.tp.topic}-{self.tp.partition} cannot be read: {error.strerror or error}")

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed
