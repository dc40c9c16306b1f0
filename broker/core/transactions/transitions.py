"""From one snapshot to the next: what each step of Kafka's protocol makes of a transactional id.

Pure functions of snapshots. Whether a step is allowed now is decided by whoever calls.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ottla.broker.core.transactions.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    VALID_PREVIOUS,
)
from ottla.broker.core.transactions.transaction import MAX_EPOCH, TRANSACTION_V2, Snapshot
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import TopicPartition
from ottla.protocol.transaction_log import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


def with_next_epoch(tx: Snapshot, timeout_ms: int, expected_epoch: int | None, wall_ms: int) -> Snapshot | ErrorCode:
    """InitProducerId: the next epoch of the same producer id.

    Args:
        expected_epoch: what the producer says its epoch is (KIP-360), None if it does not say.

    Returns:
        The next snapshot. PRODUCER_FENCED if the epoch is neither the current one nor, as of a repeated request, the
        one before.
    """
    epoch, last = tx.producer_epoch + 1, NO_PRODUCER_EPOCH
    if expected_epoch is not None:
        if tx.producer_epoch in (NO_PRODUCER_EPOCH, expected_epoch):
            last = tx.producer_epoch
        elif expected_epoch == tx.last_producer_epoch:
            # The answer to the first request was lost. Nobody else came since, or there would be no last epoch.
            epoch, last = tx.producer_epoch, tx.last_producer_epoch
        else:
            return ErrorCode.PRODUCER_FENCED
    return _empty(tx, tx.producer_id, epoch, last, timeout_ms, wall_ms)


def with_new_producer_id(
    tx: Snapshot, producer_id: int, timeout_ms: int, wall_ms: int, *, keep_last_epoch: bool
) -> Snapshot:
    """InitProducerId: another producer id, as the epochs of this one are used up."""
    last = tx.producer_epoch if keep_last_epoch else NO_PRODUCER_EPOCH
    return _empty(tx, producer_id, 0, last, timeout_ms, wall_ms)


def _empty(tx: Snapshot, producer_id: int, epoch: int, last: int, timeout_ms: int, wall_ms: int) -> Snapshot:
    _check(tx, EMPTY)
    return replace(
        tx,
        producer_id=producer_id,
        previous_producer_id=tx.producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last,
        timeout_ms=timeout_ms,
        state=EMPTY,
        partitions=frozenset(),
        start_ms=-1,
        update_ms=wall_ms,
    )


def with_partitions(tx: Snapshot, partitions: Iterable[TopicPartition], wall_ms: int, version: int) -> Snapshot:
    """More partitions take part; the first ones begin the transaction."""
    _check(tx, ONGOING)
    return replace(
        tx,
        previous_producer_id=tx.producer_id,
        state=ONGOING,
        partitions=tx.partitions.union(partitions),
        start_ms=tx.start_ms if tx.state is ONGOING else wall_ms,
        update_ms=wall_ms,
        client_version=version,
    )


def prepared(
    tx: Snapshot, *, commit: bool, version: int, next_producer_id: int, wall_ms: int, was_open: bool
) -> Snapshot:
    """The outcome is decided.

    With transaction version 2 the epoch is raised here, so that no record of this transaction can come after its
    marker; the highest epoch of all is used only between this step and the completion, which then changes over to
    ``next_producer_id``.

    Args:
        was_open: False if nothing had been added, which only version 2 knows; the time of this step then counts as
            the beginning.
    """
    state = PREPARE_COMMIT if commit else PREPARE_ABORT
    _check(tx, state)
    epoch, last = tx.producer_epoch, tx.last_producer_epoch
    if version >= TRANSACTION_V2:
        epoch, last = min(epoch + 1, MAX_EPOCH), epoch
    return replace(
        tx,
        previous_producer_id=tx.producer_id,
        next_producer_id=next_producer_id,
        producer_epoch=epoch,
        last_producer_epoch=last,
        state=state,
        start_ms=tx.start_ms if was_open else wall_ms,
        update_ms=wall_ms,
        client_version=version,
    )


def completed(tx: Snapshot, wall_ms: int) -> Snapshot:
    """All markers are written."""
    state = COMPLETE_COMMIT if tx.state is PREPARE_COMMIT else COMPLETE_ABORT
    _check(tx, state)
    changes_over = tx.client_version >= TRANSACTION_V2 and tx.next_producer_id != NO_PRODUCER_ID
    return replace(
        tx,
        producer_id=tx.next_producer_id if changes_over else tx.producer_id,
        previous_producer_id=tx.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        producer_epoch=0 if changes_over else tx.producer_epoch,
        state=state,
        partitions=frozenset(),
        update_ms=wall_ms,
    )


def _check(tx: Snapshot, state: object) -> None:
    assert tx.state in VALID_PREVIOUS[state], f"{tx.state} does not lead to {state}"  # type: ignore[index]
