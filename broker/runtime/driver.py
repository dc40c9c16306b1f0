"""Enters the pure core, carries out its effects, and owns the one alarm clock.

Every entry ends in `settle`: effects are taken until there are none, then one timer is armed for the earliest deadline
of all machines. A heartbeat asks for no effect and can only move a deadline later, so it is not followed by a settle.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import UUID

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.context import RequestContext
from ottla.broker.core.effects import Append, Reply
from ottla.broker.core.fetches import FetchPurgatory, Parked
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.groups.offsets import Refusals, TopicIds
from ottla.broker.core.topics.catalog import OFFSETS_TOPIC
from ottla.broker.core.topics.partition import Partition
from ottla.broker.core.topics.producers import Settled
from ottla.broker.core.topics.transactions import TransactionMarker
from ottla.broker.engine import EngineError
from ottla.broker.runtime.coordinator_appends import CoordinatorAppends, Defer, Report
from ottla.broker.runtime.member_connections import MemberConnections
from ottla.protocol.compression import Buffer
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.primitives import ZERO_UUID
from ottla.protocol.records import (
    BatchHeader,
    CorruptBatch,
    TopicPartition,
    decode_batch,
    iter_batches,
    parse_marker,
)

LOAD_BYTES = 5 << 20
"""How much of a partition is read at a time while it is loaded (``offsets.load.buffer.size``)."""


class Driver:
    """The way into the core for handlers, timers and the storage.

    Args:
        partition: a partition that is served, None where there is none.
        answer_fetch: looks at a woken fetch again.
        partition_count: of ``__consumer_offsets``.
        max_batch_bytes: larger batches of coordinator records are refused as the log would refuse them.
        defer: calls back before the event loop looks at its sockets again: until then writes are collected.
    """

    def __init__(
        self,
        coordinator: GroupCoordinator,
        fetches: FetchPurgatory,
        clock: Clock,
        *,
        partition: Callable[[TopicPartition], Partition | None],
        answer_fetch: Callable[[Parked], None],
        partition_count: int,
        max_batch_bytes: int,
        report: Report,
        defer: Defer | None = None,
    ) -> None:
        self.coordinator = coordinator
        self.fetches = fetches
        self.heartbeat: Callable[[HeartbeatRequest, int], int] = coordinator.heartbeat  # straight: see the module
        self._clock = clock
        self._partition = partition
        self._answer_fetch = answer_fetch
        self._partition_count = partition_count
        self._appends = CoordinatorAppends(
            self._offsets,
            clock,
            max_batch_bytes=max_batch_bytes,
            defer=defer,
            outcome=self._written,
            report=report,
        )
        self.members = MemberConnections(coordinator, self._now)
        self._report = report
        self._settling = False
        self._outcomes: list[Callable[[], None]] = []  # of appends, not yet told to the coordinator, in their order
        self._timer: TimerHandle | None = None
        self._timer_ms: int | None = None
        self._stopped = False

    # -- the group APIs; see GroupCoordinator for their meaning

    def join(self, request: JoinGroupRequest, ctx: RequestContext) -> JoinGroupResponse | None:
        answer = self.coordinator.join(request, ctx, *self._now())
        self.members.joined(request, ctx, answer)
        self.settle()
        return answer

    def sync(self, request: SyncGroupRequest, ctx: RequestContext) -> SyncGroupResponse | None:
        answer = self.coordinator.sync(request, ctx, *self._now())
        self.settle()
        return answer

    def leave(self, request: LeaveGroupRequest, ctx: RequestContext) -> LeaveGroupResponse | None:
        answer = self.coordinator.leave(request, ctx, *self._now())
        self.settle()
        return answer

    def commit_offsets(
        self, request: OffsetCommitRequest, ctx: RequestContext, refused: Refusals
    ) -> OffsetCommitResponse | None:
        answer = self.coordinator.commit_offsets(request, ctx, *self._now(), refused)
        self.settle()
        return answer

    def commit_transactional_offsets(
        self, request: TxnOffsetCommitRequest, ctx: RequestContext, refused: Refusals, verified: object | None
    ) -> TxnOffsetCommitResponse | None:
        answer = self.coordinator.commit_transactional_offsets(request, ctx, *self._now(), refused, verified)
        self.settle()
        return answer

    def fetch_offsets(
        self, request: OffsetFetchRequest, ctx: RequestContext, topic_ids: TopicIds
    ) -> OffsetFetchResponse | None:
        answer = self.coordinator.fetch_offsets(request, ctx, self._clock.monotonic_ms(), topic_ids)
        self.settle()
        return answer

    def delete_offsets(
        self, request: OffsetDeleteRequest, ctx: RequestContext, refused: Refusals
    ) -> OffsetDeleteResponse | None:
        answer = self.coordinator.delete_offsets(request, ctx, *self._now(), refused)
        self.settle()
        return answer

    def delete_groups(self, request: DeleteGroupsRequest, ctx: RequestContext) -> DeleteGroupsResponse | None:
        answer = self.coordinator.delete_groups(request, ctx, *self._now())
        self.settle()
        return answer

    def describe_groups(self, request: DescribeGroupsRequest, ctx: RequestContext) -> DescribeGroupsResponse:
        return self.coordinator.describe_groups(request, ctx, self._clock.monotonic_ms())

    def list_groups(self, request: ListGroupsRequest, ctx: RequestContext) -> ListGroupsResponse:
        return self.coordinator.list_groups(request, ctx, self._clock.monotonic_ms())

    def topic_deleted(self, topic: str, topic_id: UUID = ZERO_UUID) -> None:
        """Every group forgets its offsets of a deleted topic, but not those of another one of that name."""
        self.coordinator.topic_deleted(topic, *self._now(), topic_id)
        self.settle()

    # -- transactions

    def write_marker(self, tp: TopicPartition, marker: TransactionMarker, settled: Settled) -> None:
        """End the transaction of a producer in a partition.

        ``settled`` is called once, maybe at once: with the marker's offset when it is durable and pending offsets were
        committed or dropped; UNKNOWN_TOPIC_OR_PARTITION if there is no such partition; INVALID_PRODUCER_EPOCH or
        TRANSACTION_COORDINATOR_FENCED for a marker that comes too late; KAFKA_STORAGE_ERROR if nothing was written.
        """
        partition = self._partition(tp)
        if partition is None:
            settled(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif partition.offline:
            settled(-1, ErrorCode.KAFKA_STORAGE_ERROR)
        else:
            if tp.topic == OFFSETS_TOPIC:
                self._appends.flush(tp.partition)
            try:
                partition.append_marker(marker, self._clock.wall_ms(), partial(self._marked, tp, marker, settled))
            except EngineError as error:
                self._report.error("a transaction marker was refused", reason=str(error))
                settled(-1, ErrorCode.KAFKA_STORAGE_ERROR)

    def _marked(
        self, tp: TopicPartition, marker: TransactionMarker, settled: Settled, offset: int, error: ErrorCode
    ) -> None:
        self._outcomes.append(partial(self._transaction_ended, tp, marker, settled, offset, error))
        self.settle()

    def _transaction_ended(
        self, tp: TopicPartition, marker: TransactionMarker, settled: Settled, offset: int, error: ErrorCode
    ) -> None:
        if not error:
            if tp.topic == OFFSETS_TOPIC:
                self.coordinator.transaction_ended(tp.partition, marker.producer_id, marker.commit, *self._now())
            self.fetches.touched(tp)  # the last stable offset has moved, by more than the marker's own bytes
        settled(offset, error)

    # -- parked fetches

    def park(self, parked: Parked) -> None:
        """Keep a fetch until records come or its time is up."""
        self.fetches.park(parked)
        if not self._settling:
            self._arm()

    def drop(self, parked: Parked) -> None:
        """Forget a fetch whose connection is gone."""
        self.fetches.drop(parked)

    # -- from the storage

    def appended(self, tp: TopicPartition, size_bytes: int) -> None:
        """A high watermark has moved: fetches that wait for the partition may have enough now."""
        if not self.fetches.watches(tp):
            return
        partition = self._partition(tp)
        if partition is not None:
            self.fetches.appended(tp, size_bytes, partition.last_stable_offset)
        if self.fetches.effects:
            self.settle()

    def touched(self, tp: TopicPartition) -> None:
        """A log was trimmed or deleted: who waits for it must look again."""
        self.fetches.touched(tp)
        if self.fetches.effects:
            self.settle()

    # -- loading

    def load(self, partition: int) -> None:
        """Replay a partition of ``__consumer_offsets`` and take its shard over.

        Raises:
            ottla.broker.engine.Corrupt, BatchError: what was acknowledged cannot be read.
            ottla.protocol.errors.MalformedFrame: a record of ours does not parse.
        """
        served = self._offsets(partition)
        log = served.log
        now_ms, wall_ms = self._now()
        self.coordinator.load_started(partition, now_ms)
        offset = log.log_start_offset
        while offset < log.high_watermark and (batches := log.read(offset, max_bytes=LOAD_BYTES)):
            for header, batch in iter_batches(batches):
                if not offset <= header.last_offset < log.high_watermark:
                    # The CRC does not cover offsets.
                    raise CorruptBatch(f"offset {header.last_offset} where {offset} or more was due")
                offset = served.replay(batch, wall_ms)
                self._replay(partition, header, batch)
        self.coordinator.loaded(partition, *self._now())
        self.settle()

    def _replay(self, partition: int, header: BatchHeader, batch: Buffer) -> None:
        if header.is_control:
            if (end := parse_marker(batch)) is not None:
                self.coordinator.transaction_ended(partition, header.producer_id, end.commit, *self._now())
            return
        producer_id = header.producer_id if header.is_transactional else -1
        for record in decode_batch(batch) if header.record_count else ():
            if record.key is None:
                raise MalformedFrame(f"{OFFSETS_TOPIC}-{partition}: the record at {record.offset} has no key")
            stored = CoordinatorRecord(record.key, record.value)
            if not self.coordinator.replay(partition, stored, record.offset, producer_id):
                raise MalformedFrame(f"{OFFSETS_TOPIC}-{partition}: the record at {record.offset} cannot be read")

    def _offsets(self, partition: int) -> Partition:
        """A partition of ``__consumer_offsets``, which is always there."""
        served = self._partition(TopicPartition(OFFSETS_TOPIC, partition))
        assert served is not None
        return served

    def stop(self) -> None:
        """Give all shards up: parked requests are answered NOT_COORDINATOR, and no timer fires any more."""
        self._appends.flush_all()
        for partition in range(self._partition_count):
            self.coordinator.unload(partition, *self._now())
        for parked in self.fetches.take_all():
            parked.expired = True
            self._look_again(parked)
        self.settle()
        self.silence()

    def silence(self) -> None:
        """Let no timer fire any more."""
        self._stopped = True
        self.members.forget()
        if self._timer is not None:
            self._timer.cancel()

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
                        self._appends.add(effect)
                    else:
                        self._reply(effect)  # type: ignore[arg-type]
                wakes = self.fetches.take_effects()
                for wake in wakes:
                    self._look_again(wake.parked)
                outcomes, self._outcomes = self._outcomes, []
                for outcome in outcomes:
                    outcome()
                if not (self._outcomes or self.coordinator.has_effects or self.fetches.effects):
                    break
        finally:
            self._settling = False
            self._arm()

    def _reply(self, reply: Reply) -> None:
        try:
            reply.ctx.reply(reply.response)  # type: ignore[attr-defined]
        except Exception:  # a bug in one answer must not keep the others from theirs
            self._report.error("an answer could not be sent", exc_info=True)

    def _look_again(self, parked: Parked) -> None:
        try:
            self._answer_fetch(parked)
        except Exception:  # what it holds and how far it was answered is not known here
            self._report.error("a woken fetch failed", exc_info=True)
            parked.ctx.close("a fetch failed while it waited")

    def _written(self, tokens: list[object], error: ErrorCode) -> None:
        """Writes are over: the coordinator hears of them in their order, and not within one of its own entries."""
        self._outcomes.append(partial(self._tell, tokens, error))
        self.settle()

    def _tell(self, tokens: list[object], error: ErrorCode) -> None:
        now_ms, wall_ms = self._now()
        for token in tokens:
            self.coordinator.appended(token, error, now_ms, wall_ms)

    def _now(self) -> tuple[int, int]:
        return self._clock.monotonic_ms(), self._clock.wall_ms()

    def _arm(self) -> None:
        if self._stopped:
            return
        groups_ms, fetches_ms = self.coordinator.next_deadline_ms(), self.fetches.next_deadline_ms()
        when_ms = groups_ms if fetches_ms is None else fetches_ms if groups_ms is None else min(groups_ms, fetches_ms)
        if when_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = when_ms
        self._timer = None if when_ms is None else self._clock.call_at(when_ms, self._ring)

    def _ring(self) -> None:
        self._timer = self._timer_ms = None
        now_ms, wall_ms = self._now()
        try:
            self.coordinator.advance(now_ms, wall_ms)
        except Exception:  # a bug in one deadline: the others are still due, and are handled by the next ring
            self._report.error("a deadline of a group failed", exc_info=True)
        self.fetches.advance(now_ms)
        self.settle()
