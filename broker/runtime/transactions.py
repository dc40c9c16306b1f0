"""Enters the transaction coordinator, carries out its effects, and wakes it when its deadlines come.

``__transaction_state`` comes into being when the first client asks for a transaction coordinator, or for a producer id
with a transactional id. What such requests need from outside, the topic and a reserved producer id, is seen to before
the coordinator is entered, so that it never has to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.context import RequestContext
from ottla.broker.core.effects import Append, Reply
from ottla.broker.core.topics.catalog import TRANSACTIONS_TOPIC
from ottla.broker.core.topics.partition import Partition
from ottla.broker.core.topics.producers import Settled
from ottla.broker.core.topics.transactions import TransactionMarker
from ottla.broker.core.transactions.config import TransactionConfig
from ottla.broker.core.transactions.coordinator import TransactionCoordinator
from ottla.broker.core.transactions.effects import WriteMarker
from ottla.broker.core.transactions.initialising import refusal
from ottla.broker.core.transactions.pattern import BadPattern, Pattern
from ottla.broker.core.transactions.requests import Refused
from ottla.broker.engine import Corrupt, DamagedLog, EngineError, Log
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.records import (
    BatchError,
    CorruptBatch,
    Record,
    TopicPartition,
    build_batch,
    decode_batch,
    iter_batches,
)

LOAD_BYTES = 5 << 20
"""How much of a partition is read at a time while it is loaded (``transaction.state.log.load.buffer.size``)."""

MATCHED_AT_A_TIME = 65_536
"""Characters of transactional ids that are held against a pattern before it is asked whether somebody still waits."""

SPARE_PRODUCER_IDS = 2
"""Producer ids at hand, so that whoever needs one within a turn of the loop finds it."""


class Report(Protocol):
    """Where operators read what happened."""

    def info(self, event: str, **fields: Any) -> Any: ...
    def error(self, event: str, **fields: Any) -> Any: ...


class Topics(Protocol):
    """What is needed of the topic manager."""

    def partition(self, tp: TopicPartition) -> Partition | None: ...
    def partition_count(self, name: str) -> int: ...
    async def create_transactions_topic(self) -> None: ...


class _Caller:
    """Somebody in this process who asks to verify; takes the place of a request's context."""

    client_id = ""
    client_host = ""
    api_version = 0

    def __init__(self, then: Callable[[Mapping[TopicPartition, ErrorCode]], None]) -> None:
        self.reply = then


def _in_parts(rows: list[TransactionState]) -> Iterator[list[TransactionState]]:
    """The rows in parts with `MATCHED_AT_A_TIME` characters of ids, or little more."""
    part: list[TransactionState] = []
    size = 0
    for row in rows:
        part.append(row)
        size += len(row.transactional_id)
        if size >= MATCHED_AT_A_TIME:
            yield part
            part, size = [], 0
    yield part


def _matching(pattern: Pattern, rows: list[TransactionState]) -> list[TransactionState]:
    return [row for row in rows if pattern.matches(row.transactional_id)]


class TransactionDriver:
    """The way into the transaction coordinator; see `ottla.broker.handlers.services.Transactions`.

    Args:
        partition_count: of ``__transaction_state`` until it exists.
        write_marker: ends a transaction in a partition, and calls back.
        new_producer_id: gives a producer id that was never given before. Raises EngineError.
        max_batch_bytes: larger batches of coordinator records are refused as the log would refuse them.
    """

    def __init__(
        self,
        config: TransactionConfig,
        clock: Clock,
        topics: Topics,
        *,
        partition_count: int,
        write_marker: Callable[[TopicPartition, TransactionMarker, Settled], None],
        new_producer_id: Callable[[], Awaitable[int]],
        max_batch_bytes: int,
        report: Report,
    ) -> None:
        self._config = config
        self._clock = clock
        self._topics = topics
        self._write_marker = write_marker
        self._new_producer_id = new_producer_id
        self._max_batch_bytes = max_batch_bytes
        self._report = report
        self.coordinator = self._new_coordinator(partition_count)
        self._loaded = False
        self._spare: list[int] = []
        self._preparing: asyncio.Task[None] | None = None
        self._matching = asyncio.Lock()
        self._waiting: list[Callable[[ErrorCode], None]] = []
        self._settling = False
        self._outcomes: list[Callable[[], None]] = []  # of appends and markers, in their order
        self._timer: TimerHandle | None = None
        self._timer_ms: int | None = None
        self._stopped = False

    def _new_coordinator(self, partition_count: int) -> TransactionCoordinator:
        return TransactionCoordinator(
            self._config,
            self._take_producer_id,
            partition_count,
            lambda event, **fields: self._report.info(event, **fields),
        )

    # -- what must be there first

    def prepare(self, then: Callable[[ErrorCode], None]) -> None:
        """See to it that ``__transaction_state`` exists and a producer id is at hand. Calls back, maybe at once."""
        if self._loaded and self._spare:
            then(ErrorCode.NONE)
            return
        self._waiting.append(then)
        if self._preparing is None:
            self._preparing = asyncio.get_running_loop().create_task(self._prepare())

    async def _prepare(self) -> None:
        error = ErrorCode.NONE
        try:
            while len(self._spare) < SPARE_PRODUCER_IDS:
                self._spare.append(await self._new_producer_id())
            if not self._loaded:
                await self._topics.create_transactions_topic()
                self.load()
        except EngineError as failure:
            self._report.error("transactions cannot be coordinated", reason=str(failure))
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        except Exception:  # a bug of ours must not leave the requests of clients unanswered
            self._report.error("transactions cannot be coordinated", exc_info=True)
            error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._preparing = None
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(error)

    def _take_producer_id(self) -> int | None:
        taken = self._spare.pop(0) if self._spare else None
        if len(self._spare) < SPARE_PRODUCER_IDS and self._preparing is None and not self._stopped:
            self._preparing = asyncio.get_running_loop().create_task(self._prepare())
        return taken

    def load(self) -> None:
        """Replay ``__transaction_state`` and take its partitions over; nothing if there is no such topic.

        Raises:
            ottla.broker.engine.Corrupt: what was acknowledged cannot be read.
            ottla.protocol.errors.MalformedFrame: a record of ours does not parse.
        """
        count = self._topics.partition_count(TRANSACTIONS_TOPIC)
        if not count or self._loaded or self._stopped:
            return
        self.coordinator = self._new_coordinator(count)  # of the topic as it is: the setting may have been changed
        self.coordinator.start(self._clock.monotonic_ms())
        for partition in range(count):
            try:
                self._load(partition)
            except (Corrupt, BatchError) as error:
                raise DamagedLog(TopicPartition(TRANSACTIONS_TOPIC, partition), str(error)) from error
        self._loaded = True
        self.settle()

    def _load(self, partition: int) -> None:
        log = self._log(partition)
        self.coordinator.load_started(partition)
        offset = log.log_start_offset
        # Nothing is read where compaction has emptied the end of the log.
        while offset < log.high_watermark and (batches := log.read(offset, max_bytes=LOAD_BYTES)):
            for header, batch in iter_batches(batches):
                if not offset <= header.last_offset < log.high_watermark:
                    # The CRC does not cover offsets.
                    raise CorruptBatch(f"offset {header.last_offset} where {offset} or more was due")
                offset = header.last_offset + 1
                for record in decode_batch(batch) if header.record_count and not header.is_control else ():
                    if record.key is None:
                        raise MalformedFrame(f"{TRANSACTIONS_TOPIC}-{partition}: no key at offset {record.offset}")
                    self.coordinator.replay(partition, CoordinatorRecord(record.key, record.value))
        self.coordinator.loaded(partition, log.leader_epoch, *self._now())

    def _log(self, partition: int) -> Log:
        served = self._topics.partition(TopicPartition(TRANSACTIONS_TOPIC, partition))
        assert served is not None
        return served.log

    # -- the transaction APIs; see TransactionCoordinator for their meaning

    def init_producer_id(self, request: InitProducerIdRequest, ctx: RequestContext) -> InitProducerIdResponse | None:
        self.prepare(partial(self._init_producer_id, request, ctx))
        return None

    def _init_producer_id(self, request: InitProducerIdRequest, ctx: RequestContext, error: ErrorCode) -> None:
        answer = refusal(error) if error else self.coordinator.init_producer_id(request, ctx, *self._now())
        if answer is not None:
            ctx.reply(answer)
        self.settle()

    def add_partitions(
        self, request: AddPartitionsToTxnRequest, ctx: RequestContext, refused: Refused
    ) -> AddPartitionsToTxnResponse | None:
        answer = self.coordinator.add_partitions(request, ctx, *self._now(), refused)
        self.settle()
        return answer

    def add_offsets(
        self, request: AddOffsetsToTxnRequest, ctx: RequestContext, offsets_partition: TopicPartition
    ) -> AddOffsetsToTxnResponse | None:
        answer = self.coordinator.add_offsets(request, ctx, *self._now(), offsets_partition)
        self.settle()
        return answer

    def end(self, request: EndTxnRequest, ctx: RequestContext) -> EndTxnResponse | None:
        answer = self.coordinator.end(request, ctx, *self._now())
        self.settle()
        return answer

    def describe(self, request: DescribeTransactionsRequest, ctx: RequestContext) -> DescribeTransactionsResponse:
        return self.coordinator.describe(request, self._clock.monotonic_ms())

    async def list(self, request: ListTransactionsRequest, ctx: RequestContext) -> ListTransactionsResponse | None:
        """None if its client has gone away meanwhile."""
        text = request.transactional_id_pattern
        if not text:
            return self.coordinator.list(request, *self._now())
        async with self._matching:  # one at a time, so that patterns keep no more than one thread busy
            answer = self.coordinator.list(request, *self._now())
            if answer.error_code:
                return answer
            try:
                pattern = await asyncio.to_thread(Pattern, text)
            except BadPattern:
                return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
            found: list[TransactionState] = []
            for rows in _in_parts(answer.transaction_states):
                if ctx.is_gone:
                    ctx.close("its client has gone away while transactional ids were matched")
                    return None
                found += await asyncio.to_thread(_matching, pattern, rows)
            answer.transaction_states = found
            return answer

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        tps: Sequence[TopicPartition],
        *,
        add: bool,
        then: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Whether partitions take part in a producer's transaction; with ``add`` they do from now on, durably."""
        who = transactional_id, producer_id, producer_epoch
        results = self.coordinator.verify(*who, tps, _Caller(then), *self._now(), adds=add)
        self.settle()
        if results is not None:
            then(results)

    # -- effects and time

    def settle(self) -> None:
        """Carry out effects until there are none, then set the alarm clock."""
        if self._settling:
            return  # called from within an effect: the loop below goes on with what it left
        self._settling = True
        try:
            while True:
                effects = self.coordinator.take_effects()
                for effect in effects:
                    if type(effect) is Append:
                        self._append(effect)
                    elif type(effect) is WriteMarker:
                        self._mark(effect)
                    else:
                        self._reply(effect)  # type: ignore[arg-type]
                outcomes, self._outcomes = self._outcomes, []
                for outcome in outcomes:
                    outcome()
                if not (effects or outcomes):
                    break
        finally:
            self._settling = False
        self._arm()

    def _reply(self, reply: Reply) -> None:
        try:
            reply.ctx.reply(reply.response)  # type: ignore[attr-defined]
        except Exception:  # a bug in one answer must not keep the others from theirs
            self._report.error("an answer could not be sent", exc_info=True)

    def _append(self, effect: Append) -> None:
        wall_ms = self._clock.wall_ms()
        batch = build_batch([Record(0, wall_ms, record.key, record.value, ()) for record in effect.records])
        if len(batch) > self._max_batch_bytes:
            self._note_appended(effect.token, ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka: no client can do about it
            return
        done = partial(self._appended, effect.token)
        try:
            self._log(effect.partition).append(batch, count=len(effect.records), max_timestamp_ms=wall_ms, done=done)
        except EngineError as error:
            self._report.error("a transaction record was refused", reason=str(error))
            self._note_appended(effect.token, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _appended(self, token: object, base_offset: int, error: Exception | None) -> None:
        self._note_appended(token, ErrorCode.NONE if error is None else ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self.settle()

    def _note_appended(self, token: object, error: ErrorCode) -> None:
        self._outcomes.append(lambda: self.coordinator.appended(token, error, *self._now()))

    def _mark(self, effect: WriteMarker) -> None:
        marker = TransactionMarker(
            producer_id=effect.producer_id,
            producer_epoch=effect.producer_epoch,
            coordinator_epoch=effect.coordinator_epoch,
            commit=effect.commit,
            transaction_version=effect.transaction_version,
        )
        self._write_marker(effect.tp, marker, partial(self._marked, effect.token))

    def _marked(self, token: object, offset: int, error: ErrorCode) -> None:
        self._outcomes.append(lambda: self.coordinator.marker_written(token, error, *self._now()))
        self.settle()

    def _now(self) -> tuple[int, int]:
        return self._clock.monotonic_ms(), self._clock.wall_ms()

    def _arm(self) -> None:
        when_ms = self.coordinator.next_deadline_ms()
        if self._stopped or when_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = when_ms
        self._timer = None if when_ms is None else self._clock.call_at(when_ms, self._ring)

    def _ring(self) -> None:
        self._timer = self._timer_ms = None
        try:
            self.coordinator.advance(*self._now())
        except Exception:  # as in the driver of the groups
            self._report.error("a deadline of a transaction failed", exc_info=True)
        self.settle()

    # -- the end

    def stop(self) -> None:
        """Give all partitions up: parked requests are answered NOT_COORDINATOR, and no timer fires any more."""
        self.silence()
        for partition in range(self._topics.partition_count(TRANSACTIONS_TOPIC) if self._loaded else 0):
            self.coordinator.unload(partition, *self._now())
        self.settle()

    def silence(self) -> None:
        """Let no timer fire any more."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
