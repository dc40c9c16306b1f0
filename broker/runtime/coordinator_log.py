"""The topic of a coordinator: its partitions are loaded from there, and its records written there.

Several writes share a batch: a thousand clients that commit in the same turn of the event loop are a few dozen batches
and not a thousand. A batch is atomic and the writes in it fail or succeed together, in the order in which they were
asked for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.broker.clock import Clock
from ottla.broker.core.coordination.machine import CoordinatorMachine
from ottla.broker.core.coordination.shard import ShardState
from ottla.broker.core.effects import Append
from ottla.broker.core.topics.partition import Partition, Standing
from ottla.broker.engine import Corrupt, DamagedLog, EngineError
from ottla.broker.logger import Logger
from ottla.broker.runtime.reading import read_when_here
from ottla.protocol.compression import Buffer
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.records import (
    BatchBuilder,
    BatchError,
    BatchHeader,
    CorruptBatch,
    Record,
    TopicPartition,
    check_crc,
    decode_batch,
    decompressed_records,
    iter_batches,
    parse_marker,
    plain_batch,
    record_at,
    record_body,
)

# A member of an enumeration takes longer to find than all else that is done with it.
NONE, COORDINATOR_NOT_AVAILABLE = ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE

FULL_BYTES = 64 << 10
"""Keys and values of this size together make a batch that is not kept waiting for more."""

TOLD_A_STEP = 16
"""Writes of which the outcome is told without a look at the time."""

LOAD_BYTES = 5 << 20
"""How much of a partition is read at a time while it is loaded (``offsets.load.buffer.size``,
``transaction.state.log.load.buffer.size``)."""


Defer = Callable[[Callable[[], None]], object]
"""Calls back before the event loop looks at its sockets again."""

Damaged = Callable[[Partition, Exception], None]
"""Told of a partition that cannot be loaded, and why."""


class _Queued:
    """The writes that wait for one partition: their tokens and, of each, its records."""

    __slots__ = ("bodies", "size_bytes", "tokens")

    def __init__(self) -> None:
        self.tokens: list[object] = []
        self.bodies: list[list[bytes]] = []
        self.size_bytes = 0


class Outcomes:
    """Writes of which the outcome is known, in their order: an iterator of the steps that tell the machine of it.

    Batches that come to their end while earlier ones wait are told with them: a sync makes dozens durable.
    """

    __slots__ = ("_batches", "_clock", "machine")

    def __init__(self, machine: CoordinatorMachine[Any], clock: Clock) -> None:
        self.machine = machine
        self._clock = clock
        self._batches: deque[tuple[list[object], ErrorCode]] = deque()  # with one outcome each

    def add(self, tokens: list[object], error: ErrorCode) -> None:
        """Tell of these as well, after the others."""
        if self._batches and self._batches[-1][1] is error:
            self._batches[-1][0].extend(tokens)
        else:
            self._batches.append((tokens, error))

    def __iter__(self) -> Outcomes:
        return self

    def __next__(self) -> None:
        if not self._batches:
            raise StopIteration
        tokens, error = self._batches[0]
        told = iter(tokens[:TOLD_A_STEP])
        del tokens[:TOLD_A_STEP]
        if not tokens:
            self._batches.popleft()
        try:
            self.machine.appended_all(told, error, self._clock.monotonic_ms(), self._clock.wall_ms())
        except Exception:  # a bug in what one came to; the others are still to be told
            self._batches.appendleft((list(told), error))
            raise


class CoordinatorLog:
    """See the module.

    Args:
        partition: gives a partition that is served, None where there is none.
        max_batch_bytes: a single write that makes a larger batch is refused, as the log would refuse it.
        defer: None appends everything at once.
        over: takes writes and their outcome, which the machine is to be told outside of its own entries.
    """

    def __init__(
        self,
        topic: str,
        machine: CoordinatorMachine[Any],
        clock: Clock,
        *,
        partition: Callable[[TopicPartition], Partition | None],
        max_batch_bytes: int,
        defer: Defer | None,
        over: Callable[[CoordinatorLog, list[object], ErrorCode], None],
        report: Logger,
    ) -> None:
        self.topic = topic
        self.machine = machine
        self._clock = clock
        self._partition = partition
        self._max_batch_bytes = max_batch_bytes
        self._defer = defer
        self._over = over
        self._report = report
        self._partitions: dict[int, Partition] = {}
        self._queued: dict[int, _Queued] = {}
        self._is_due = False

    def _served(self, partition: int) -> Partition:
        """A partition of the topic, which is there whenever its shard is."""
        served = self._partitions.get(partition)
        if served is None:
            served = self._partition(TopicPartition(self.topic, partition))
            assert served is not None
            self._partitions[partition] = served
        return served

    # Loading

    async def take_over(self, partition: int, damaged: Damaged | None) -> None:
        """Load a partition that is led here; nothing happens if it is led elsewhere, or loaded already.

        Args:
            damaged: told of one that cannot be loaded; None where that is an error.

        Raises:
            ottla.broker.engine.EngineError, ottla.protocol.errors.MalformedFrame: as `load`.
        """
        served = self._partition(TopicPartition(self.topic, partition))
        if served is None or served.standing is Standing.ELSEWHERE:
            return
        if served.standing is Standing.OFFLINE:
            if self.machine.shards[partition].state is ShardState.ABSENT:  # its log could not be opened
                self.machine.load_started(partition, self._clock.monotonic_ms())
                self.machine.load_failed(partition, self._clock.monotonic_ms())
            return
        log = served.log
        try:
            await self.load(partition, again=self.machine.shards[partition].state is ShardState.FAILED)
        except (EngineError, MalformedFrame) as error:
            if damaged is None:
                raise
            if served.log is log:  # else it was lost meanwhile
                damaged(served, error)
        if served.standing is Standing.LOADING and self.machine.shards[partition].state is ShardState.ACTIVE:
            served.standing = Standing.LEADING

    async def load(self, partition: int, *, again: bool = False) -> None:
        """Replay a partition and take its shard over. Others get a turn after every `LOAD_BYTES`.

        Args:
            again: it was given up before, or could not be loaded, and nobody else has had it meanwhile.

        Raises:
            ottla.broker.engine.DamagedLog: what was acknowledged cannot be read.
            ottla.broker.engine.EngineError: nothing can be read at the moment.
            ottla.protocol.errors.MalformedFrame: a record of ours does not parse.
        """
        served = self._served(partition)
        log = served.log
        epoch = None if again else log.leader_epoch
        if not self.machine.load_started(partition, self._clock.monotonic_ms(), epoch):
            return
        while again and log.high_watermark < log.log_end_offset:  # noqa: ASYNC110 - what was written before
            await asyncio.sleep(0.001)
        offset = log.log_start_offset
        try:
            # Nothing is read where compaction has emptied the end of the log.
            while offset < log.high_watermark and (batches := await read_when_here(log, offset, max_bytes=LOAD_BYTES)):
                if offset > log.log_start_offset:
                    await asyncio.sleep(0)
                if self.machine.shards[partition].state is not ShardState.LOADING:
                    return  # it was given up
                for header, batch in iter_batches(batches):
                    if not offset <= header.last_offset < log.high_watermark:
                        # The CRC does not cover offsets.
                        raise CorruptBatch(f"offset {header.last_offset} where {offset} or more was due")
                    offset = served.replay(batch, self._clock.wall_ms())
                    self._replay(partition, header, batch)
        except (Corrupt, BatchError) as error:
            self.machine.load_failed(partition, self._clock.monotonic_ms())
            raise DamagedLog(TopicPartition(self.topic, partition), str(error)) from error
        except (EngineError, MalformedFrame):
            self.machine.load_failed(partition, self._clock.monotonic_ms())
            raise
        for _ in self.machine.activating(partition, *self._now()):
            await asyncio.sleep(0)

    def _replay(self, partition: int, header: BatchHeader, batch: Buffer) -> None:
        if header.is_control:
            if (end := parse_marker(batch)) is not None:
                self.machine.transaction_ended(partition, header.producer_id, end.commit, *self._now())
            return
        if not header.record_count:
            return
        check_crc(header, batch)
        body = decompressed_records(header, batch)
        position, left = 0, header.record_count
        try:
            while True:
                if not header.is_transactional:
                    position, left = self.machine.replay_plain(partition, body, position, left)
                if not left:
                    break
                record, position = record_at(header, body, position)
                left -= 1
                self._replay_record(partition, record, header.producer_id if header.is_transactional else -1)
        except MalformedFrame:
            decode_batch(batch)  # where the batch itself is damaged, that comes first
            raise
        if position != len(body):
            raise CorruptBatch(f"{len(body) - position} bytes after the last record")

    def _replay_record(self, partition: int, record: Record, producer_id: int) -> None:
        if record.key is None:
            raise MalformedFrame(f"{self.topic}-{partition}: the record at {record.offset} has no key")
        stored = CoordinatorRecord(record.key, record.value)
        try:
            self.machine.replay(partition, stored, record.offset, producer_id)
        except MalformedFrame as error:
            text = f"{self.topic}-{partition}: the record at {record.offset} cannot be read: {error}"
            raise MalformedFrame(text) from error

    def _now(self) -> tuple[int, int]:
        return self._clock.monotonic_ms(), self._clock.wall_ms()

    # Writing

    def append(self, effect: Append) -> None:
        """Append these records, with others of the same turn."""
        if effect.producer_id >= 0:
            self.flush(effect.partition)
            self._append_transactional(effect)
        else:
            self.put(effect.partition, effect.token, [record_body(key, value) for key, value in effect.records])

    def put(self, partition: int, token: object, bodies: list[bytes]) -> None:
        """Append records, with others of the same turn, whose bodies `record_body` has made."""
        queued = self._queued.get(partition)
        if queued is None:
            queued = self._queued[partition] = _Queued()
        queued.tokens.append(token)
        queued.bodies.append(bodies)
        for body in bodies:
            queued.size_bytes += len(body)
        if self._defer is None or queued.size_bytes >= FULL_BYTES:
            self.flush(partition)
        elif not self._is_due:
            self._is_due = True
            self._defer(self.flush_all)

    def flush_all(self) -> None:
        """Append everything that waits."""
        self._is_due = False
        for partition in list(self._queued):
            self.flush(partition)

    def flush(self, partition: int) -> None:
        """Append what waits for one partition: what is appended to it otherwise must not overtake."""
        queued = self._queued.pop(partition, None)
        if queued is None or self._append(partition, queued.tokens, queued.bodies):
            return
        for token, bodies in zip(queued.tokens, queued.bodies, strict=True):
            if len(queued.tokens) == 1 or not self._append(partition, [token], [bodies]):
                self._over(self, [token], ErrorCode.MESSAGE_TOO_LARGE)

    def _append(self, partition: int, tokens: list[object], writes: list[list[bytes]]) -> bool:
        """Append writes as one batch; False if it would be too large."""
        wall_ms = self._clock.wall_ms()
        bodies = writes[0] if len(writes) == 1 else [body for bodies in writes for body in bodies]
        batch = plain_batch(bodies, wall_ms)
        if len(batch) > self._max_batch_bytes:
            return False
        try:
            self._served(partition).log.append(
                batch, count=len(bodies), max_timestamp_ms=wall_ms, done=partial(self._done, tokens)
            )
        except EngineError as error:
            self._refused(tokens, error)
        return True

    def _append_transactional(self, effect: Append) -> None:
        wall_ms = self._clock.wall_ms()
        builder = BatchBuilder(is_transactional=True)
        for record in effect.records:
            builder.append(record.key, record.value, wall_ms)
        batch = builder.build(producer_id=effect.producer_id, producer_epoch=effect.producer_epoch)
        tokens = [effect.token]
        if len(batch) > self._max_batch_bytes:
            self._over(self, tokens, ErrorCode.MESSAGE_TOO_LARGE)
            return
        try:
            self._served(effect.partition).append_offsets(batch, wall_ms, partial(self._done, tokens), effect.verified)
        except BatchError as error:
            self._over(self, tokens, error.error_code)
        except EngineError as error:
            self._refused(tokens, error)

    def _refused(self, tokens: list[object], error: EngineError) -> None:
        self._report.error("coordinator records were refused", topic=self.topic, reason=str(error))
        self._over(self, tokens, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _done(self, tokens: list[object], base_offset: int, error: Exception | ErrorCode | None) -> None:
        self._over(self, tokens, COORDINATOR_NOT_AVAILABLE if error else NONE)
