"""A topic and its partitions as they are served: the settings in force, the logs, the producers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any
from uuid import UUID

from ottla.broker.core.topics.accept import accept
from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.core.topics.producers import Change, ProducedBatch, Producers, Settled, TransactionMarker, Verdict
from ottla.broker.core.topics.transactions import Transactions, Verification
from ottla.broker.engine import EngineError, Log
from ottla.protocol.compression import Buffer
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import (
    Allowance,
    BatchHeader,
    EndOfTransaction,
    InvalidBatch,
    TopicPartition,
    build_marker,
    parse_header,
    parse_marker,
)
from ottla.protocol.records import ProducedBatch as Accepted
from ottla.protocol.steps import Steps

_REASONS = {
    ErrorCode.INVALID_PRODUCER_EPOCH: "the producer's epoch is older than the one that wrote last",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "the batch does not continue the producer's sequence",
    ErrorCode.INVALID_TXN_STATE: "the producer has an open transaction, to which the batch does not belong",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the batch before it was sent to another leader, or came too early",
}

NEW_LEADER_MS = 2_000
"""For so long after a node has come to lead a partition a gap in a sequence is taken for one that closes by itself."""

ADDS_PARTITIONS = 12
"""From this Produce version on the broker adds partitions to the transaction itself (KIP-890)."""


class Standing(IntEnum):
    """What this node is to a partition; see decision 16."""

    LEADING = 1
    LOADING = 2
    """It leads, and what it has to know of the log is not read yet."""
    ELSEWHERE = 3
    """Another node leads, or nobody does."""
    OFFLINE = 4
    """The log is damaged, so it has no leader; whoever asks is told so."""


_REFUSALS: dict[Standing, ErrorCode] = {
    Standing.LEADING: ErrorCode.NONE,
    Standing.LOADING: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Standing.ELSEWHERE: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    Standing.OFFLINE: ErrorCode.KAFKA_STORAGE_ERROR,
}


class Topic:
    """A topic that is served.

    Attributes:
        overrides: the settings given for the topic itself.
        config: what is in force, parsed.
        partitions: by index, without holes.
        described: the partition rows of Metadata responses, and the view of the cluster for which they were made; None
            after a change of the topic.
    """

    __slots__ = ("config", "described", "is_internal", "name", "overrides", "partitions", "topic_id")

    def __init__(
        self, name: str, topic_id: UUID, *, is_internal: bool, overrides: Mapping[str, str], config: TopicConfig
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.overrides = overrides
        self.config = config
        self.partitions: list[Partition] = []
        self.described: tuple[object, list[Any]] | None = None

    def partition(self, index: int) -> Partition | None:
        """The partition of that index, None if there is none."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def add_partition(self, log: Log) -> Partition:
        """Serve one more partition."""
        partition = Partition(self, len(self.partitions), log)
        self.partitions.append(partition)
        self.described = None
        return partition


class Partition:
    """One partition: its log, and what it remembers of idempotent producers and of transactions.

    Attributes:
        standing: what this node is to it. All but OFFLINE are told apart by the log that it has, too.
        failures: how many appends have failed.
        gained_ms: when this node came to lead it, while clients knew another leader (Unix ms); 0 if it always did.
    """

    __slots__ = ("failures", "gained_ms", "log", "producers", "standing", "topic", "tp", "transactions")

    def __init__(self, topic: Topic, index: int, log: Log) -> None:
        self.topic = topic
        self.tp = TopicPartition(topic.name, index)
        self.log = log
        self.standing = Standing.LEADING
        self.failures = 0
        self.gained_ms = 0
        self.producers = Producers()
        self.transactions = Transactions()

    @property
    def refusal(self) -> ErrorCode:
        """The error that whoever wants something of the log is told now; NONE where this node leads."""
        return _REFUSALS[self.standing]

    # Reading

    @property
    def last_stable_offset(self) -> int:
        """Everything below is durable and belongs to no open transaction; never above the high watermark."""
        log = self.log
        high_watermark = log.high_watermark
        first_unstable = self.transactions.first_unstable_offset
        if first_unstable is None or first_unstable >= high_watermark:
            return high_watermark
        return max(first_unstable, log.log_start_offset)

    def aborted_in(self, start_offset: int, upto_offset: int) -> list[tuple[int, int]]:
        """The aborted transactions with something in the range: producer id and first offset, the oldest first."""
        return self.transactions.aborted.between(start_offset, upto_offset)

    # Writing

    def in_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has a transaction open here, in this epoch."""
        state = self.producers.get(producer_id)
        return state is not None and state.transaction is not None and state.epoch == producer_epoch

    def begin_verification(self, producer_id: int, producer_epoch: int, sequence: int = -1) -> Verification:
        """Begin to ask the transaction coordinator; the result is for `produce` and `append_offsets`.

        It is void once a marker for the producer was appended, as then the answer may be about an older transaction;
        see `Transactions.void`.
        """
        return self.transactions.verify(producer_id, producer_epoch, sequence)

    def produce(
        self,
        records: Buffer | None,
        api_version: int,
        wall_ms: int,
        settled: Settled,
        verified: Verification | None = None,
        allowance: Allowance | None = None,
    ) -> Steps[None] | None:
        """Append the records field of a Produce request.

        ``settled`` is called once with the base offset, when the batch is durable, or with an error: later, or (for a
        duplicate of a batch that is durable) before this returns. ``verified`` comes from `begin_verification`, if the
        transaction coordinator has confirmed that the partition is part of the transaction. ``allowance`` is for
        all batches of the request; see `accept`.

        Returns:
            None; or the steps that append the batch, and may raise, where it takes long to look at.

        Raises:
            BatchError: the batch is refused; ``error_code`` says why, and ``settled`` will not be called.
        """
        accepted = accept(records, api_version, self.topic.config, wall_ms, allowance)
        if isinstance(accepted, Accepted):
            self._append(accepted, api_version, wall_ms, settled, verified)
            return None
        return self._append_later(accepted, api_version, wall_ms, settled, verified)

    def _append_later(
        self,
        accepting: Steps[Accepted],
        api_version: int,
        wall_ms: int,
        settled: Settled,
        verified: Verification | None,
    ) -> Steps[None]:
        self._append((yield from accepting), api_version, wall_ms, settled, verified)

    def _append(
        self, accepted: Accepted, api_version: int, wall_ms: int, settled: Settled, verified: Verification | None
    ) -> None:
        header, data = accepted
        verdict = self.producers.judge(header)
        if isinstance(verdict, ProducedBatch):
            if verdict.waiting is None:
                settled(verdict.base_offset, ErrorCode.NONE)
            else:
                verdict.waiting.append(settled)
            return
        if header.is_transactional and header.producer_id >= 0:
            self._check_transaction(header, verified)
            if verdict is Verdict.NEW and self._comes_early(header, api_version):
                verdict = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if 0 <= wall_ms - self.gained_ms < NEW_LEADER_MS and self._leaves_gap(header, verdict):
            verdict = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if isinstance(verdict, ErrorCode):
            raise InvalidBatch(verdict, _REASONS[verdict])
        change = self._change(header) if verdict is Verdict.NEW else None
        appending = _Appending(self, settled, change)
        base_offset = self.log.append(
            data, count=header.record_count, max_timestamp_ms=header.max_timestamp, done=appending
        )
        if verdict is Verdict.NEW:
            appending.producer_id = header.producer_id
            appending.batch = self.producers.appended(header, base_offset, wall_ms)
            if change is not None:
                self._changed(change, header, base_offset)

    def _leaves_gap(self, header: BatchHeader, verdict: object) -> bool:
        """Whether a batch does not follow what is known of its producer.

        Of batches that a client sends one behind the other the first may be refused by a node that does not lead yet,
        and the next one reach it when it does. The client sends both again, as they may be refused for the same reason.
        Told of a gap, librdkafka begins a new epoch, in which nothing is known of what the last leader stored.
        """
        if verdict is Verdict.NEW:
            return header.base_sequence > 0 and self.producers.get(header.producer_id) is None
        return verdict is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def append_offsets(
        self, batch: Buffer, max_timestamp_ms: int, settled: Settled, verified: Verification | None = None
    ) -> None:
        """Append a transactional batch of the group coordinator, as `produce` does one of a client.

        Sequences are not looked at: the coordinator writes each batch once, and gives none.

        Raises:
            BatchError: the batch is refused.
        """
        header = parse_header(batch)
        self._check_transaction(header, verified)
        state = self.producers.get(header.producer_id)
        if state is not None and header.producer_epoch < state.epoch:
            raise InvalidBatch(ErrorCode.INVALID_PRODUCER_EPOCH, _REASONS[ErrorCode.INVALID_PRODUCER_EPOCH])
        change = Change(header.producer_id, state and state.copy())
        base_offset = self.log.append(
            batch,
            count=header.record_count,
            max_timestamp_ms=max_timestamp_ms,
            done=_Appending(self, settled, change),
        )
        self.producers.wrote(header, max_timestamp_ms)
        self._changed(change, header, base_offset)

    def append_marker(self, marker: TransactionMarker, wall_ms: int, settled: Settled) -> None:
        """Append the control batch that ends a producer's transaction here; there need be none.

        ``settled`` is called once, with the offset when it is durable or with an error: later, or before this returns
        with INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED if the marker is refused.
        """
        if error := self.producers.judge_marker(marker):
            settled(-1, error)
            return
        producer_id = marker.producer_id
        before = self.producers.get(producer_id)
        change = Change(producer_id, before and before.copy())
        batch = build_marker(
            EndOfTransaction(marker.commit, marker.coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=wall_ms,
        )
        offset = self.log.append(batch, count=1, max_timestamp_ms=wall_ms, done=_Appending(self, settled, change))
        self.transactions.void(marker)
        state = self.producers.ended(producer_id, marker.producer_epoch, marker.coordinator_epoch, wall_ms)
        change.aborts = not marker.commit
        change.ended, state.transaction = state.transaction, None
        if change.ended is not None:
            change.ended.last_offset = offset
        self.transactions.changes.append(change)

    def _check_transaction(self, header: BatchHeader, verified: Verification | None) -> None:
        producer_id = header.producer_id
        if not (
            self.in_transaction(producer_id, header.producer_epoch)
            or (verified is not None and self.transactions.verifications.get(producer_id) is verified)
        ):
            raise InvalidBatch(ErrorCode.INVALID_TXN_STATE, "the record is not part of an ongoing transaction")

    def _comes_early(self, header: BatchHeader, api_version: int) -> bool:
        """Whether an earlier batch of a producer that is not known, and so may begin anywhere, must come first.

        Those of a transaction that the broker itself adds partitions to begin at 0 (KIP-890).
        """
        if header.producer_id in self.producers:
            return False
        if api_version >= ADDS_PARTITIONS:
            return header.base_sequence != 0
        verification = self.transactions.verifications.get(header.producer_id)
        return (
            verification is not None
            and header.producer_epoch == verification.epoch
            and header.base_sequence > verification.lowest_sequence
        )

    def _change(self, header: BatchHeader) -> Change | None:
        """The change to take back if a batch fails; None where forgetting the batch is enough."""
        before = self.producers.get(header.producer_id)
        if header.is_transactional or (before is not None and before.epoch != header.producer_epoch):
            return Change(header.producer_id, before and before.copy())
        return None

    def _changed(self, change: Change, header: BatchHeader, base_offset: int) -> None:
        """A batch for which `_change` has something to note was handed to the log."""
        self.transactions.changes.append(change)
        state = self.producers.get(header.producer_id)
        if header.is_transactional and state is not None and state.transaction is None:
            change.began = state.transaction = self.transactions.begin(header.producer_id, base_offset)
            self.transactions.verifications.pop(header.producer_id, None)

    def take_back(self, change: Change) -> None:
        """An append has failed: take back what it has changed, and what came after it."""
        for failed in self.transactions.failed(change):
            self.producers.restore(failed.producer_id, failed.before)

    # Starting

    def replay(self, batch: Buffer, now_ms: int) -> int:
        """Take a batch of the log into account at start; returns the offset after it.

        Raises:
            CorruptBatch: it cannot be read.
        """
        header = parse_header(batch)
        if header.is_control:
            self._replay_marker(header, batch, now_ms)
        elif header.producer_id >= 0:
            if header.base_sequence < 0:
                self.producers.wrote(header, now_ms)
            else:
                self.producers.appended(header, header.base_offset, now_ms, durable=True)
            state = self.producers.get(header.producer_id)
            if header.is_transactional and state is not None and state.transaction is None:
                state.transaction = self.transactions.begin(header.producer_id, header.base_offset)
        return header.last_offset + 1

    def _replay_marker(self, header: BatchHeader, batch: Buffer, now_ms: int) -> None:
        end = parse_marker(batch)
        if end is None:
            return
        state = self.producers.ended(header.producer_id, header.producer_epoch, end.coordinator_epoch, now_ms)
        state.last_timestamp_ms = header.max_timestamp
        transaction, state.transaction = state.transaction, None
        if transaction is not None:
            transaction.last_offset = header.base_offset
            self.transactions.complete(transaction, aborted=not end.commit)


class _Appending:
    """One batch on its way to the log; the log calls it when the batch is durable or has failed."""

    __slots__ = ("batch", "change", "partition", "producer_id", "settled")

    def __init__(self, partition: Partition, settled: Settled, change: Change | None) -> None:
        self.partition = partition
        self.settled = settled
        self.change = change
        self.producer_id = -1
        self.batch: ProducedBatch | None = None

    def __call__(self, base_offset: int, error: EngineError | None) -> None:
        code = ErrorCode.NONE
        if error is not None:
            code = self.partition.refusal or ErrorCode.KAFKA_STORAGE_ERROR
            self.partition.failures += 1
        if self.change is not None:
            if code:
                self.partition.take_back(self.change)
            else:
                self.partition.transactions.durable(self.change)
        if self.batch is not None:
            self.partition.producers.settle(self.producer_id, self.batch, code)
        self.settled(-1 if code else base_offset, code)
