"""One partition under producers with transactions: appends are slow and fail, the broker crashes, logs are trimmed.

Producers and their coordinators are models that do what real ones do: batches in order, sent again after a failure,
markers until they are written. What the partition says is held against the batches in the log, looked at naively.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from uuid import UUID

from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.core.topics.partition import Partition, Topic
from ottla.broker.core.topics.producers import TransactionMarker
from ottla.broker.core.topics.snapshot import restore, take
from ottla.broker.core.topics.transactions import Verification
from ottla.broker.engine import EngineError, LogConfig, Unavailable
from ottla.broker.settings import Settings
from ottla.broker.storage.memory import MemoryEngine, MemoryLog
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import (
    BatchError,
    BatchHeader,
    Record,
    TopicPartition,
    decode_batch,
    iter_batches,
    parse_marker,
)
from tests.sim.kernel import Broken, expect, run_now
from tests.support.batches import build_batch
from tests.support.client import committed_values

TOPIC_ID = UUID(int=1)
WALL_MS = 1_700_000_000_000


@dataclass
class Sent:
    """A batch that a producer has sent and not heard of."""

    data: bytes
    sequence: int
    is_waiting: bool = False


@dataclass
class Producer:
    """A transactional producer and what its coordinator knows. ``ending`` is the marker that must be written."""

    producer_id: int
    version: int
    epoch: int = 0
    sequence: int = 0
    takes_part: bool = False
    sent: list[Sent] = field(default_factory=list)
    ending: TransactionMarker | None = None
    marker_waits: bool = False
    stale: list[Verification] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)


@dataclass
class Ended:
    """A transaction of the log: its first offset, its marker's, and whether it was aborted."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class PartitionWorld:
    """See the module. ``simulate`` takes random steps and raises `Broken` at the first one that goes wrong."""

    def __init__(self, seed: int, steps: int = 120) -> None:
        self.rng = Random(f"partition {seed}")
        self.steps = steps
        self.queue: list[Any] = []
        self.engine = MemoryEngine(new_uuid=lambda: TOPIC_ID, call_soon=self.queue.append, fault=self._fault)
        self.failing = self.rng.random() < 0.6
        self.trims = self.rng.random() < 0.3
        self.producers = [Producer(index, self.rng.choice((1, 2))) for index in range(self.rng.randint(1, 4))]
        self.epoch = 0  # of the coordinator
        self.life = 0
        self.fate: dict[bytes, bool] = {}
        self.count = 0
        self._open()

    # The broker's life

    def _open(self) -> None:
        run_now(self.engine.open())
        topic = Topic("t", TOPIC_ID, is_internal=False, overrides={}, config=TopicConfig.of({}, Settings()))
        log = run_now(self.engine.open_log("t", TOPIC_ID, 0, LogConfig()))
        assert isinstance(log, MemoryLog)
        self.log = log
        self.partition = topic.add_partition(log)

    def _fault(self, tp: TopicPartition, base_offset: int) -> EngineError | None:
        return Unavailable("failed") if self.failing and self.rng.random() < 0.15 else None

    def rebuilt(self, snapshot: dict[str, Any] | None = None) -> Partition:
        """The partition as a start would make it."""
        partition = Partition(self.partition.topic, 0, self.log)
        offset = self.log.log_start_offset
        if snapshot is not None:
            offset = restore(partition, json.loads(json.dumps(snapshot)))
        for _, batch in iter_batches(self.log.read(offset, max_bytes=1 << 30)):
            partition.replay(batch, WALL_MS)
        return partition

    def crash(self) -> None:
        snapshot = take(self.partition) if self.rng.random() < 0.5 else None
        self.engine.abandon()
        self.queue.clear()
        self.life += 1
        self.epoch += 1
        old_topic = self.partition.topic
        self._open()
        self.partition.topic = old_topic
        usable = snapshot is not None and snapshot["offset"] <= self.log.high_watermark
        self.partition = self.rebuilt(snapshot if usable else None)
        for producer in self.producers:
            producer.marker_waits = False
            producer.stale.clear()
            for sent in producer.sent:
                sent.is_waiting = False

    # Steps

    def simulate(self) -> None:
        for _ in range(self.steps):
            producer = self.rng.choice(self.producers)
            step = self.rng.choice(
                (self.send, self.send, self.send, self.end, self.end, self.storage, self.storage, self.cheat)
            )
            step(producer)
            if self.rng.random() < 0.04:
                self.crash()
            if self.trims and self.rng.random() < 0.05:
                run_now(self.log.trim(self.rng.randint(self.log.log_start_offset, self.log.high_watermark)))
            self.check()
        self.failing = False
        for _ in range(40):
            for producer in self.producers:
                self.end(producer)
            self.drain()
        self.check()
        expect("everything ends", self.partition.last_stable_offset, self.log.high_watermark)

    def drain(self) -> None:
        while self.queue:
            self.queue.pop(0)()

    def storage(self, producer: Producer) -> None:
        """Let the storage finish what it has."""
        for _ in range(self.rng.randint(1, 3)):
            if self.queue:
                self.queue.pop(0)()

    def send(self, producer: Producer) -> None:
        """Send what must be sent again, or else a new batch."""
        if producer.ending is not None:
            return
        waiting = [sent for sent in producer.sent if not sent.is_waiting]
        if not waiting:
            if len(producer.sent) >= 5:
                return
            waiting = [self._new_batch(producer)]
        for sent in waiting:
            self._produce(producer, sent)

    def _new_batch(self, producer: Producer) -> Sent:
        self.count += 1
        values = [b"%d.%d" % (self.count, index) for index in range(self.rng.randint(1, 3))]
        data = build_batch(
            [Record(value=value, timestamp_ms=WALL_MS) for value in values],
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence,
            is_transactional=True,
        )
        sent = Sent(data, producer.sequence)
        producer.sequence += len(values)
        producer.sent.append(sent)
        producer.values += values
        return sent

    def _produce(self, producer: Producer, sent: Sent) -> None:
        life, told = self.life, []

        def settled(base_offset: int, error: ErrorCode) -> None:
            told.append(error)
            if self.life != life:
                return
            sent.is_waiting = False
            if not error:
                producer.takes_part = True
                producer.sent = [other for other in producer.sent if other is not sent]
                self._check_stored(base_offset, sent)

        verified = None
        if not self.partition.in_transaction(producer.producer_id, producer.epoch):
            verified = self.partition.begin_verification(producer.producer_id, producer.epoch, sent.sequence)
            if self.rng.random() < 0.3:
                producer.stale.append(verified)
        sent.is_waiting = True
        try:
            self.partition.produce(sent.data, 9, WALL_MS, settled, verified)
        except BatchError as error:
            raise Broken(f"a good batch is taken: {error.error_code.name}, {error}") from error

    def _check_stored(self, base_offset: int, sent: Sent) -> None:
        if base_offset >= self.log.log_start_offset:
            stored = self.log.read(base_offset, max_bytes=1)
            values = [record.value for record in decode_batch(sent.data)]
            expect("an answer names the batch", [record.value for record in decode_batch(stored)], values)

    def _marker(self, producer: Producer, *, commit: bool) -> TransactionMarker:
        epoch = producer.epoch + (producer.version == 2)
        return TransactionMarker(producer.producer_id, epoch, self.epoch, commit, producer.version)

    def end(self, producer: Producer) -> None:
        """Decide, or write the marker of what is decided; a producer commits only what it has heard of."""
        if producer.ending is None:
            commit = not producer.sent and self.rng.random() < 0.5
            if not commit and self.rng.random() < 0.5:
                return
            producer.ending = self._marker(producer, commit=commit)
            for value in producer.values:
                self.fate[value] = commit
        if producer.marker_waits:
            return
        asked = producer.ending
        marker = replace(asked, coordinator_epoch=self.epoch)
        producer.marker_waits = True
        life = self.life

        def settled(offset: int, error: ErrorCode) -> None:
            if self.life != life:
                return
            producer.marker_waits = False
            if error is ErrorCode.KAFKA_STORAGE_ERROR:
                return
            expect("a marker is written", error, ErrorCode.NONE)
            producer.ending = None
            producer.takes_part = False
            producer.values = []
            # What an aborting producer still had on its way is given up.
            producer.sent.clear()
            producer.epoch = asked.producer_epoch if producer.version == 2 else producer.epoch + 1
            producer.sequence = 0

        self.partition.append_marker(marker, WALL_MS, settled)
        for verification in producer.stale:
            late = self._batch_of(producer, producer.sequence + 9, asked.producer_epoch)
            self._refused(late, ErrorCode.INVALID_TXN_STATE, verification)
        producer.stale.clear()

    def cheat(self, producer: Producer) -> None:
        """Send what must be refused."""
        partition = self.partition
        in_transaction = partition.in_transaction(producer.producer_id, producer.epoch)
        if not in_transaction and not producer.sent:
            self._refused(self._batch_of(producer, producer.sequence, producer.epoch), ErrorCode.INVALID_TXN_STATE)
            verified = partition.begin_verification(producer.producer_id, producer.epoch, producer.sequence)
            producer.stale.append(verified)
        if in_transaction and producer.ending is None:
            gap = self._batch_of(producer, producer.sequence + 7, producer.epoch)
            self._refused(gap, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            plain = self._batch_of(producer, producer.sequence, producer.epoch, transactional=False)
            if all(sent.is_waiting for sent in producer.sent):
                self._refused(plain, ErrorCode.INVALID_TXN_STATE)
        state = partition.producers.get(producer.producer_id)
        if state is not None and state.epoch and producer.ending is None:
            old = TransactionMarker(producer.producer_id, state.epoch - 1, self.epoch, True, producer.version)
            self._marker_refused(old, ErrorCode.INVALID_PRODUCER_EPOCH)
        if state is not None and state.coordinator_epoch > 0 and state.transaction is None:
            old = TransactionMarker(producer.producer_id, state.epoch + 1, state.coordinator_epoch - 1, True, 1)
            self._marker_refused(old, ErrorCode.TRANSACTION_COORDINATOR_FENCED)

    def _batch_of(self, producer: Producer, sequence: int, epoch: int, *, transactional: bool = True) -> bytes:
        return build_batch(
            [Record(value=b"refused", timestamp_ms=WALL_MS)],
            producer_id=producer.producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=transactional,
        )

    def _refused(self, data: bytes, error: ErrorCode, verified: Verification | None = None) -> None:
        try:
            self.partition.produce(data, 9, WALL_MS, lambda offset, code: None, verified)
        except BatchError as refusal:
            expect("the reason of a refusal", refusal.error_code, error)
        else:
            raise Broken(f"a batch that must hear {error.name} was taken")

    def _marker_refused(self, marker: TransactionMarker, error: ErrorCode) -> None:
        told: list[ErrorCode] = []
        self.partition.append_marker(marker, WALL_MS, lambda offset, code: told.append(code))
        expect("a late marker is refused", told, [error])

    # What must hold

    def check(self) -> None:
        unended, ended = self._naive()
        high_watermark, start = self.log.high_watermark, self.log.log_start_offset
        stable = max(start, min([high_watermark, *unended.values()]))
        if self.trims:
            # What began before the log's start is remembered until a crash, and keeps committed readers behind.
            if not start <= self.partition.last_stable_offset <= stable:
                raise Broken(f"the last stable offset {self.partition.last_stable_offset} is above {stable}")
            stable = self.partition.last_stable_offset
        else:
            expect("the last stable offset", self.partition.last_stable_offset, stable)
        aborted = [one for one in ended if one.aborted]
        for _ in range(0 if self.trims else 3):
            low = self.rng.randint(start, max(start, stable))
            high = self.rng.randint(low, max(low, stable))
            wanted = [
                (one.producer_id, one.first_offset)
                for one in sorted(aborted, key=lambda one: one.first_offset)
                if one.last_offset >= low and one.first_offset < high
            ]
            found = self.partition.aborted_in(low, high)
            expect(f"aborted between {low} and {high}", found, wanted)
        self._check_reader()
        if not self.queue and not self.trims:
            expect("the law of the log", _facts(self.partition), _facts(self.rebuilt()))
            expect("the law of snapshots", _facts(self.partition), _facts(self.rebuilt(take(self.partition))))

    def _naive(self) -> tuple[dict[int, int], list[Ended]]:
        """The transactions in the log: producer id → first offset of the one without a marker, and the ended ones."""
        unended: dict[int, int] = {}
        ended = []
        for header, batch in self._batches():
            if not header.is_control:
                unended.setdefault(header.producer_id, header.base_offset)
                continue
            end = parse_marker(batch)
            assert end is not None
            if (first := unended.pop(header.producer_id, None)) is not None:
                ended.append(Ended(header.producer_id, first, header.base_offset, not end.commit))
        return unended, ended

    def _batches(self) -> list[tuple[BatchHeader, memoryview]]:
        return list(iter_batches(self.log.read(self.log.log_start_offset, max_bytes=1 << 30)))

    def _check_reader(self) -> None:
        """Read as clients do, a few batches at a time, and skip what the answers say to skip."""
        offset, stable = self.log.log_start_offset, self.partition.last_stable_offset
        seen: list[bytes] = []
        while offset < stable:
            data = self.log.read(offset, max_bytes=self.rng.choice((1, 200, 1000)), upto_offset=stable)
            end = list(iter_batches(data))[-1][0].last_offset + 1
            shown, offset = committed_values(data, self.partition.aborted_in(offset, end))
            seen += shown
        for value in seen:
            expect(f"{value!r} is committed", self.fate.get(value), True)
        shown = set(seen)
        for header, batch in self._batches():
            if not header.is_control and header.last_offset < stable:
                for record in decode_batch(batch):
                    value = record.value or b""
                    if self.fate.get(value) and value not in shown:
                        raise Broken(f"{value!r} was committed and is not shown")
        expect("nothing is shown twice", len(shown), len(seen))


def _facts(partition: Partition) -> dict[str, Any]:
    return {
        "aborted": partition.transactions.aborted.rows(),
        "unstable": [(one.producer_id, one.first_offset) for one in partition.transactions.unstable.values()],
        "producers": {
            producer_id: (
                state.epoch,
                state.coordinator_epoch,
                state.transaction.first_offset if state.transaction else -1,
                [(batch.base_sequence, batch.last_sequence, batch.base_offset) for batch in state.batches],
            )
            for producer_id, state in partition.producers.items()
        },
    }
