"""Snapshots as records of ``__transaction_state``."""

from __future__ import annotations

from ottla.broker.core.transactions.state import BY_STATUS, EMPTY
from ottla.broker.core.transactions.transaction import Snapshot
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.offsets_topic import CoordinatorRecord, decode_value
from ottla.protocol.records import TopicPartition
from ottla.protocol.transaction_log import (
    TransactionLogPartitions,
    TransactionLogValue,
    TransactionStatus,
    encode_transaction_value,
    transaction_key,
)


def record(transactional_id: str, tx: Snapshot) -> CoordinatorRecord:
    """The record that says ``tx``. Partitions are sorted, so that equal snapshots are equal bytes."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(tx.partitions):
        topics.setdefault(topic, []).append(partition)
    rows = [TransactionLogPartitions(topic=topic, partition_ids=ids) for topic, ids in topics.items()]
    value = TransactionLogValue(
        producer_id=tx.producer_id,
        previous_producer_id=tx.previous_producer_id,
        next_producer_id=tx.next_producer_id,
        producer_epoch=tx.producer_epoch,
        transaction_timeout_ms=tx.timeout_ms,
        transaction_status=tx.state.status,
        transaction_partitions=None if tx.state is EMPTY else rows,
        transaction_last_update_timestamp_ms=tx.update_ms,
        transaction_start_timestamp_ms=tx.start_ms,
        client_transaction_version=tx.client_version,
    )
    return CoordinatorRecord(transaction_key(transactional_id), encode_transaction_value(value))


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record that deletes a transactional id."""
    return CoordinatorRecord(transaction_key(transactional_id), None)


def snapshot(data: bytes) -> Snapshot:
    """Read a value.

    Raises:
        MalformedFrame: it does not parse, or has a state that there is not.
    """
    value = decode_value(TransactionLogValue, data)
    try:
        state = BY_STATUS[TransactionStatus(value.transaction_status)]
    except ValueError:
        raise MalformedFrame(f"there is no transaction state {value.transaction_status}") from None
    return Snapshot(
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(row.topic, partition)
            for row in value.transaction_partitions or ()
            for partition in row.partition_ids
        ),
        start_ms=value.transaction_start_timestamp_ms,
        update_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )
