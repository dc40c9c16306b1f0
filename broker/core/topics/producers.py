"""What a partition remembers of idempotent producers, so that a batch sent twice is written once (KIP-98).

For each producer id: its epoch and its last five batches, since a client has at most five in flight. A batch that
continues the sequence is new; one that equals a remembered batch is a duplicate and gets the offset that the original
got; anything else is out of order. A producer id that is not known may begin anywhere (its state may have been
trimmed away with its records), but a new epoch of a known one begins at 0.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """What is to be done with a batch that is in order."""

    NEW = "append it"
    UNTRACKED = "append it; it has no producer id"


class ProducedBatch:
    """A remembered batch.

    ``waiting`` is a list while the batch is not durable yet: duplicates that came meanwhile are answered with it.
    None once it is.
    """

    __slots__ = ("base_offset", "base_sequence", "last_offset", "last_sequence", "waiting")

    def __init__(self, header: BatchHeader, base_offset: int, *, durable: bool) -> None:
        self.base_sequence = header.base_sequence
        self.last_sequence = header.last_sequence
        self.base_offset = base_offset
        self.last_offset = base_offset + header.last_offset_delta
        self.waiting: list[Settled] | None = None if durable else []


class ProducerState:
    """One producer id: its epoch, its last batches (oldest first), and when it last wrote (Unix ms)."""

    __slots__ = ("batches", "epoch", "last_append_ms")

    def __init__(self, epoch: int, last_append_ms: int) -> None:
        self.epoch = epoch
        self.batches: list[ProducedBatch] = []
        self.last_append_ms = last_append_ms


class Producers:
    """The producers of one partition.

    A producer moves to the end of the dict when it writes, so its beginning is whoever is idle for longest.
    """

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, producer_id: object) -> bool:
        return producer_id in self._states

    def judge(self, header: BatchHeader) -> Verdict | ProducedBatch | ErrorCode:
        """Decide on a batch before it is appended. Changes nothing.

        Returns:
            NEW or UNTRACKED; the remembered batch of which this one is a duplicate; or INVALID_PRODUCER_EPOCH or
            OUT_OF_ORDER_SEQUENCE_NUMBER.
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
            return Verdict.NEW if base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        last_sequence = header.last_sequence
        for batch in state.batches:
            if batch.base_sequence == base_sequence and batch.last_sequence == last_sequence:
                return batch
        if not state.batches or base_sequence == _after(state.batches[-1].last_sequence):
            return Verdict.NEW
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def appended(self, header: BatchHeader, base_offset: int, now_ms: int, *, durable: bool = False) -> ProducedBatch:
        """Remember a batch that `judge` called NEW, or that was read from the log (``durable``)."""
        states = self._states
        state = states.pop(header.producer_id, None)
        if state is None or state.epoch != header.producer_epoch:
            if state is None:
                self._make_room(now_ms)
            state = ProducerState(header.producer_epoch, now_ms)
        states[header.producer_id] = state
        state.last_append_ms = now_ms
        batch = ProducedBatch(header, base_offset, durable=durable)
        state.batches.append(batch)
        if len(state.batches) > REMEMBERED_BATCHES:
            del state.batches[0]
        return batch

    def settle(self, producer_id: int, batch: ProducedBatch, error: ErrorCode) -> None:
        """A remembered batch became durable or failed: answer the duplicates that waited for it.

        A failed one is forgotten, so that the client's retry is taken for new.
        """
        waiting, batch.waiting = batch.waiting, None
        if error:
            state = self._states.get(producer_id)
            if state is not None and batch in state.batches:
                state.batches.remove(batch)
                if not state.batches:
                    del self._states[producer_id]
        for settled in waiting or ():
            settled(-1 if error else batch.base_offset, error)

    def _make_room(self, now_ms: int) -> None:
        """Forget who has been idle for a day, and whoever is too many; two at a time keep up with any growth."""
        for _ in range(2):
            oldest = next(iter(self._states.items()), None)
            if oldest is None:
                return
            producer_id, state = oldest
            expired = now_ms - state.last_append_ms > PRODUCER_ID_EXPIRATION_MS
            if not expired and len(self._states) < MAX_PRODUCERS:
                return
            if any(batch.waiting is not None for batch in state.batches):
                return
            del self._states[producer_id]


def _after(sequence: int) -> int:
    return 0 if sequence == MAX_SEQUENCE else sequence + 1
