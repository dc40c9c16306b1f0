"""A partition's memory of producers and transactions as one document, so that a start need not read whole logs.

The document says up to which offset of the log it has seen everything; whoever restores it reads on from there.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.core.topics.partition import Partition
from ottla.broker.core.topics.producers import ProducedBatch, ProducerState, Transaction

FORMAT = 1


class NotUsable(Exception):
    """The document is of another log, or says what cannot be."""


def take(partition: Partition) -> dict[str, Any]:
    """Everything up to the end of the log, as it is now; true once the log is durable so far."""
    log, transactions = partition.log, partition.transactions
    return {
        "format": FORMAT,
        "topic_id": str(partition.topic.topic_id),
        "offset": log.log_end_offset,
        "size_bytes": log.size_bytes,
        "leader_epoch": log.leader_epoch,
        "producers": [
            [
                producer_id,
                state.epoch,
                state.coordinator_epoch,
                state.last_append_ms,
                state.last_timestamp_ms,
                state.transaction.first_offset if state.transaction is not None else -1,
                [
                    [batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset]
                    for batch in state.batches
                ],
            ]
            for producer_id, state in partition.producers.items()
        ],
        "ended": [
            [change.ended.producer_id, change.ended.first_offset, change.ended.last_offset, change.aborts]
            for change in transactions.changes
            if change.ended is not None
        ],
        "aborted": transactions.aborted.rows(),
    }


def restore(partition: Partition, document: Any) -> int:
    """Bring a partition that has seen nothing to the state of a document; returns the offset to read on from.

    A document is no good for a log that ends before it: then the log has lost its end with the power, and what was
    appended since is not what the document has seen.

    Raises:
        NotUsable: nothing was restored.
    """
    log = partition.log
    try:
        if document["format"] != FORMAT or document["topic_id"] != str(partition.topic.topic_id):
            raise NotUsable("of another topic or version")
        offset, _ = int(document["offset"]), int(document["size_bytes"])
        if offset > log.high_watermark or log.epoch_end(document["leader_epoch"]).end_offset < offset:
            raise NotUsable("newer than the log")
        states = [_state(*row) for row in document["producers"]]
        ended = [Transaction(*map(int, row[:3])) for row in document["ended"]]
        aborts = [bool(row[3]) for row in document["ended"]]
        aborted = [tuple(map(int, row)) for row in document["aborted"]]
    except (KeyError, TypeError, ValueError) as error:
        raise NotUsable(f"unreadable: {error!r}") from None
    transactions = partition.transactions
    open_ones = [state.transaction for _, state in states if state.transaction is not None]
    for transaction in sorted([*open_ones, *ended], key=lambda transaction: transaction.first_offset):
        transactions.unstable[transaction.first_offset] = transaction
    for row in aborted:
        transactions.aborted.add(*row)
    for transaction, aborts_it in zip(ended, aborts, strict=True):
        transactions.complete(transaction, aborted=aborts_it)
    transactions.aborted.forget_below(log.log_start_offset)
    for producer_id, state in states:
        partition.producers.restore(producer_id, state)
    return max(offset, log.log_start_offset)


def _state(
    producer_id: int,
    epoch: int,
    coordinator_epoch: int,
    last_append_ms: int,
    last_timestamp_ms: int,
    first_offset: int,
    batches: list[list[int]],
) -> tuple[int, ProducerState]:
    state = ProducerState(int(epoch), int(last_append_ms))
    state.coordinator_epoch = int(coordinator_epoch)
    state.last_timestamp_ms = int(last_timestamp_ms)
    state.batches = [ProducedBatch(*map(int, batch)) for batch in batches]
    if first_offset >= 0:
        state.transaction = Transaction(int(producer_id), int(first_offset))
    return int(producer_id), state
