"""The log of one partition, as the event loop sees it."""

import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from ottla.broker.storage.engine import (
    Corrupt,
    Done,
    EngineError,
    EpochEnd,
    LogConfig,
    OffsetAndTimestamp,
    OffsetOutOfRange,
)
from ottla.broker.storage.local.operations import Append, Operation, RemoveSegments, Trim
from ottla.broker.storage.local.partition_writer import PartitionWriter
from ottla.broker.storage.local.recovery import RecoveredLog
from ottla.broker.storage.local.segment import Readers, Segment, SegmentIndex
from ottla.protocol.compression import Buffer
from ottla.protocol.records import LOG_OVERHEAD, MAGIC_AT, NO_TIMESTAMP, TopicPartition

_BEFORE_MAGIC: Final = struct.Struct(">qii")


class LocalLog:
    """Segments that are acknowledged, and the offsets of what is on its way to them."""

    def __init__(
        self,
        tp: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        leader_epoch: int,
        found: RecoveredLog,
        target: PartitionWriter,
        readers: Readers,
        submit: Callable[[Operation], None],
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.config = config
        self.leader_epoch = leader_epoch
        self.log_start_offset = found.log_start_offset
        self.log_end_offset = found.log_end_offset
        self.high_watermark = found.log_end_offset
        self.size_bytes = sum(segment.size for segment in found.segments)
        self.target = target
        self._epochs = found.epochs
        self._epochs.begin(leader_epoch, found.log_end_offset)
        self._segments = found.segments
        self._bases = [segment.base_offset for segment in found.segments]
        self._readers = readers
        self._submit = submit
        self._call_soon = call_soon
        # Appends queued before a failure belong to an earlier attempt than those after it.
        self._attempt = 0
        self._closed: EngineError | None = None

    def append(self, batch: Buffer | Sequence[Buffer], *, count: int, max_timestamp_ms: int, done: Done) -> int:
        base_offset = self.log_end_offset
        if self._closed is not None:
            error = self._closed
            self._call_soon(lambda: done(base_offset, error))
            return base_offset
        head: Buffer
        rest: Sequence[Buffer]
        if isinstance(batch, (bytes, bytearray, memoryview)):
            head, rest, size = batch, (), len(batch)
        else:
            head, *rest = batch
            size = sum(map(len, batch))
        # The fields that the broker sets lie before what the CRC covers: sixteen bytes are new, none is copied.
        prefix = _BEFORE_MAGIC.pack(base_offset, size - LOG_OVERHEAD, self.leader_epoch)
        pieces = (prefix, memoryview(head)[MAGIC_AT:], *rest)
        self.log_end_offset = base_offset + count
        self._submit(
            Append(
                self,
                self.target,
                self.config,
                self._attempt,
                base_offset,
                count,
                max_timestamp_ms,
                pieces,
                size,
                done,
            )
        )
        return base_offset

    def read(
        self, start_offset: int, *, max_bytes: int, upto_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes:
        self._check_open()
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"{start_offset} is not in [{self.log_start_offset}, {self.log_end_offset}]")
        upto = self.high_watermark if upto_offset is None else min(upto_offset, self.high_watermark)
        if start_offset >= upto:
            return b""
        pieces: list[bytes] = []
        room = max_bytes
        try:
            for segment in self._segments[max(bisect_right(self._bases, start_offset) - 1, 0) :]:
                piece, to_its_end = segment.read(start_offset, upto, room, min_one_batch and not pieces)
                if piece:
                    pieces.append(piece)
                    room -= len(piece)
                if not to_its_end:
                    break
        except OSError as error:
            raise self._unreadable(error) from None
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def offset_for_timestamp(self, timestamp_ms: int) -> OffsetAndTimestamp | None:
        return self._first_at_or_after(timestamp_ms, self.log_start_offset)

    def max_timestamp(self) -> OffsetAndTimestamp | None:
        self._check_open()
        largest = max((segment.max_timestamp_ms for segment in self._segments), default=NO_TIMESTAMP)
        return self._first_at_or_after(largest, 0)

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        return self._epochs.end_of(leader_epoch, self.log_end_offset)

    def retention_offset(self, *, oldest_ms: int | None = None, max_bytes: int | None = None) -> int:
        offset = self.log_start_offset
        remaining = self.size_bytes
        by_size = max_bytes is not None
        for segment in self._segments:
            remaining -= segment.size
            # Nobody knows the age of records without a timestamp, so they stay.
            too_old = oldest_ms is not None and segment.size and 0 <= segment.max_timestamp_ms < oldest_ms
            by_size = by_size and max_bytes is not None and remaining >= max_bytes
            if not (too_old or by_size):
                break
            offset = max(offset, segment.next_offset)
        return min(offset, self.high_watermark)

    async def trim(self, offset: int) -> int:
        self._check_open()
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"{offset} is above the high watermark {self.high_watermark}")
        if offset > self.log_start_offset:
            trim = Trim(self, self.target, offset)
            self._submit(trim)
            await trim.future
        return self.log_start_offset

    # --- what the writer reports, on the event loop ---

    def completed(self, append: Append) -> None:
        """An append is over: show it, or give its offset again."""
        if append.error is not None:
            if append.attempt == self._attempt:
                self._attempt += 1
                self.log_end_offset = self.high_watermark
            return
        if not self._segments or self._bases[-1] != append.segment_base:
            if self._segments:
                self._segments[-1].complete()
            index = SegmentIndex(append.segment_base)
            self._segments.append(Segment(self._readers, self.target.directory, append.segment_base, index=index))
            self._bases.append(append.segment_base)
        self._segments[-1].add(
            append.base_offset,
            append.count,
            append.size,
            append.max_timestamp_ms,
            append.config.index_interval_bytes,
        )
        self.size_bytes += append.size
        self.high_watermark = append.base_offset + append.count

    def trimmed(self, trim: Trim) -> None:
        """The new start is durable: hide what lies before it, and let whole segments go."""
        self.log_start_offset = max(self.log_start_offset, trim.offset)
        keep = 0 if trim.everything else 1
        gone = []
        while len(self._segments) > keep and self._segments[0].next_offset <= trim.offset:
            segment = self._segments.pop(0)
            gone.append(self._bases.pop(0))
            self.size_bytes -= segment.size
            self._readers.close(segment)
        if gone:
            self._submit(RemoveSegments(self.target, gone))

    def shut(self, error: EngineError) -> None:
        """Refuse everything from now on."""
        if self._closed is None:
            self._closed = error
        for segment in self._segments:
            self._readers.close(segment)

    def _first_at_or_after(self, timestamp_ms: int, from_offset: int) -> OffsetAndTimestamp | None:
        self._check_open()
        try:
            for segment in self._segments:
                if segment.max_timestamp_ms >= timestamp_ms and segment.next_offset > from_offset:
                    found = segment.first_at_or_after(timestamp_ms, from_offset)
                    if found is not None:
                        return found
        except OSError as error:
            raise self._unreadable(error) from None
        return None

    def _unreadable(self, error: OSError) -> Corrupt:
        return Corrupt(f"{self.tp.topic}-{self.tp.partition} cannot be read: {error.strerror or error}")

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed
