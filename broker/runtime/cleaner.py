"""The cleaner: drops old segments and compacts logs, a little at a time between everything else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.core.cleaning.choice import Dirt, cleanable_from, cleanable_upto, dirt_of, joins
from ottla.broker.core.cleaning.compaction import AbortedTransaction, KeyScan, LastBatch, Sieve
from ottla.broker.core.cleaning.retention import expired
from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.core.topics.partition import Partition, Standing
from ottla.broker.engine import Corrupt, Engine, EngineError, Log, SegmentInfo
from ottla.broker.logger import Logger
from ottla.broker.runtime.reading import in_turns, read_when_here
from ottla.broker.runtime.spool import Spool
from ottla.broker.runtime.topics import TopicManager
from ottla.broker.settings import INT64_MAX, Settings
from ottla.protocol.records import BatchError, BatchHeader, TopicPartition, iter_batches
from ottla.protocol.steps import Steps

READ_BYTES = 256 * 1024
"""How much of a log is read at a time."""
TURN_RECORDS = 300
"""Records after which others have their turn; a batch counts as ten."""
MOST_JOINED = 32
"""So many segments become one at a time: each is held open for its readers until it has."""
TURN_LOGS = 10
"""Logs that are looked at in one turn."""

_T = TypeVar("_T")


class _Job(NamedTuple):
    partition: Partition
    log: Log
    dirt: Dirt


class _Written:
    """The replacement of some segments, as far as it has got."""

    def __init__(self, directory: Path | None) -> None:
        self.segments: list[SegmentInfo] = []
        self.spool = Spool(directory)
        self.changed = False


async def _unheard(tp: TopicPartition) -> None:
    """Nobody wants to be told."""


class Cleaner:
    """Retention every ``log.retention.check.interval.ms``; compaction of the dirtiest log, again and again.

    Everything runs on the event loop and gives way to others every millisecond or so. A log that cannot be cleaned is
    logged and left alone; one that is damaged until the broker is started again.

    Args:
        directory: where compacted segments may be written until they are whole; None keeps them in memory.

    Attributes:
        uncleanable: the partitions that are left alone for good, with the ids of their topics.
        on_markers_gone: told of a partition from which markers of aborted transactions go, before they go: what was
            written down about them must be forgotten.
    """

    def __init__(
        self, engine: Engine, topics: TopicManager, clock: Clock, log: Logger, *, directory: Path | None = None
    ) -> None:
        self.uncleanable: dict[TopicPartition, UUID] = {}
        self.on_markers_gone: Callable[[TopicPartition], Awaitable[None]] = _unheard
        self._engine = engine
        self._topics = topics
        self._clock = clock
        self._log = log
        self._directory = directory
        self._cleaning: TopicPartition | None = None
        self._resting: set[TopicPartition] = set()
        self._work = 0
        self._timers: dict[str, TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    @property
    def _settings(self) -> Settings:
        return self._topics.broker_configs.settings

    # --------------------------------------------------------------------------------------------------------- running

    def start(self) -> None:
        """Begin; the first round is an interval from now."""
        self._after("retention", self._settings.log_retention_check_interval_ms, self._retention)
        if self._settings.log_cleaner_enable:
            self._after("compaction", self._settings.log_cleaner_backoff_ms, self._compaction)

    async def stop(self) -> None:
        """Stop where it is: what was not put in its place stays as it was."""
        self._stopped = True
        for timer in self._timers.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def rest(self) -> None:
        """Wait until the rounds that have begun are over."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _after(self, name: str, delay_ms: int, work: Any) -> None:
        if not self._stopped:
            self._timers[name] = self._clock.call_at(self._clock.monotonic_ms() + delay_ms, lambda: self._run(work()))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _retention(self) -> None:
        try:
            await self.drop_expired()
        except Exception:  # a bug of ours must not end retention for good
            self._log.error("retention failed", exc_info=True)
        self._after("retention", self._settings.log_retention_check_interval_ms, self._retention)

    async def _compaction(self) -> None:
        try:
            while await self.compact_one():
                pass
        except Exception:
            self._log.error("compaction failed", exc_info=True)
        self._resting.clear()
        topics = self._topics.by_id
        self.uncleanable = {tp: topic_id for tp, topic_id in self.uncleanable.items() if topic_id in topics}
        self._after("compaction", self._settings.log_cleaner_backoff_ms, self._compaction)

    # ------------------------------------------------------------------------------------------------------- retention

    async def drop_expired(self) -> None:
        """Trim every log whose topic says delete by what is too old or too much."""
        async for partition, log in self._logs():
            config = partition.topic.config
            if config.deletes and partition.tp != self._cleaning:
                try:
                    await self._drop(partition, log, config)
                except EngineError as error:
                    self._failed("old segments could not be dropped", partition.tp, error)

    async def _drop(self, partition: Partition, log: Log, config: TopicConfig) -> None:
        segments = log.segments()
        found = expired(
            segments,
            config,
            high_watermark=log.high_watermark,
            log_start_offset=log.log_start_offset,
            wall_ms=self._clock.wall_ms(),
        )
        if found is None:
            return
        if found.roll:
            await log.roll()
        await log.trim(found.offset)
        partition.transactions.aborted.forget_below(found.offset)
        self._topics.on_touched(partition.tp)
        gone = [segment for segment in segments if segment.next_offset <= found.offset]
        size = sum(segment.size_bytes for segment in gone)
        self._log.info("dropped old segments", topic=partition.tp.topic, partition=partition.tp.partition,
                       segments=len(gone), bytes=size, log_start_offset=log.log_start_offset,
                       for_size=found.too_large, for_age=found.too_old)  # fmt: skip

    async def _logs(self) -> AsyncIterator[tuple[Partition, Log]]:
        """Every log that is led here, with turns for others in between."""
        seen = 0
        for topic in list(self._topics.topics.values()):
            for partition in list(topic.partitions):
                log = self._engine.logs.get(partition.tp)
                if log is not None and partition.standing is Standing.LEADING and partition.topic is topic:
                    yield partition, log
                seen += 1
                if not seen % TURN_LOGS:
                    await asyncio.sleep(0)

    # ------------------------------------------------------------------------------------------------------ compaction

    async def compact_one(self) -> bool:
        """Compact the dirtiest log; False if none is dirty enough."""
        job = await self._dirtiest()
        if job is None:
            return False
        tp = self._cleaning = job.partition.tp
        try:
            await self._compact(job)
        except (BatchError, Corrupt) as error:
            self.uncleanable[tp] = job.partition.topic.topic_id
            self._failed("a damaged log is not compacted any more", tp, error)
        except (EngineError, ValueError, OSError) as error:
            # No room, or the log was trimmed or deleted meanwhile. It may do the next time.
            self._resting.add(tp)
            self._failed("a log could not be compacted", tp, error)
        except Exception:
            self.uncleanable[tp] = job.partition.topic.topic_id
            raise
        finally:
            self._cleaning = None
        return True

    async def _dirtiest(self) -> _Job | None:
        best: _Job | None = None
        async for partition, log in self._logs():
            if partition.topic.config.compacted and not self._is_left_alone(partition):
                try:
                    dirt = await self._dirt(partition, log)
                except (EngineError, BatchError) as error:
                    self._resting.add(partition.tp)
                    self._failed("a log could not be looked at", partition.tp, error)
                    continue
                if dirt is not None and (best is None or dirt.ratio > best.dirt.ratio):
                    best = _Job(partition, log, dirt)
        return best

    def _is_left_alone(self, partition: Partition) -> bool:
        return partition.tp in self._resting or self.uncleanable.get(partition.tp) == partition.topic.topic_id

    async def _dirt(self, partition: Partition, log: Log) -> Dirt | None:
        config, wall_ms = partition.topic.config, self._clock.wall_ms()
        segments = log.segments()
        from_offset = cleanable_from(log.cleaned_offset, log.log_start_offset, log.log_end_offset)
        upto_offset = cleanable_upto(
            segments, config, from_offset=from_offset, stable_offset=partition.last_stable_offset, wall_ms=wall_ms
        )
        first_dirty_ms = None
        if config.max_compaction_lag_ms < INT64_MAX and from_offset < upto_offset:
            data = await read_when_here(log, from_offset, max_bytes=1, upto_offset=upto_offset)
            for header, _ in iter_batches(data):
                first_dirty_ms = header.max_timestamp
        return dirt_of(
            segments,
            config,
            from_offset=from_offset,
            upto_offset=upto_offset,
            first_dirty_ms=first_dirty_ms,
            wall_ms=wall_ms,
        )

    async def _compact(self, job: _Job) -> None:
        partition, log, dirt = job
        config, began_ms = partition.topic.config, self._clock.real.monotonic_ms()
        size_bytes = log.size_bytes
        aborted = _aborted(partition)
        scan = KeyScan(dirt.from_offset, aborted, self._settings.log_cleaner_dedupe_buffer_size)
        async for header, batch in self._batches(log, dirt.from_offset, dirt.upto_offset):
            await self._in_turns(scan.take(header, batch))
            if scan.keys.is_full:
                break
        else:
            scan.keys.latest_offset = dirt.upto_offset - 1
        sieve = Sieve(
            scan.keys,
            aborted,
            _last_batches(partition),
            upto_offset=dirt.upto_offset,
            delete_retention_ms=config.delete_retention_ms,
            wall_ms=self._clock.wall_ms(),
        )
        end_offset = scan.keys.latest_offset + 1
        written = _Written(self._directory)
        try:
            for segment in log.segments():
                if segment.base_offset >= end_offset or segment.next_offset > dirt.upto_offset:
                    break
                group = written.segments
                if len(group) == MOST_JOINED or (
                    group and not joins(group[0], segment, written.spool.size_bytes, config.segment_bytes)
                ):
                    await self._replace(partition, log, written, sieve)
                    written = _Written(self._directory)
                await self._sift(log, segment, sieve, written)
            await self._replace(partition, log, written, sieve)
        finally:
            written.spool.close()
        log.mark_cleaned(end_offset)
        self._log.info("compacted", topic=partition.tp.topic, partition=partition.tp.partition,
                       from_offset=dirt.from_offset, upto_offset=end_offset, records=sieve.records, kept=sieve.kept,
                       bytes_before=size_bytes, bytes_after=log.size_bytes, keys=len(scan.keys),
                       ms=self._clock.real.monotonic_ms() - began_ms)  # fmt: skip

    async def _sift(self, log: Log, segment: SegmentInfo, sieve: Sieve, written: _Written) -> None:
        """Add what stays of a segment."""
        written.segments.append(segment)
        offset = max(segment.base_offset, log.log_start_offset)
        async for header, batch in self._batches(log, offset, segment.next_offset):
            kept = await self._in_turns(sieve.sift(header, batch))
            written.changed = written.changed or kept is not batch
            if kept is not None:
                written.spool.add(kept)

    async def _replace(self, partition: Partition, log: Log, written: _Written, sieve: Sieve) -> None:
        """Put one segment in the place of some, unless it is a single one of which everything stays."""
        group = written.segments
        try:
            if written.changed or len(group) > 1:
                if sieve.markers_gone:
                    # First, as a reader who is told of an aborted transaction waits for its marker. Of one whose
                    # marker goes there is nothing left that anybody would have to be warned of.
                    await self.on_markers_gone(partition.tp)
                    partition.transactions.aborted.forget(sieve.markers_gone)
                    sieve.markers_gone.clear()
                await log.replace(group[0].base_offset, group[-1].next_offset, written.spool)
                await self._throttle(written.spool.size_bytes)
        finally:
            written.spool.close()

    async def _batches(self, log: Log, offset: int, upto_offset: int) -> AsyncIterator[tuple[BatchHeader, memoryview]]:
        """The batches of a log from ``offset`` to an end of a segment."""
        while offset < upto_offset:
            data = await read_when_here(log, offset, max_bytes=READ_BYTES, upto_offset=upto_offset)
            if not data:
                return
            for header, batch in iter_batches(data):
                offset = header.last_offset + 1
                self._work += header.record_count
                yield header, batch
            await self._throttle(len(data))

    async def _in_turns(self, steps: Steps[_T]) -> _T:
        """Take all the steps of a batch, with turns for others in between."""
        outcome = await in_turns(steps, asyncio.to_thread)
        self._work += 10
        if self._work >= TURN_RECORDS:
            self._work = 0
            await asyncio.sleep(0)
        return outcome

    async def _throttle(self, size: int) -> None:
        """Wait so long that this many bytes do not exceed log.cleaner.io.max.bytes.per.second."""
        wait_ms = int(size * 1000 / self._settings.log_cleaner_io_max_bytes_per_second)
        if wait_ms:
            waited, clock = asyncio.Event(), self._clock.real
            self._timers["throttle"] = clock.call_at(clock.monotonic_ms() + wait_ms, waited.set)
            await waited.wait()
        else:
            await asyncio.sleep(0)

    def _failed(self, event: str, tp: TopicPartition, error: Exception) -> None:
        if tp not in self._engine.logs:
            return  # its topic was deleted meanwhile
        self._log.error(event, topic=tp.topic, partition=tp.partition, reason=str(error))


def _aborted(partition: Partition) -> list[AbortedTransaction]:
    return [AbortedTransaction(*row[:3]) for row in partition.transactions.aborted.rows()]


def _last_batches(partition: Partition) -> dict[int, LastBatch]:
    """The partition's knowledge of its producers, as far as it is durable.

    Nothing for topics that coordinators write: they give no sequence numbers.
    """
    found: dict[int, LastBatch] = {}
    if partition.topic.is_internal:
        return found
    for producer_id, state in partition.producers.items():
        durable = [batch.last_offset for batch in state.batches if batch.waiting is None and batch.base_offset >= 0]
        found[producer_id] = LastBatch(state.epoch, durable[-1] if durable else None)
    return found
