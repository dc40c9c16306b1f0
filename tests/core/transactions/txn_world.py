"""A transaction coordinator with its log, partitions and time in the hands of a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ottla.broker.core.effects import Append, Reply, WriteMarker
from ottla.broker.core.transactions.config import TransactionConfig
from ottla.broker.core.transactions.coordinator import TransactionCoordinator
from ottla.broker.core.transactions.requests import Question
from ottla.broker.core.transactions.transaction import Snapshot
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import TopicWithPartitions
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.records import TopicPartition
from tests.core.durable import durable_transactions

NONE = ErrorCode.NONE
WALL_MS = 1_700_000_000_000
T0, T1, T2 = (TopicPartition("t", index) for index in range(3))
OFFSETS = TopicPartition("__consumer_offsets", 7)
PARTITIONS = 3


class Asked:
    """One request; ``answer`` is None until it is answered, which happens once."""

    client_id = "c"
    client_host = "/127.0.0.1"
    encoded = b""

    def __init__(self, api_version: int) -> None:
        self.api_version = api_version
        self.answer: Any = None

    def take(self, answer: Any) -> None:
        if answer is not None:
            assert self.answer is None, "answered twice"
            self.answer = answer

    @property
    def error(self) -> ErrorCode:
        assert self.answer is not None, "not answered"
        return ErrorCode(self.answer.error_code)

    @property
    def identity(self) -> tuple[ErrorCode, int, int]:
        """What InitProducerId and EndTxn answer."""
        return self.error, self.answer.producer_id, self.answer.producer_epoch

    @property
    def codes(self) -> list[ErrorCode]:
        """What AddPartitionsToTxn answers, in the order of the request."""
        assert self.answer is not None, "not answered"
        if self.api_version < 4:
            topics = self.answer.results_by_topic_v3_and_below
        else:
            topics = [topic for row in self.answer.results_by_transaction for topic in row.topic_results]
        return [ErrorCode(row.partition_error_code) for topic in topics for row in topic.results_by_partition]


class World:
    """Appends and markers wait for `settle` unless ``prompt``."""

    def __init__(self, *, prompt: bool = True, **config: int) -> None:
        self.config = replace(TransactionConfig(), **config)
        self.prompt = prompt
        self.now_ms = 1_000
        self.wall_ms = WALL_MS
        self.log: list[list[CoordinatorRecord]] = [[] for _ in range(PARTITIONS)]
        self.appends: list[Append] = []
        self.markers: list[WriteMarker] = []
        self.written: list[WriteMarker] = []
        self.notes: list[str] = []
        self.next_id = 100
        self.ids_left = 1_000_000
        self.start()

    def start(self) -> None:
        self.coordinator = TransactionCoordinator(self.config, self.take_id, PARTITIONS, self.note)
        self.coordinator.start(self.now_ms)
        for partition, records in enumerate(self.log):
            load(self.coordinator, partition, records, *self.now)
        self.take()

    def restart(self) -> None:
        """The process is killed; what was not durable is lost."""
        self.appends.clear()
        self.markers.clear()
        self.start()

    def take_id(self) -> int | None:
        if not self.ids_left:
            return None
        self.ids_left -= 1
        self.next_id += 1
        return self.next_id

    def note(self, event: str, **fields: Any) -> None:
        self.notes.append(event)

    @property
    def now(self) -> tuple[int, int]:
        return self.now_ms, self.wall_ms

    def take(self) -> None:
        for effect in self.coordinator.take_effects():
            if isinstance(effect, Append):
                self.appends.append(effect)
            elif isinstance(effect, WriteMarker):
                self.markers.append(effect)
            else:
                assert isinstance(effect, Reply)
                effect.ctx.take(effect.response)  # type: ignore[attr-defined]
        if self.prompt:
            self.settle()

    def append(self, error: ErrorCode = NONE) -> Append:
        """The oldest append becomes durable, or fails."""
        effect = self.appends.pop(0)
        if not error:
            self.log[effect.partition].extend(effect.records)
        self.coordinator.appended(effect.token, error, *self.now)
        self.take()
        self.check()
        return effect

    def mark(self, error: ErrorCode = NONE, at: int = 0) -> WriteMarker:
        """A marker is written, or fails."""
        effect = self.markers.pop(at)
        if not error:
            self.written.append(effect)
        self.coordinator.marker_written(effect.token, error, *self.now)
        self.take()
        return effect

    def settle(self) -> None:
        """Everything under way succeeds."""
        while self.appends or self.markers:
            if self.appends:
                self.append()
            else:
                self.mark()

    def check(self) -> None:
        """What the log says is what memory says."""
        other = TransactionCoordinator(self.config, lambda: None, PARTITIONS)
        for partition, records in enumerate(self.log):
            load(other, partition, records, *self.now)
        mine = {
            name: replace(tx, last_producer_epoch=-1) for name, tx in durable_transactions(self.coordinator).items()
        }
        assert mine == durable_transactions(other)
        served = [shard for shard in self.coordinator.shards if not shard.refusal]
        held = sum(entry.held_bytes for shard in served for entry in shard.entries.values())
        assert self.coordinator.held_bytes == held

    def advance(self, ms: int) -> None:
        """Time passes, and the coordinator is called at each of its deadlines."""
        end = self.now_ms + ms
        while (due := self.coordinator.next_deadline_ms()) is not None and due <= end:
            self._move_to(max(due, self.now_ms))
            self.coordinator.advance(*self.now)
            self.take()
        self._move_to(end)

    def _move_to(self, at_ms: int) -> None:
        self.wall_ms += at_ms - self.now_ms
        self.now_ms = at_ms

    # Requests

    def init(
        self, name: str = "x", version: int = 5, timeout_ms: int = 60_000, expected: tuple[int, int] = (-1, -1)
    ) -> Asked:
        asked = Asked(version)
        request = InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        asked.take(self.coordinator.init_producer_id(request, asked, *self.now))
        self.take()
        return asked

    def add(
        self,
        who: tuple[int, int],
        *tps: TopicPartition,
        name: str = "x",
        version: int = 3,
        verify: bool = False,
        refused: Sequence[TopicPartition] = (),
    ) -> Asked:
        topics: dict[str, list[int]] = {}
        for tp in tps or (T0,):
            topics.setdefault(tp.topic, []).append(tp.partition)
        rows = [TopicWithPartitions(name=topic, partitions=indexes) for topic, indexes in topics.items()]
        if version < 4:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=who[0],
                v3_and_below_producer_epoch=who[1],
                v3_and_below_topics=rows,
            )
        else:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=name, producer_id=who[0], producer_epoch=who[1], verify_only=verify, topics=rows
            )
            request = AddPartitionsToTxnRequest(transactions=[transaction])
        return self.add_request(request, version, refused)

    def add_request(
        self, request: AddPartitionsToTxnRequest, version: int, refused: Sequence[TopicPartition] = ()
    ) -> Asked:
        asked = Asked(version)
        codes = dict.fromkeys(refused, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        asked.take(self.coordinator.add_partitions(request, asked, *self.now, codes))
        self.take()
        return asked

    def add_offsets(self, who: tuple[int, int], name: str = "x", version: int = 4) -> Asked:
        asked = Asked(version)
        request = AddOffsetsToTxnRequest(transactional_id=name, producer_id=who[0], producer_epoch=who[1], group_id="g")
        asked.take(self.coordinator.add_offsets(request, asked, *self.now, OFFSETS))
        self.take()
        return asked

    def end(self, who: tuple[int, int], commit: bool = True, name: str = "x", version: int = 4) -> Asked:
        asked = Asked(version)
        request = EndTxnRequest(transactional_id=name, producer_id=who[0], producer_epoch=who[1], committed=commit)
        asked.take(self.coordinator.end(request, asked, *self.now))
        self.take()
        return asked

    def verify(self, who: tuple[int, int], *tps: TopicPartition, name: str = "x", adds: bool = False) -> Asked:
        asked = Asked(0)
        asked.take(self.coordinator.verify(Question(name, *who, tps, adds), asked, *self.now))
        self.take()
        return asked

    def describe(self, name: str = "x") -> Any:
        request = DescribeTransactionsRequest(transactional_ids=[name])
        (row,) = self.coordinator.describe(request, Asked(0), *self.now).transaction_states
        return row

    def state(self, name: str = "x") -> str:
        row = self.describe(name)
        return row.transaction_state if not row.error_code else ErrorCode(row.error_code).name

    def list(self, **filters: Any) -> Any:
        return self.coordinator.list(ListTransactionsRequest(**filters), Asked(0), *self.now)

    def snapshot(self, name: str = "x") -> Snapshot:
        return durable_transactions(self.coordinator)[name]

    # Shorthands

    def producer(self, name: str = "x", **options: Any) -> tuple[int, int]:
        """A producer that has just begun: its id and epoch."""
        answer = self.init(name, **options).answer
        assert not answer.error_code, ErrorCode(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    def open(self, *tps: TopicPartition, name: str = "x", version: int = 3, **options: Any) -> tuple[int, int]:
        """A producer with an open transaction."""
        who = self.producer(name, **options)
        assert set(self.add(who, *tps, name=name, version=version).codes) == {NONE}
        return who

    def at_epoch(self, epoch: int, *, name: str = "x", **changes: Any) -> tuple[int, int]:
        """Let the log say that an id has an epoch that would take long to reach; returns the producer."""
        who = self.producer(name)
        tx = replace(self.snapshot(name), producer_epoch=epoch, **changes)
        from ottla.broker.core.transactions.records import record

        shard = next(index for index, records in enumerate(self.log) if any(name in str(r.key) for r in records))
        self.log[shard].append(record(name, tx))
        self.restart()
        return who[0], epoch


def load(coordinator: TransactionCoordinator, partition: int, records: Any, now_ms: int, wall_ms: int) -> None:
    """Take a partition over whose log has these records."""
    coordinator.load_started(partition, now_ms, 5)
    for offset, record in enumerate(records):
        coordinator.replay(partition, record, offset)
    coordinator.loaded(partition, now_ms, wall_ms)


def markers_of(world: World) -> list[tuple[TopicPartition, int, int, bool]]:
    """Partition, producer id, epoch and whether it commits, of the markers that were written."""
    return [
        (each.tp, each.marker.producer_id, each.marker.producer_epoch, each.marker.commit) for each in world.written
    ]
