"""DescribeTransactions and ListTransactions. KIP-664, KIP-994, KIP-1152."""

from __future__ import annotations

from ottla.broker.core.coordination.shard import ShardState
from ottla.broker.core.transactions.machine import Machine
from ottla.broker.core.transactions.state import STATES
from ottla.broker.core.transactions.transaction import Snapshot
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import PartitionsOfTopic
from ottla.protocol.messages.describe_transactions import TransactionState as Described
from ottla.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.protocol.messages.list_transactions import TransactionState as Listed


def describe(m: Machine, transactional_id: str) -> Described:
    """One row of DescribeTransactions."""
    entry = m.find(transactional_id) if transactional_id else ErrorCode.INVALID_REQUEST
    if entry is ErrorCode.INVALID_PRODUCER_ID_MAPPING:
        entry = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    if isinstance(entry, ErrorCode):
        return Described(transactional_id=transactional_id, error_code=entry)
    tx = entry.current
    partitions = tx.partitions if entry.complete is None else entry.markers  # what is over is left out
    topics: dict[str, PartitionsOfTopic] = {}
    for tp in sorted(partitions):
        topics.setdefault(tp.topic, PartitionsOfTopic(topic=tp.topic, partitions=[])).partitions.append(tp.partition)
    return Described(
        transactional_id=transactional_id,
        transaction_state=tx.state.value,
        transaction_timeout_ms=tx.timeout_ms,
        transaction_start_time_ms=tx.start_ms,
        producer_id=tx.producer_id,
        producer_epoch=tx.producer_epoch,
        topics=list(topics.values()),
    )


def list_transactions(m: Machine, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """ListTransactions but for the pattern of ids, which takes longer than one entry may; see `Pattern`.

    Filters are joined by "and", an absent one lets everything through.
    """
    if any(shard.state is ShardState.LOADING for shard in m.shards):
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = {STATES[name] for name in request.state_filters if name in STATES}
    producer_ids = set(request.producer_id_filters)

    def is_wanted(tx: Snapshot) -> bool:
        return (
            (not producer_ids or tx.producer_id in producer_ids)
            and (not request.state_filters or tx.state in states)
            and (request.duration_filter < 0 or m.wall_ms - tx.start_ms > request.duration_filter)
        )

    return ListTransactionsResponse(
        unknown_state_filters=[name for name in dict.fromkeys(request.state_filters) if name not in STATES],
        transaction_states=[
            Listed(
                transactional_id=entry.transactional_id,
                producer_id=entry.current.producer_id,
                transaction_state=entry.current.state.value,
            )
            for shard in m.shards
            for entry in shard.entries.values()
            if is_wanted(entry.current)
        ],
    )
