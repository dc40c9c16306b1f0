"""Producers of the simulation: what an application does, request by request, and what it was told."""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import TopicWithPartitions
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.records import Record, build_batch

if TYPE_CHECKING:
    from tests.core.transactions.txn_sim import World

E = ErrorCode
TOPIC = "t"
PARTITIONS = 2
RETRIED = frozenset({
    E.CONCURRENT_TRANSACTIONS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS,
    E.NOT_ENOUGH_REPLICAS, E.KAFKA_STORAGE_ERROR, E.NETWORK_EXCEPTION, E.UNKNOWN_TOPIC_OR_PARTITION,
})  # fmt: skip


class Broken(AssertionError):
    """A promise was not kept."""


@dataclass
class Plan:
    """What kind of world it is; chances are out of 1000 for each step."""

    seed: int
    steps: int = 500
    ids: int = 2
    v2: bool = False
    crashes: int = 8
    losses: int = 20
    faults: int = 0
    marker_faults: int = 30
    deaths: int = 10
    timeout_ms: int = 60_000
    survives: bool = True  # of what was not acknowledged, some may be there after a crash

    @classmethod
    def draw(cls, seed: int) -> Plan:
        draw = random.Random(f"transactions/{seed}")
        return cls(
            seed=seed,
            steps=draw.choice([200, 500, 900]),
            ids=draw.choice([1, 1, 2, 3]),
            v2=draw.random() < 0.5,
            crashes=draw.choice([0, 5, 15, 30]),
            losses=draw.choice([0, 20, 60]),
            faults=draw.choice([0, 0, 10, 40]),
            marker_faults=draw.choice([0, 50, 200]),
            deaths=draw.choice([0, 10, 30]),
            timeout_ms=draw.choice([60_000, 60_000, 2_000]),
            survives=draw.random() < 0.5,
        )


@dataclass
class Txn:
    """One transaction as its producer saw it: values by partition, and what it was told.

    The offset that it commits for its group is its number.
    """

    number: int
    group: str
    values: dict[int, list[str]] = field(default_factory=dict)
    confirmed: set[str] = field(default_factory=set)
    has_offset: bool = False  # and it was confirmed
    asked_to: str = ""
    told: str = ""


Call = tuple[ApiKey, int, Any]
Script = Generator[Call, Any, None]
LOST = object()


class App:
    """One run of an application: a producer with a transactional id, and the transactions it made."""

    def __init__(self, world: World, number: int, name: str) -> None:
        self.world = world
        self.number = number
        self.name = name
        self.identity = (-1, -1)
        self.begun_at = -1  # when its last InitProducerId was answered
        self.sequences: dict[int, int] = {}
        self.call: Call | None = None
        self.serial = 0
        self.over = False
        self.script = self._live()
        self._go(None)

    def _go(self, answer: Any) -> None:
        try:
            self.call = self.script.send(answer)
        except StopIteration:
            self.call, self.over = None, True
            return
        self.serial += 1
        self.world.send(self)

    def answered(self, serial: int, answer: Any) -> None:
        if serial == self.serial and not self.over:
            self._go(answer)

    def _live(self) -> Script:
        if not (yield from self._init()):
            return
        while True:
            if not (yield from self._transaction()):
                return

    def _init(self, **expected: int) -> Generator[Call, Any, bool]:
        while True:
            request = InitProducerIdRequest(
                transactional_id=self.name, transaction_timeout_ms=self.world.plan.timeout_ms, **expected
            )
            answer = yield ApiKey.INIT_PRODUCER_ID, 5, request
            if answer is LOST or answer.error_code in RETRIED:
                continue
            if answer.error_code:
                return False
            self.identity = answer.producer_id, answer.producer_epoch
            self.sequences = {}
            self.world.given(self)
            return True

    def _transaction(self) -> Generator[Call, Any, bool]:
        world, txn = self.world, self.world.new_txn(f"g-{self.name}")
        for _ in range(world.random.randint(0 if world.plan.v2 else 1, 3)):
            partition = world.random.randrange(PARTITIONS)
            error = yield from self._write(txn, partition)
            if error:
                return (yield from self._after(error))
        if txn.values and world.random.random() < 0.5:
            error = yield from self._commit_offset(txn)
            if error:
                return (yield from self._after(error))
        commit = world.random.random() < 0.7 and bool(txn.values)
        txn.asked_to = "commit" if commit else "abort"
        error = yield from self._end(txn, commit)
        return not error or (yield from self._after(error))

    def _write(self, txn: Txn, partition: int) -> Generator[Call, Any, ErrorCode]:
        world = self.world
        if not world.plan.v2:
            while True:
                answer = yield ApiKey.ADD_PARTITIONS_TO_TXN, 3, self._add(partition)
                if answer is LOST:
                    continue
                error = E(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
                if error not in RETRIED:
                    break
            if error:
                return error
        values = [f"{txn.number}.{partition}.{len(txn.values.get(partition, ()))}.{i}" for i in range(2)]
        txn.values.setdefault(partition, []).extend(values)
        sequence = self.sequences.get(partition, 0)
        request = self._produce(partition, values, sequence)
        while True:
            answer = yield ApiKey.PRODUCE, 12 if world.plan.v2 else 9, request
            if answer is LOST:
                continue
            error = E(answer.responses[0].partition_responses[0].error_code)
            if error not in RETRIED:
                break
        if error:
            return error
        txn.confirmed.update(values)
        self.sequences[partition] = sequence + len(values)
        return E.NONE

    def _commit_offset(self, txn: Txn) -> Generator[Call, Any, ErrorCode]:
        v2 = self.world.plan.v2
        who: dict[str, Any] = {
            "transactional_id": self.name,
            "producer_id": self.identity[0],
            "producer_epoch": self.identity[1],
            "group_id": txn.group,
        }
        while not v2:
            answer = yield ApiKey.ADD_OFFSETS_TO_TXN, 3, AddOffsetsToTxnRequest(**who)
            if answer is not LOST and answer.error_code not in RETRIED:
                if answer.error_code:
                    return E(answer.error_code)
                break
        rows = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=txn.number)]
        request = TxnOffsetCommitRequest(**who, topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=rows)])
        while True:
            answer = yield ApiKey.TXN_OFFSET_COMMIT, 5 if v2 else 3, request
            if answer is LOST:
                continue
            error = E(answer.topics[0].partitions[0].error_code)
            if error not in RETRIED:
                txn.has_offset = not error
                return error

    def _end(self, txn: Txn, commit: bool) -> Generator[Call, Any, ErrorCode]:
        producer_id, epoch = self.identity
        asked_at = self.world.now
        while True:
            request = EndTxnRequest(
                transactional_id=self.name, producer_id=producer_id, producer_epoch=epoch, committed=commit
            )
            answer = yield ApiKey.END_TXN, 5 if self.world.plan.v2 else 4, request
            if answer is LOST or answer.error_code in RETRIED:
                continue
            error = E(answer.error_code)
            break
        if not error:
            txn.told = txn.asked_to
            self.world.ended(self, txn, asked_at)
            if self.world.plan.v2:
                self.identity = answer.producer_id, answer.producer_epoch
                self.sequences = {}
        return error

    def _after(self, error: ErrorCode) -> Generator[Call, Any, bool]:
        """Whether it goes on after an error: fenced ones end, others ask for a new epoch of their id (KIP-360)."""
        if error in (E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_ID_MAPPING):
            return False
        return (yield from self._init(producer_id=self.identity[0], producer_epoch=self.identity[1]))

    def _add(self, partition: int) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.identity[0],
            v3_and_below_producer_epoch=self.identity[1],
            v3_and_below_topics=[TopicWithPartitions(name=TOPIC, partitions=[partition])],
        )

    def _produce(self, partition: int, values: list[str], sequence: int) -> ProduceRequest:
        batch = build_batch(
            [Record(0, self.world.wall_ms(), None, value.encode()) for value in values],
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        rows = [PartitionProduceData(index=partition, records=batch)]
        topics = [TopicProduceData(name=TOPIC, partition_data=rows)]
        return ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=1_000, topic_data=topics)
