"""The log of one partition in a database: what its batches are is in memory, they themselves where `Rows` has them.

A log knows of each batch its offsets, its size and its largest timestamp. Segments are only marked, as in memory, and
the marks are not stored: whoever leads the log next divides it by its settings.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Protocol
from uuid import UUID

from ottla.broker.engine import (
    Done,
    EngineError,
    EpochEnd,
    LogConfig,
    NotHere,
    OffsetAndTimestamp,
    OffsetOutOfRange,
    SegmentInfo,
)
from ottla.broker.storage.epochs import EpochHistory
from ottla.broker.storage.lookup import search
from ottla.broker.storage.postgres.database import Loaded, Row
from ottla.broker.storage.replacement import check_replacement
from ottla.protocol.batch import LEADER_EPOCH_AT, MAGIC_AT, NO_TIMESTAMP, parse_header
from ottla.protocol.compression import Buffer
from ottla.protocol.records import HEADER_SIZE, TopicPartition
from ottla.protocol.steps import Steps


class Rows(Protocol):
    """What a log wants of the engine that it is of."""

    def append(
        self, log: PostgresLog, head: bytes, body: Buffer, *, count: int, max_timestamp_ms: int, done: Done
    ) -> int:
        """Queue a batch, and give its base offset. Raises `Busy` and `Fenced`."""
        ...

    def rows(self, log: PostgresLog, offset: int) -> Sequence[Row] | None:
        """Rows from the one that contains an offset on; None if they are not in memory."""
        ...

    def want(self, log: PostgresLog, offset: int, then: Callable[[], None]) -> None:
        """Have rows read that contain an offset, and call back when it is worth looking again."""
        ...

    async def trim(self, log: PostgresLog, offset: int) -> None:
        """Let a log begin at an offset, durably."""
        ...

    async def replace(
        self, log: PostgresLog, first_offset: int, next_offset: int, expected: int, rows: Sequence[Row]
    ) -> None:
        """Put rows in the place of as many as are expected between two offsets, durably."""
        ...


class PostgresLog:
    """See the module and `ottla.broker.engine.Log`. ``log_id`` is its number in the database.

    Attributes:
        snapshot: of its producers, as it was loaded, until somebody takes it.
    """

    def __init__(
        self,
        engine: Rows,
        tp: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        log_id: int,
        leader_epoch: int,
        loaded: Loaded,
    ) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.config = config
        self.log_id = log_id
        self.leader_epoch = leader_epoch
        self.log_start_offset = loaded.start_offset
        self.log_end_offset = self.high_watermark = loaded.end_offset
        self.snapshot = None if loaded.snapshot is None else loaded.snapshot[1]
        self.size_bytes = 0
        self.cleaned_offset = 0
        self._engine = engine
        self._closed: EngineError | None = None
        self._epochs = EpochHistory(sorted(loaded.epochs.items()))
        self._epochs.begin(leader_epoch, loaded.end_offset)
        # Of each batch its first and last offset, its bytes, and its largest timestamp.
        self._bases, self._lasts, self._sizes, self._peaks = (array("q") for _ in loaded.outline)
        # Where closed segments begin, and where the last one ends and that which is written begins.
        self._bounds = [loaded.start_offset]
        self._written_bytes = 0
        self._written_first_ms = 0
        for batch in zip(*loaded.outline, strict=True):
            self._note(*batch)

    def _note(self, base_offset: int, last_offset: int, size: int, peak: int) -> None:
        """A batch is in the log. The segment before it ends if it would grow too large or too old."""
        config = self.config
        if not self._written_bytes:
            self._written_first_ms = peak
        elif (
            self._written_bytes + size > config.segment_bytes or 0 <= self._written_first_ms < peak - config.segment_ms
        ):
            self._end_segment(base_offset)
            self._written_first_ms = peak
        self._bases.append(base_offset)
        self._lasts.append(last_offset)
        self._sizes.append(size)
        self._peaks.append(peak)
        self.size_bytes += size
        self._written_bytes += size

    def _end_segment(self, next_offset: int) -> None:
        if self._written_bytes:
            self._bounds.append(next_offset)
            self._written_bytes = 0

    # Writing

    def append(self, batch: Buffer | Sequence[Buffer], *, count: int, max_timestamp_ms: int, done: Done) -> int:
        if self._closed is not None:
            asyncio.get_running_loop().call_soon(done, self.log_end_offset, self._closed)
            return self.log_end_offset
        whole = batch if isinstance(batch, (bytes, bytearray, memoryview)) else b"".join(batch)
        head, body = bytes(whole[:HEADER_SIZE]), memoryview(whole)[HEADER_SIZE:]
        base_offset = self._engine.append(self, head, body, count=count, max_timestamp_ms=max_timestamp_ms, done=done)
        self.log_end_offset = base_offset + count
        return base_offset

    def settled(self, row: Row) -> None:
        """A batch is durable."""
        self._note(row.base_offset, row.last_offset, row.size, row.max_timestamp_ms)
        self.high_watermark = row.last_offset + 1

    def shut(self, error: EngineError) -> None:
        """Refuse everything from now on."""
        self._closed = error
        self.log_end_offset = self.high_watermark

    # Reading

    def read(
        self, start_offset: int, *, max_bytes: int, upto_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes:
        self._check_open()
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"{start_offset} is not in [{self.log_start_offset}, {self.log_end_offset}]")
        upto = self.high_watermark if upto_offset is None else min(upto_offset, self.high_watermark)
        first, end = bisect_left(self._lasts, start_offset), bisect_left(self._lasts, upto)
        if first >= end or (self._sizes[first] > max_bytes and not min_one_batch):
            return b""
        rows = self._engine.rows(self, self._bases[first])
        if rows is None:
            raise NotHere(partial(self._engine.want, self, self._bases[first]))
        found: list[Buffer] = []
        size = 0
        for row in rows:
            size += row.size
            if row.last_offset >= upto or (found and size > max_bytes):
                break
            found += row.head, row.body
        return b"".join(found)

    def offset_for_timestamp(self, timestamp_ms: int) -> Steps[OffsetAndTimestamp | None]:
        return search(self, timestamp_ms, self.log_start_offset)

    def max_timestamp(self) -> Steps[OffsetAndTimestamp | None]:
        return search(self, max(self._peaks, default=NO_TIMESTAMP), 0)

    def batch_for_timestamp(self, timestamp_ms: int, from_offset: int) -> bytes | None:
        """For `search`."""
        self._check_open()
        first = bisect_left(self._lasts, from_offset)
        found = next((index for index in range(first, len(self._peaks)) if self._peaks[index] >= timestamp_ms), None)
        if found is None:
            return None
        return self.read(max(self._bases[found], self.log_start_offset), max_bytes=0)

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        return self._epochs.end_of(leader_epoch, self.log_end_offset)

    # Segments

    def segments(self) -> Sequence[SegmentInfo]:
        found = []
        for base, end in pairwise((*self._bounds, self.log_end_offset)):
            first, last = bisect_left(self._lasts, base), bisect_left(self._lasts, end)
            is_closed = base < self._bounds[-1]
            if is_closed or last > first:
                newest_ms = max(self._peaks[first:last], default=-1)
                found.append(SegmentInfo(base, end, sum(self._sizes[first:last]), newest_ms, is_closed))
        return found

    async def roll(self) -> None:
        self._check_open()
        self._end_segment(self.high_watermark)

    async def replace(self, first_offset: int, next_offset: int, batches: Sequence[Buffer]) -> None:
        self._check_open()
        bounds = self._bounds
        if first_offset not in bounds or next_offset not in bounds or first_offset >= next_offset:
            raise ValueError(f"{first_offset} to {next_offset} are not ends of closed segments")
        check_replacement(first_offset, next_offset, batches)
        first, last = bisect_left(self._lasts, first_offset), bisect_left(self._lasts, next_offset)
        rows = [self._row_of(bytes(batch)) for batch in batches]
        await self._engine.replace(self, first_offset, next_offset, last - first, rows)
        self._check_open()
        # Something may have been appended or trimmed meanwhile.
        first, last = bisect_left(self._lasts, first_offset), bisect_left(self._lasts, next_offset)
        self._bounds = [bound for bound in self._bounds if not first_offset < bound < next_offset]
        self._bases[first:last] = array("q", (row.base_offset for row in rows))
        self._lasts[first:last] = array("q", (row.last_offset for row in rows))
        self._sizes[first:last] = array("q", (row.size for row in rows))
        self._peaks[first:last] = array("q", (row.max_timestamp_ms for row in rows))
        self.size_bytes = sum(self._sizes)

    def _row_of(self, batch: bytes) -> Row:
        header = parse_header(batch)
        return Row(
            self.log_id,
            header.base_offset,
            header.last_offset,
            int.from_bytes(batch[LEADER_EPOCH_AT:MAGIC_AT], "big"),
            header.max_timestamp,
            batch[:HEADER_SIZE],
            batch[HEADER_SIZE:],
        )

    def mark_cleaned(self, offset: int) -> None:
        self.cleaned_offset = offset

    async def trim(self, offset: int) -> int:
        self._check_open()
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"{offset} is above the high watermark {self.high_watermark}")
        if offset > self.log_start_offset:
            await self._engine.trim(self, offset)
            self.log_start_offset = max(offset, self.log_start_offset)
            gone = bisect_left(self._lasts, self.log_start_offset)
            for column in (self._bases, self._lasts, self._sizes, self._peaks):
                del column[:gone]
            del self._bounds[: bisect_right(self._bounds, self.log_start_offset) - 1]
            self.size_bytes = sum(self._sizes)
            self._written_bytes = sum(self._sizes[bisect_left(self._lasts, self._bounds[-1]) :])
        return self.log_start_offset

    def _check_open(self) -> None:
        if self._closed is not None:
            raise type(self._closed)(str(self._closed))
