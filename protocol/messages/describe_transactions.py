"""DescribeTransactions (key 65): transactions in detail. KIP-664."""

from __future__ import annotations

from ottla.protocol.message_parts import PartitionsOfTopic
from ottla.protocol.schema import ArrayOf, Int16, Int32, Int64, Message, String, message, struct, wire


@message(versions=range(1), flexible_from=0)
class DescribeTransactionsRequest(Message):
    """Ask for transactions by transactional id."""

    transactional_ids: list[str] = wire(ArrayOf(String))


@struct
class TransactionState:
    """A transactional id: its producer, its state, and the partitions of its transaction."""

    error_code: int = wire(Int16)
    transactional_id: str = wire(String)
    transaction_state: str = wire(String)
    transaction_timeout_ms: int = wire(Int32)
    transaction_start_time_ms: int = wire(Int64)
    producer_id: int = wire(Int64)
    producer_epoch: int = wire(Int16)
    topics: list[PartitionsOfTopic] = wire(ArrayOf(PartitionsOfTopic))


@message(versions=range(1), flexible_from=0)
class DescribeTransactionsResponse(Message):
    """The transactions, in the order asked."""

    max_items = 1 << 20  # all that a cluster has may be asked for

    throttle_time_ms: int = wire(Int32)
    transaction_states: list[TransactionState] = wire(ArrayOf(TransactionState, repeats=True))
