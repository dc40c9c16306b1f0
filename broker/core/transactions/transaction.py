"""A transactional id: what the log says of it, and what is under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ottla.broker.core.coordination.shard import Shard
from ottla.broker.core.transactions.state import EMPTY, TransactionState
from ottla.protocol.records import TopicPartition
from ottla.protocol.transaction_log import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

MAX_EPOCH = 2**15 - 1
LAST_GIVEN_EPOCH = MAX_EPOCH - 1
"""The highest epoch that a producer is given: one more must be left to fence it with."""

ENTRY_BYTES = 1_024
PARTITION_BYTES = 256
"""Bytes that a transactional id takes besides its text, and each partition of its transaction, roughly."""

TRANSACTION_V2 = 2
"""The ``transaction.version`` of KIP-890, in which every end of a transaction raises the epoch."""


def id_bytes(transactional_id: str) -> int:
    """The bytes of memory that a transactional id without a transaction takes, roughly."""
    return ENTRY_BYTES + len(transactional_id) * (1 if transactional_id.isascii() else 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The content of one record of the log; never changed, only followed by another. See `TransactionLogValue`.

    Attributes:
        last_producer_epoch: the epoch before the last bump that its producer asked for, by which a repeated request is
            known (KIP-360). It is not in the log, as in Kafka.
        start_ms: Unix time of the first partition, -1 if there is no transaction.
        update_ms: Unix time of this record.
        client_version: the ``transaction.version`` that the last transition was made with, 0 or 2.
    """

    producer_id: int
    producer_epoch: int = NO_PRODUCER_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int
    state: TransactionState = EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    update_ms: int
    client_version: int = 0

    @property
    def held_bytes(self) -> int:
        """The bytes of memory that it takes, roughly; names of topics are shared."""
        return PARTITION_BYTES * len(self.partitions)

    @property
    def is_exhausted(self) -> bool:
        """Whether no higher epoch of this producer id can be given out."""
        return self.producer_epoch >= LAST_GIVEN_EPOCH


class Waiter(NamedTuple):
    """A request that waits until nothing is under way: then ``again`` is called, at the deadline ``late``."""

    deadline_ms: int
    again: Callable[[], None]
    late: Callable[[], None]


class Entry:
    """One transactional id.

    Attributes:
        current: what is durable; made anew only when a record is.
        pending: the state that it is on its way to, None if nothing is under way. It is set from the moment a record
            is handed over, and for the whole time in which markers are written.
        complete: what to log when all markers are written, None outside of that time.
        markers: the partitions whose marker is not written yet, with the token of the attempt; None between attempts.
        failures: of markers and completions in a row.
        waiters: who waits until nothing is under way, in the order in which they came.
    """

    __slots__ = ("complete", "current", "failures", "markers", "pending", "shard", "transactional_id", "waiters")

    def __init__(self, transactional_id: str, shard: Shard, current: Snapshot) -> None:
        self.transactional_id = transactional_id
        self.shard = shard
        self.current = current
        self.pending: TransactionState | None = None
        self.complete: Snapshot | None = None
        self.markers: dict[TopicPartition, object | None] = {}
        self.failures = 0
        self.waiters: list[Waiter] = []

    @property
    def held_bytes(self) -> int:
        """The bytes of memory that it takes, roughly."""
        return id_bytes(self.transactional_id) + self.current.held_bytes

    def __repr__(self) -> str:
        return f"<Entry {self.transactional_id} {self.current.state} {self.current.producer_epoch}>"
