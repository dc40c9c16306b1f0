"""EndTxn, and aborts that the coordinator decides on: from an open transaction to a complete one.

The decision is logged (PrepareCommit or PrepareAbort) and then answered, a marker is written to each partition that
takes part, and the end is logged (CompleteCommit or CompleteAbort). From the first record on the outcome stands,
whatever happens; what is missing is done after a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.broker.core.transactions.machine import Machine
from ottla.broker.core.transactions.markers import begin_markers
from ottla.broker.core.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_COMMIT,
    PREPARED,
)
from ottla.broker.core.transactions.transaction import LAST_GIVEN_EPOCH, TRANSACTION_V2, Entry, Snapshot
from ottla.broker.core.transactions.transitions import prepared
from ottla.protocol.errors import ErrorCode
from ottla.protocol.transaction_log import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class Ended(NamedTuple):
    """The answer to a producer: an error, or the producer id and epoch to go on with."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class _Decision(NamedTuple):
    """An error (NONE: it was done before), or None if the transaction is to be ended now."""

    error: ErrorCode | None
    was_open: bool = True


_GO = _Decision(None)
_GO_EMPTY = _Decision(None, was_open=False)
_INVALID = _Decision(ErrorCode.INVALID_TXN_STATE)


def end(
    m: Machine,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
    version: int,
    then: Callable[[Ended], None],
) -> None:
    """A producer ends its transaction; ``then`` is called at once or later.

    Args:
        version: the ``transaction.version`` that the client follows.
    """
    if not transactional_id:
        then(Ended(ErrorCode.INVALID_REQUEST))
        return
    entry = m.find(transactional_id)
    if isinstance(entry, ErrorCode):
        then(Ended(entry))
        return
    judge = _judge_v2 if version >= TRANSACTION_V2 else _judge
    decision = judge(entry, producer_id, producer_epoch, commit)
    if decision.error is None:
        _decide(m, entry, commit, version, decision.was_open, then)
    elif decision.error is ErrorCode.NONE:
        then(Ended(ErrorCode.NONE, entry.current.producer_id, entry.current.producer_epoch))
    else:
        then(Ended(decision.error))


def fence(m: Machine, entry: Entry, then: Callable[[ErrorCode], None]) -> None:
    """Abort an open transaction without its producer, whose epoch is raised so that it is heard no more.

    Nobody is told the raised epoch.
    """
    _decide(m, entry, False, TRANSACTION_V2, True, lambda ended: then(ended.error))


def _decide(
    m: Machine, entry: Entry, commit: bool, version: int, was_open: bool, then: Callable[[Ended], None]
) -> None:
    tx = entry.current
    next_id = NO_PRODUCER_ID
    if version >= TRANSACTION_V2 and tx.is_exhausted:
        taken = m.take_producer_id()
        if taken is None:
            then(Ended(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        next_id = taken
    snapshot = prepared(
        tx, commit=commit, version=version, next_producer_id=next_id, wall_ms=m.wall_ms, was_open=was_open
    )

    def done(error: ErrorCode) -> None:
        if error:
            then(Ended(error))
            return
        # The answer does not wait for the markers: what the producer does next finds the id pending until then.
        after = begin_markers(m, entry)
        then(Ended(ErrorCode.NONE, after.producer_id, after.producer_epoch))

    m.move(entry, snapshot, done)


def _judge(entry: Entry, producer_id: int, producer_epoch: int, commit: bool) -> _Decision:
    """Rules before KIP-890: the same request may come twice, and nothing can be ended that was not begun."""
    tx = entry.current
    if tx.producer_id != producer_id:
        return _Decision(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if tx.producer_epoch != producer_epoch:
        return _Decision(ErrorCode.PRODUCER_FENCED)
    if entry.pending is not None:
        return _Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
    if tx.state is ONGOING:
        return _GO
    if tx.state is (COMPLETE_COMMIT if commit else COMPLETE_ABORT):
        return _Decision(ErrorCode.NONE)
    return _prepared_or_invalid(tx, commit)


def _judge_v2(entry: Entry, producer_id: int, producer_epoch: int, commit: bool) -> _Decision:
    """Rules of KIP-890: the epoch tells a repeated request from the next one, which may be the abort of nothing.

    ======================  ===============  ================
    state                   epoch before     epoch now
    ======================  ===============  ================
    Empty                   fenced           abort only
    CompleteCommit          commit: done     abort only
    CompleteAbort           abort: done      abort only
    ======================  ===============  ================
    """
    tx = entry.current
    if entry.pending is not None:
        return _Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
    changed_over = (
        tx.previous_producer_id == producer_id and producer_epoch == LAST_GIVEN_EPOCH and tx.producer_epoch == 0
    )
    repeated = tx.producer_epoch == producer_epoch + 1
    if tx.producer_id != producer_id and not changed_over:
        return _Decision(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_complete = tx.state in (COMPLETE_COMMIT, COMPLETE_ABORT)
    if not (
        (tx.producer_epoch == producer_epoch and tx.state not in PREPARED)
        or (repeated and (is_complete or tx.state in PREPARED))
        or (changed_over and is_complete)
    ):
        return _Decision(ErrorCode.PRODUCER_FENCED)
    if tx.state is ONGOING:
        return _GO
    if is_complete and (repeated or changed_over):
        return _Decision(ErrorCode.NONE) if commit == (tx.state is COMPLETE_COMMIT) else _INVALID
    if is_complete or tx.state is EMPTY:
        return _INVALID if commit else _GO_EMPTY
    return _prepared_or_invalid(tx, commit)


def _prepared_or_invalid(tx: Snapshot, commit: bool) -> _Decision:
    if tx.state in PREPARED and commit == (tx.state is PREPARE_COMMIT):
        return _Decision(ErrorCode.CONCURRENT_TRANSACTIONS)
    return _INVALID
