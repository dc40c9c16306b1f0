"""Producers of the exactly-once world: what an application does, request by request, and what it was told."""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record
from tests.sim.kernel import Broken
from tests.support.batches import build_batch
from tests.support.requests import (
    add_partitions_fields,
    init_producer_fields,
    of_transaction,
    produce_fields,
    request,
    txn_commit_fields,
)

if TYPE_CHECKING:
    from tests.sim.exactly_once_world import World

E = ErrorCode
TOPICS = ("t", "u")
PARTITIONS = 2
RETRIED = frozenset({
    E.CONCURRENT_TRANSACTIONS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR, E.COORDINATOR_LOAD_IN_PROGRESS,
    E.NOT_ENOUGH_REPLICAS, E.KAFKA_STORAGE_ERROR, E.NETWORK_EXCEPTION, E.UNKNOWN_TOPIC_OR_PARTITION,
})  # fmt: skip
"""Errors that a client answers with the same request."""

FENCED = (E.PRODUCER_FENCED, E.INVALID_PRODUCER_EPOCH, E.INVALID_PRODUCER_ID_MAPPING)
HEARD = (*FENCED, E.INVALID_TXN_STATE, E.TRANSACTION_ABORTABLE, E.OUT_OF_ORDER_SEQUENCE_NUMBER)
"""Errors that a good request may hear: somebody else has taken over, or the transaction has timed out."""

V2_FROM = 12
"""The version of Produce whose speakers have transaction version 2 (KIP-890)."""


@dataclass
class Plan:
    """The kind of world; chances are out of 1000 for each step."""

    seed: int
    steps: int = 500
    ids: int = 2
    versions: tuple[int, ...] = (9, 11)
    """Of Produce: each application has one."""
    crashes: int = 8
    losses: int = 20
    faults: int = 0
    marker_faults: int = 30
    deaths: int = 10
    leaps: int = 0
    timeout_ms: int = 60_000
    survives: bool = True  # of what was not acknowledged, some may be there after a crash

    @classmethod
    def draw(cls, seed: int) -> Plan:
        draw = random.Random(f"transactions/{seed}")
        return cls(
            seed=seed,
            steps=draw.choice([200, 500, 900]),
            ids=draw.choice([1, 1, 2, 3]),
            versions=draw.choice([(9, 11), (9, 11), (12,), (12,), (9, 11, 12)]),
            crashes=draw.choice([0, 5, 15, 30]),
            losses=draw.choice([0, 20, 60]),
            faults=draw.choice([0, 0, 10, 40]),
            marker_faults=draw.choice([0, 50, 200]),
            deaths=draw.choice([0, 10, 30]),
            leaps=draw.choice([0, 0, 10]),
            timeout_ms=draw.choice([60_000, 60_000, 20_000, 2_000]),
            survives=draw.random() < 0.5,
        )


@dataclass
class Txn:
    """One transaction as its producer saw it: the values that it wrote, and what it was told.

    The offset that it commits for its group is its number.
    """

    number: int
    group: str
    values: list[str] = field(default_factory=list)
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
        self.version = world.random.choice(world.plan.versions)
        self.v2 = self.version >= V2_FROM
        self.identity = (-1, -1)
        self.begun_at = -1  # when its last InitProducerId was answered
        self.sequences: dict[tuple[str, int], int] = {}
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
        self.world.hand_over(self)

    def answered(self, serial: int, answer: Any) -> None:
        if serial == self.serial and not self.over:
            self._go(answer)

    def _live(self) -> Script:
        goes_on = yield from self._init()
        while goes_on:
            goes_on = yield from self._transaction()

    def _insist(self, key: ApiKey, version: int, fields: dict[str, Any]) -> Generator[Call, Any, tuple[ErrorCode, Any]]:
        """Ask until the answer is another than to ask again; its error, and the answer."""
        while True:
            answer = yield key, version, request(key, fields)
            if answer is not LOST and (error := _error_of(answer)) not in RETRIED:
                if error and error not in HEARD:
                    raise Broken(f"a good {key.name} hears {error.name}")
                return error, answer

    def _init(self, expected: tuple[int, int] = (-1, -1)) -> Generator[Call, Any, bool]:
        fields = init_producer_fields(self.name, timeout_ms=self.world.plan.timeout_ms, expected=expected)
        error, answer = yield from self._insist(ApiKey.INIT_PRODUCER_ID, 5, fields)
        if error:
            return False
        self.identity = answer.producer_id, answer.producer_epoch
        self.sequences = {}
        self.world.given(self)
        return True

    def _transaction(self) -> Generator[Call, Any, bool]:
        world, txn = self.world, self.world.new_txn(f"g-{self.name}")
        for _ in range(world.random.randint(0 if self.v2 else 1, 3)):
            topic, partition = world.random.choice(TOPICS), world.random.randrange(PARTITIONS)
            error = yield from self._write(txn, topic, partition)
            if error:
                return (yield from self._after(error))
        if world.random.random() < 0.5:
            error = yield from self._commit_offset(txn)
            if error:
                return (yield from self._after(error))
        commit = world.random.random() < 0.7 and (bool(txn.values) or txn.has_offset)
        txn.asked_to = "commit" if commit else "abort"
        error = yield from self._end(txn, commit)
        return not error or (yield from self._after(error))

    def _write(self, txn: Txn, topic: str, partition: int) -> Generator[Call, Any, ErrorCode]:
        if not self.v2:
            fields = add_partitions_fields(of_transaction(self.name, self.identity), [(topic, partition)])
            error, _ = yield from self._insist(ApiKey.ADD_PARTITIONS_TO_TXN, 3, fields)
            if error:
                return error
        values = [f"{txn.number}.{topic}.{partition}.{len(txn.values)}.{i}" for i in range(2)]
        txn.values += values
        sequence = self.sequences.get((topic, partition), 0)
        batch = build_batch(
            [Record(0, self.world.wall, None, value.encode()) for value in values],
            producer_id=self.identity[0],
            producer_epoch=self.identity[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        fields = produce_fields(topic, batch, partition, transactional_id=self.name, timeout_ms=1_000)
        error, _ = yield from self._insist(ApiKey.PRODUCE, self.version, fields)
        if not error:
            txn.confirmed.update(values)
            self.sequences[topic, partition] = sequence + len(values)
        return error

    def _commit_offset(self, txn: Txn) -> Generator[Call, Any, ErrorCode]:
        if not self.v2:
            fields = of_transaction(self.name, self.identity) | {"group_id": txn.group}
            error, _ = yield from self._insist(ApiKey.ADD_OFFSETS_TO_TXN, 3, fields)
            if error:
                return error
        fields = txn_commit_fields(self.name, self.identity, txn.group, [(TOPICS[0], 0, txn.number)])
        error, _ = yield from self._insist(ApiKey.TXN_OFFSET_COMMIT, 5 if self.v2 else 3, fields)
        txn.has_offset = not error
        return error

    def _end(self, txn: Txn, commit: bool) -> Generator[Call, Any, ErrorCode]:
        asked_at = self.world.now_ms
        fields = of_transaction(self.name, self.identity) | {"committed": commit}
        error, answer = yield from self._insist(ApiKey.END_TXN, 5 if self.v2 else 4, fields)
        if not error:
            txn.told = txn.asked_to
            self.world.ended(self, txn, asked_at)
            if self.v2:
                self.identity = answer.producer_id, answer.producer_epoch
                self.sequences = {}
        return error

    def _after(self, error: ErrorCode) -> Generator[Call, Any, bool]:
        """Go on after an error, if that is allowed: a fenced producer ends, others ask for a new epoch (KIP-360)."""
        if error in FENCED:
            return False
        return (yield from self._init(self.identity))


def _error_of(answer: Any) -> ErrorCode:
    """The error of an answer that is about one thing."""
    match type(answer).__name__:
        case "AddPartitionsToTxnResponse":
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        case "ProduceResponse":
            code = answer.responses[0].partition_responses[0].error_code
        case "TxnOffsetCommitResponse":
            code = answer.topics[0].partitions[0].error_code
        case _:
            code = answer.error_code
    return E(code)
