"""A partition's memory of idempotent producers, so that a batch sent twice is written once (KIP-98).

For each producer id: its epoch and its last five batches, since a client has at most five in flight. A batch that
continues the sequence is new; one that equals a remembered batch is a duplicate and gets the offset that the original
got; anything else is out of order. A producer id that is not known may begin anywhere (its state may have been
trimmed away with its records), but a new epoch of a known one begins at 0.

The marker that ends a transaction may bring a newer epoch: then whoever still writes with the old one is fenced, and
sequences begin at 0 again (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import BatchHeader

REMEMBERED_BATCHES = 5
MAX_SEQUENCE = 2**31 - 1
PRODUCER_ID_EXPIRATION_MS = 86_400_000
"""Kafka's default of producer.id.expiration.ms: an idle producer is forgotten after a day."""

MAX_PRODUCERS = 5_000
"""Producers that a partition remembers; beyond it, the one idle for longest is forgotten. Bounds the memory that
clients with ever new producer ids can take. Being forgotten costs a producer only that a resend of its last batches
would not be recognised."""

Settled = Callable[[int, ErrorCode], None]
"""Called with the base offset, or with an error."""


class Verdict(Enum):
    """The decision on a batch that is in order."""

    NEW = "append it"
    UNTRACKED = "append it; it has no producer id"


class ProducedBatch:
    """A remembered batch.

    ``waiting`` is a list while the batch is not durable yet: duplicates that came meanwhile are answered with it.
    None once it is. ``base_offset`` is -1 once it has failed.
    """

    __slots__ = ("base_offset", "base_sequence", "last_offset", "last_sequence", "waiting")

    def __init__(
        self, base_sequence: int, last_sequence: int, base_offset: int, last_offset: int, *, durable: bool = True
    ) -> None:
        self.base_sequence = base_sequence
        self.last_sequence = last_sequence
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.waiting: list[Settled] | None = None if durable else []


@dataclass(frozen=True, slots=True)
class TransactionMarker:
    """The order of a transaction coordinator to end the transaction of a producer in a partition.

    Attributes:
        producer_epoch: with transaction version 2 it is one higher than the records'.
        transaction_version: 2 where every transaction ends with a newer epoch (KIP-890), else 0 or 1.
    """

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int = 1


class Transaction:
    """A transaction that has written to the partition; ``last_offset`` is its marker's, -1 without one."""

    __slots__ = ("first_offset", "last_offset", "producer_id")

    def __init__(self, producer_id: int, first_offset: int, last_offset: int = -1) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = last_offset


class ProducerState:
    """One producer id in one partition.

    Attributes:
        batches: its last ones of this epoch, oldest first.
        last_append_ms: when it last wrote (Unix ms); last_timestamp_ms: the largest timestamp that it wrote last.
        coordinator_epoch: of the last marker, -1 if there was none.
        transaction: the one that is open.
    """

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_append_ms", "last_timestamp_ms", "transaction")

    def __init__(self, epoch: int, last_append_ms: int) -> None:
        self.epoch = epoch
        self.batches: list[ProducedBatch] = []
        self.last_append_ms = last_append_ms
        self.last_timestamp_ms = -1
        self.coordinator_epoch = -1
        self.transaction: Transaction | None = None

    def copy(self) -> ProducerState:
        """The state as it is now."""
        copy = ProducerState(self.epoch, self.last_append_ms)
        copy.batches = self.batches.copy()
        copy.last_timestamp_ms = self.last_timestamp_ms
        copy.coordinator_epoch = self.coordinator_epoch
        copy.transaction = self.transaction
        return copy


class Change:
    """The change of a producer's state by an append on its way, to be taken back should it fail.

    Attributes:
        before: a copy of the state as it was; None if the producer was not known.
        began: the transaction that the batch begins.
        ended: the transaction that the marker ends, if it is one, and whether it is aborted.
        is_over: it is durable, or was taken back.
    """

    __slots__ = ("aborts", "before", "began", "ended", "is_over", "producer_id")

    def __init__(self, producer_id: int, before: ProducerState | None) -> None:
        self.producer_id = producer_id
        self.before = before
        self.began: Transaction | None = None
        self.ended: Transaction | None = None
        self.aborts = False
        self.is_over = False


class Producers:
    """The producers of one partition.

    A producer moves to the end of the dict when it writes, so its beginning is whoever is idle for longest.

    Attributes:
        expiration_ms: ``producer.id.expiration.ms``.
    """

    __slots__ = ("_states", "expiration_ms")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self.expiration_ms = PRODUCER_ID_EXPIRATION_MS

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, producer_id: object) -> bool:
        return producer_id in self._states

    def get(self, producer_id: int) -> ProducerState | None:
        """The state of a producer, None if it is not known."""
        return self._states.get(producer_id)

    def items(self) -> Iterable[tuple[int, ProducerState]]:
        """Everybody who is known, whoever has been idle for longest first."""
        return self._states.items()

    def judge(self, header: BatchHeader) -> Verdict | ProducedBatch | ErrorCode:
        """Decide on a batch before it is appended. Changes nothing.

        Returns:
            NEW or UNTRACKED; the remembered batch of which this one is a duplicate; or INVALID_PRODUCER_EPOCH,
            OUT_OF_ORDER_SEQUENCE_NUMBER, or INVALID_TXN_STATE for a plain batch in the middle of a transaction.
        """
        if header.producer_id < 0:
            return Verdict.UNTRACKED
        state = self._states.get(header.producer_id)
        if state is None:
            return Verdict.NEW
        if header.producer_epoch < state.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        base_sequence = header.base_sequence
        if header.producer_epoch > state.epoch:
            if base_sequence:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        else:
            last_sequence = header.last_sequence
            for batch in state.batches:
                if batch.base_sequence == base_sequence and batch.last_sequence == last_sequence:
                    return batch
            if base_sequence != (_after(state.batches[-1].last_sequence) if state.batches else 0):
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if state.transaction is not None and not header.is_transactional:
            return ErrorCode.INVALID_TXN_STATE
        return Verdict.NEW

    def judge_marker(self, marker: TransactionMarker) -> ErrorCode:
        """Decide on a marker before it is appended; NONE if it may be. Changes nothing.

        From version 2 on a marker has a newer epoch than the transaction. One with the same epoch that finds nothing
        open comes for the second time, and is written again (KAFKA-19999).
        """
        state = self._states.get(marker.producer_id)
        if state is None:
            return ErrorCode.NONE
        if marker.producer_epoch < state.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.producer_epoch == state.epoch and marker.transaction_version >= 2 and state.transaction is not None:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < state.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def appended(self, header: BatchHeader, base_offset: int, now_ms: int, *, durable: bool = False) -> ProducedBatch:
        """Remember a batch that `judge` called NEW, or that was read from the log (``durable``)."""
        state = self._moved(header.producer_id, header.producer_epoch, now_ms)
        state.last_timestamp_ms = header.max_timestamp
        last_offset = base_offset + header.last_offset_delta
        batch = ProducedBatch(header.base_sequence, header.last_sequence, base_offset, last_offset, durable=durable)
        state.batches.append(batch)
        if len(state.batches) > REMEMBERED_BATCHES:
            del state.batches[0]
        return batch

    def wrote(self, header: BatchHeader, now_ms: int) -> None:
        """Remember that somebody wrote a batch without a sequence: there is nothing to compare another with."""
        self._moved(header.producer_id, header.producer_epoch, now_ms).last_timestamp_ms = header.max_timestamp

    def ended(self, producer_id: int, epoch: int, coordinator_epoch: int, timestamp_ms: int) -> ProducerState:
        """A marker was appended at ``timestamp_ms``; returns the state, whose transaction is up to the caller."""
        state = self._moved(producer_id, epoch, timestamp_ms)
        state.coordinator_epoch = coordinator_epoch
        state.last_timestamp_ms = timestamp_ms
        return state

    def _moved(self, producer_id: int, epoch: int, now_ms: int) -> ProducerState:
        """The state of a producer that writes, at the end of the row; a new epoch begins without batches."""
        states = self._states
        state = states.pop(producer_id, None)
        if state is None:
            self._make_room(now_ms)
            state = ProducerState(epoch, now_ms)
        elif state.epoch != epoch:
            state.epoch = epoch
            state.batches = []
        states[producer_id] = state
        state.last_append_ms = now_ms
        return state

    def settle(self, producer_id: int, batch: ProducedBatch, error: ErrorCode) -> None:
        """A remembered batch became durable or failed: answer the duplicates that waited for it.

        A failed one is forgotten, so that the client's retry is taken for new.
        """
        waiting, batch.waiting = batch.waiting, None
        if error:
            state = self._states.get(producer_id)
            if state is not None and batch in state.batches:
                state.batches.remove(batch)
                if not state.batches and state.coordinator_epoch < 0:
                    del self._states[producer_id]
            base_offset = batch.base_offset = -1
        else:
            base_offset = batch.base_offset
        for settled in waiting or ():
            settled(base_offset, error)

    def restore(self, producer_id: int, before: ProducerState | None) -> None:
        """Take back what an append has changed that failed; batches that have failed since stay forgotten."""
        if before is None:
            self._states.pop(producer_id, None)
            return
        durable = [batch for batch in before.batches if batch.base_offset >= 0]
        if before.batches and not durable and before.coordinator_epoch < 0:
            self._states.pop(producer_id, None)
            return
        before.batches = durable
        self._states[producer_id] = before

    def _make_room(self, now_ms: int) -> None:
        """Forget who has been idle for a day, and whoever is too many; two at a time keep up with any growth.

        Who has an open transaction is passed over: the end of it is still to come.
        """
        states = self._states
        for _ in range(2):
            oldest = next(iter(states.items()), None)
            if oldest is None:
                return
            producer_id, state = oldest
            expired = now_ms - state.last_append_ms > self.expiration_ms
            if not expired and len(states) < MAX_PRODUCERS:
                return
            if any(batch.waiting is not None for batch in state.batches):
                return
            del states[producer_id]
            if state.transaction is not None:
                states[producer_id] = state


def _after(sequence: int) -> int:
    return 0 if sequence == MAX_SEQUENCE else sequence + 1
