"""AddPartitionsToTxn and AddOffsetsToTxn: what takes part in a transaction, and whether something does.

A producer that has just ended a transaction begins the next one at once, while markers of the last one are still being
written. Kafka refuses that with CONCURRENT_TRANSACTIONS, and clients come again after a while, mostly longer than it
takes. So such requests wait here, for a bounded time, before they hear it. Those that brokers make for a Produce
(KIP-890) wait for whatever is under way, as several of one transaction may come at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from ottla.broker.core.transactions.machine import Machine
from ottla.broker.core.transactions.state import ONGOING, PREPARED
from ottla.broker.core.transactions.transaction import PARTITION_BYTES, Waiter
from ottla.broker.core.transactions.transitions import with_partitions
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import TopicPartition

CONCURRENT_WAIT_MS = 500
"""How long a request waits for what is under way for its id before it is answered CONCURRENT_TRANSACTIONS."""


def add(
    m: Machine,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Collection[TopicPartition],
    version: int,
    then: Callable[[ErrorCode], None],
    *,
    waits_for_all: bool = False,
    deadline_ms: int | None = None,
) -> None:
    """Let partitions take part, durably; ``then`` is called at once or later.

    Args:
        version: the ``transaction.version`` that the client follows.
        waits_for_all: wait for anything that is under way, not only for the end of the last transaction.
        deadline_ms: when it has waited long enough; CONCURRENT_WAIT_MS from now by default.
    """
    if not transactional_id:
        then(ErrorCode.INVALID_REQUEST)
        return
    entry = m.find(transactional_id)
    if isinstance(entry, ErrorCode):
        then(entry)
        return
    tx = entry.current
    if entry.pending is not None:
        if not waits_for_all and entry.complete is None:
            then(ErrorCode.CONCURRENT_TRANSACTIONS)
            return
        deadline_ms = m.now_ms + CONCURRENT_WAIT_MS if deadline_ms is None else deadline_ms
        again = partial(add, m, transactional_id, producer_id, producer_epoch, partitions, version, then,
                        waits_for_all=waits_for_all, deadline_ms=deadline_ms)  # fmt: skip
        m.wait(entry, Waiter(deadline_ms, again, partial(then, ErrorCode.CONCURRENT_TRANSACTIONS)))
    elif tx.producer_id != producer_id:
        then(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    elif tx.producer_epoch != producer_epoch:
        then(ErrorCode.PRODUCER_FENCED)
    elif tx.state in PREPARED:
        then(ErrorCode.CONCURRENT_TRANSACTIONS)
    elif tx.state is ONGOING and tx.partitions.issuperset(partitions):
        then(ErrorCode.NONE)
    elif not m.has_room(PARTITION_BYTES * len(partitions)):
        then(ErrorCode.POLICY_VIOLATION)
    else:
        m.move(entry, with_partitions(tx, partitions, m.wall_ms, version), then)


def verify(
    m: Machine,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    partitions: Collection[TopicPartition],
) -> Mapping[TopicPartition, ErrorCode]:
    """Whether each partition takes part in the transaction; TRANSACTION_ABORTABLE where it does not. KIP-890.

    A transition under way does not matter: the partition checks once more when it appends.
    """
    entry = m.find(transactional_id) if transactional_id else ErrorCode.INVALID_REQUEST
    if isinstance(entry, ErrorCode):
        return dict.fromkeys(partitions, entry)
    tx = entry.current
    if tx.producer_id != producer_id:
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    elif tx.producer_epoch != producer_epoch:
        error = ErrorCode.PRODUCER_FENCED
    elif tx.state in PREPARED:
        error = ErrorCode.CONCURRENT_TRANSACTIONS
    else:
        present = tx.partitions
        return {tp: ErrorCode.NONE if tp in present else ErrorCode.TRANSACTION_ABORTABLE for tp in partitions}
    return dict.fromkeys(partitions, error)
