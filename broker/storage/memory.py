"""The memory engine: the whole contract but for outliving the process. For tests, simulations and ``--ephemeral``."""

import asyncio
import copy
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from typing import Any
from uuid import UUID

from ottla.broker.engine import (
    Catalog,
    ClosedToOthers,
    Cut,
    Damage,
    Done,
    EngineError,
    EpochEnd,
    LogConfig,
    OffsetAndTimestamp,
    OffsetOutOfRange,
    Outdated,
    SegmentInfo,
    Sync,
    Unavailable,
)
from ottla.broker.storage.cluster_id import new_cluster_id
from ottla.broker.storage.epochs import EpochHistory
from ottla.broker.storage.lookup import search
from ottla.broker.storage.replacement import check_replacement
from ottla.protocol.batch import LEADER_EPOCH_AT, MAGIC_AT, NO_TIMESTAMP, parse_header
from ottla.protocol.compression import Buffer
from ottla.protocol.records import TopicPartition
from ottla.protocol.steps import Steps

Fault = Callable[[TopicPartition, int], EngineError | None]
"""Asked before an append with this base offset succeeds; an error lets it fail."""


@dataclass(slots=True)
class _Append:
    log: "MemoryLog"
    attempt: int
    base_offset: int
    count: int
    max_timestamp_ms: int
    batch: bytes
    done: Done


class MemoryLog:
    """A log in three lists that grow together: last offsets, batches, and the largest timestamp so far.

    Segments are only marked: by the offsets at which one ends and the next begins.
    """

    def __init__(self, engine: "MemoryEngine", tp: TopicPartition, topic_id: UUID, config: LogConfig) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.config = config
        self.leader_epoch = engine.leader_epoch
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.size_bytes = 0
        self._engine = engine
        self._closed: EngineError | None = None
        self._epochs = EpochHistory()
        self._epochs.begin(self.leader_epoch, 0)
        self._last_offsets: list[int] = []
        self._batches: list[bytes] = []
        self._peaks: list[int] = []
        # Where closed segments begin, and where the last one ends and that which is written begins.
        self._bounds: list[int] = [0]
        self._written_bytes = 0
        self._written_first_ms: int | None = None
        self.cleaned_offset = 0
        # Appends queued before a failure belong to an earlier attempt than those after it.
        self._attempt = 0
        self._failure: EngineError = Unavailable("nothing has failed")

    def append(self, batch: Buffer | Sequence[Buffer], *, count: int, max_timestamp_ms: int, done: Done) -> int:
        base_offset = self.log_end_offset
        whole = batch if isinstance(batch, (bytes, bytearray, memoryview)) else b"".join(batch)
        stored = b"".join(
            (
                base_offset.to_bytes(8, "big"),
                whole[8:LEADER_EPOCH_AT],
                self.leader_epoch.to_bytes(4, "big"),
                whole[MAGIC_AT:],
            )
        )
        self.log_end_offset = base_offset + count
        self._engine.enqueue(_Append(self, self._attempt, base_offset, count, max_timestamp_ms, stored, done))
        return base_offset

    def settle(self, append: _Append) -> EngineError | None:
        """Decide one queued append, in order; return why it failed."""
        if self._closed is not None:
            return self._closed
        if append.attempt != self._attempt:
            return self._failure
        error = self._engine.fault(self.tp, append.base_offset)
        if error is not None:
            self._attempt += 1
            self._failure = error
            self.log_end_offset = self.high_watermark
            return error
        self._roll_before(append)
        peak = append.max_timestamp_ms
        if self._peaks:
            peak = max(peak, self._peaks[-1])
        self._peaks.append(peak)
        self._batches.append(append.batch)
        self._last_offsets.append(append.base_offset + append.count - 1)
        self.size_bytes += len(append.batch)
        self._written_bytes += len(append.batch)
        self.high_watermark = append.base_offset + append.count
        return None

    def _roll_before(self, append: _Append) -> None:
        """End the segment before it grows too large or too old with this append."""
        if not self._written_bytes:
            self._written_first_ms = append.max_timestamp_ms
            return
        too_large = self._written_bytes + len(append.batch) > self.config.segment_bytes
        first = self._written_first_ms
        too_old = first is not None and 0 <= first < append.max_timestamp_ms - self.config.segment_ms
        if too_large or too_old:
            self._end_segment()
            self._written_first_ms = append.max_timestamp_ms

    def _end_segment(self) -> None:
        if self._written_bytes:
            self._bounds.append(self.high_watermark)
            self._written_bytes = 0

    def read(
        self, start_offset: int, *, max_bytes: int, upto_offset: int | None = None, min_one_batch: bool = True
    ) -> bytes:
        self._check_open()
        if not self.log_start_offset <= start_offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"{start_offset} is not in [{self.log_start_offset}, {self.log_end_offset}]")
        upto = self.high_watermark if upto_offset is None else min(upto_offset, self.high_watermark)
        first = bisect_left(self._last_offsets, start_offset)
        end = bisect_left(self._last_offsets, upto)
        if first >= end:
            return b""
        size = 0
        last = first
        while last < end and (size := size + len(self._batches[last])) <= max_bytes:
            last += 1
        if last == first and min_one_batch:
            last += 1
        return b"".join(self._batches[first:last])

    def offset_for_timestamp(self, timestamp_ms: int) -> Steps[OffsetAndTimestamp | None]:
        return search(self, timestamp_ms, self.log_start_offset)

    def max_timestamp(self) -> Steps[OffsetAndTimestamp | None]:
        return search(self, self._peaks[-1] if self._peaks else NO_TIMESTAMP, 0)

    def batch_for_timestamp(self, timestamp_ms: int, from_offset: int) -> bytes | None:
        """For `search`."""
        self._check_open()
        first = max(bisect_left(self._peaks, timestamp_ms), bisect_left(self._last_offsets, from_offset))
        later = islice(self._batches, first, None)
        return next((batch for batch in later if self._max_timestamp_of(batch) >= timestamp_ms), None)

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        return self._epochs.end_of(leader_epoch, self.log_end_offset)

    def segments(self) -> Sequence[SegmentInfo]:
        found = []
        for base, end in pairwise((*self._bounds, self.log_end_offset)):
            first, last = bisect_left(self._last_offsets, base), bisect_left(self._last_offsets, end)
            is_closed = base < self._bounds[-1]
            if is_closed or last > first:
                held = self._batches[first:last]
                newest_ms = max(map(self._max_timestamp_of, held), default=-1)
                found.append(SegmentInfo(base, end, sum(map(len, held)), newest_ms, is_closed))
        return found

    async def roll(self) -> None:
        self._check_open()
        self._end_segment()

    async def replace(self, first_offset: int, next_offset: int, batches: Sequence[Buffer]) -> None:
        self._check_open()
        bounds = self._bounds
        if first_offset not in bounds or next_offset not in bounds or first_offset >= next_offset:
            raise ValueError(f"{first_offset} to {next_offset} are not ends of closed segments")
        check_replacement(first_offset, next_offset, batches)
        self._bounds = [bound for bound in bounds if not first_offset < bound < next_offset]
        first, last = bisect_left(self._last_offsets, first_offset), bisect_left(self._last_offsets, next_offset)
        self._batches[first:last] = map(bytes, batches)
        self._last_offsets[first:last] = [parse_header(batch).last_offset for batch in batches]
        self._recount()

    def mark_cleaned(self, offset: int) -> None:
        self.cleaned_offset = offset

    async def trim(self, offset: int) -> int:
        self._check_open()
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"{offset} is above the high watermark {self.high_watermark}")
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            gone = bisect_left(self._last_offsets, offset)
            del self._last_offsets[:gone], self._batches[:gone]
            del self._bounds[: bisect_right(self._bounds, offset) - 1]
            self._recount()
        return self.log_start_offset

    def _recount(self) -> None:
        """After batches have gone: what remains may be younger than what is gone, so largest timestamps start anew."""
        sizes = list(map(len, self._batches))
        self.size_bytes = sum(sizes)
        self._written_bytes = sum(sizes[bisect_left(self._last_offsets, self._bounds[-1]) :])
        self._peaks = list(accumulate(map(self._max_timestamp_of, self._batches), max))

    def reopened(self, config: LogConfig) -> None:
        """Begin the next epoch, with what was acknowledged in earlier ones."""
        self.config = config
        self.leader_epoch = self._engine.leader_epoch
        self._closed = None
        self._attempt += 1
        self.log_end_offset = self.high_watermark
        self._epochs.begin(self.leader_epoch, self.log_end_offset)

    def shut(self, error: EngineError) -> None:
        """Refuse everything from now on."""
        self._closed = error

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed

    @staticmethod
    def _max_timestamp_of(batch: bytes) -> int:
        return int.from_bytes(batch[35:43], "big", signed=True)


class MemoryDocument:
    """A document that the catalogs of several engines of one process share."""

    def __init__(self) -> None:
        self.version = 0
        self.state: dict[str, Any] | None = None
        self.catalogs: list[MemoryCatalog] = []


class MemoryCatalog:
    """A document, copied in and out so that nobody changes it from outside; an own one unless it is shared."""

    def __init__(self, document: MemoryDocument | None = None) -> None:
        self.on_changed: Callable[[], None] = lambda: None
        self._document = document or MemoryDocument()
        self._document.catalogs.append(self)
        self._read()

    def load(self) -> dict[str, Any] | None:
        return copy.deepcopy(self._state)

    async def store(self, state: Mapping[str, Any], *, over: int) -> int:
        document = self._document
        if over != document.version:
            raise Outdated(f"the document has version {document.version}, the change was planned on {over}")
        document.version += 1
        document.state = copy.deepcopy(dict(state))
        self._read()
        for catalog in document.catalogs:
            if catalog is not self:
                catalog.on_changed()
        return self.version

    def look(self) -> None:
        """Each is told of what the others store."""

    async def refresh(self) -> None:
        self._read()

    def _read(self) -> None:
        self.version, self._state = self._document.version, self._document.state


class MemoryEngine:
    """Logs in memory.

    Opened again after ``close`` or ``abandon`` it has what was acknowledged, in a new epoch, as after a restart.
    ``call_soon`` is how completions come back later (default: the running loop's); a simulation passes its own and so
    decides when an append is done, and ``fault`` decides whether. ``catalog`` is one that is shared with other engines.
    """

    def __init__(
        self,
        *,
        new_uuid: Callable[[], UUID],
        node_id: int = 1,
        call_soon: Callable[[Callable[[], None]], object] | None = None,
        fault: Fault = lambda tp, base_offset: None,
        catalog: Catalog | None = None,
        cluster_id: str = "",
    ) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id or new_cluster_id(new_uuid)
        self.leader_epoch = -1
        self.catalog: Catalog = catalog or MemoryCatalog()
        self.snapshots = None
        self.on_appended: Callable[[TopicPartition], None] = lambda tp: None
        self.on_fatal: Callable[[EngineError], None] = lambda error: None
        self.recovered: list[Cut] = []
        self.closed_to_others: ClosedToOthers | None = None
        self.fault = fault
        self._call_soon = call_soon
        self._given_call_soon = call_soon
        self._stored: dict[TopicPartition, MemoryLog] = {}
        self._open: dict[TopicPartition, MemoryLog] = {}
        self._queue: list[_Append] = []
        self._life = 0

    @property
    def logs(self) -> Mapping[TopicPartition, MemoryLog]:
        return self._open

    @property
    def refusal(self) -> EngineError | None:
        return None

    async def open(self) -> None:
        self._call_soon = self._given_call_soon or asyncio.get_running_loop().call_soon
        self.leader_epoch += 1

    async def close(self) -> None:
        self._complete(self._life)
        self.abandon()

    def abandon(self) -> None:
        """End as a killed process does: what was not acknowledged is gone, and nobody is told."""
        self._life += 1
        self._queue.clear()
        for log in self._open.values():
            log.shut(Unavailable("the engine is closed"))
        self._open.clear()

    async def open_log(self, topic: str, topic_id: UUID, partition: int, config: LogConfig) -> MemoryLog:
        tp = TopicPartition(topic, partition)
        if tp in self._open:
            raise ValueError(f"{topic}-{partition} is open already")
        log = self._stored.get(tp)
        if log is not None and log.topic_id == topic_id:
            log.reopened(config)
        else:
            log = MemoryLog(self, tp, topic_id, config)
        self._stored[tp] = self._open[tp] = log
        return log

    async def release_log(self, tp: TopicPartition) -> None:
        if tp in self._open:
            self._complete(self._life)
            self._open.pop(tp).shut(Unavailable(f"{tp.topic}-{tp.partition} is closed"))

    async def delete_log(self, tp: TopicPartition) -> None:
        self._open.pop(tp, None)
        log = self._stored.get(tp)
        if log is not None and log.leader_epoch == self.leader_epoch:
            log.shut(Unavailable(f"{tp.topic}-{tp.partition} is deleted"))
            del self._stored[tp]

    def watch_syncs(self, watch: Callable[[Sync], None]) -> None:
        """There are none."""

    def damage_of(self, tp: TopicPartition) -> Sequence[Damage]:
        return ()

    async def remove_orphans(self, *, besides: Collection[TopicPartition] = ()) -> list[TopicPartition]:
        orphans = [tp for tp in self._stored if tp not in self._open and tp not in besides]
        for tp in orphans:
            del self._stored[tp]
        return orphans

    def enqueue(self, append: _Append) -> None:
        """Complete ``append`` soon, together with the others of this turn of the loop."""
        assert self._call_soon is not None, "a log of an engine that was never opened"
        self._queue.append(append)
        if len(self._queue) == 1:
            life = self._life
            self._call_soon(lambda: self._complete(life))

    def _complete(self, life: int) -> None:
        if life != self._life:
            return
        queue, self._queue = self._queue, []
        moved: dict[TopicPartition, None] = {}
        failures: list[Exception] = []
        for append in queue:
            error = append.log.settle(append)
            if error is None:
                moved[append.log.tp] = None
            try:
                append.done(append.base_offset, error)
            except Exception as failure:
                failures.append(failure)
        for tp in moved:
            if tp in self._open:  # it may have been deleted meanwhile
                self.on_appended(tp)
        if failures:
            # One caller's bug must not keep the others from hearing of their appends.
            raise ExceptionGroup("callbacks of appends failed", failures)
