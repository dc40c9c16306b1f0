"""ListTransactions (key 66). KIP-664, KIP-994, KIP-1152."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int16, Int32, Int64, Message, String, message, struct, wire


@message(versions=range(3), flexible_from=0)
class ListTransactionsRequest(Message):
    """Ask for transactions, filtered by state, producer, age in ms and, from version 2, a regular expression."""

    state_filters: list[str] = wire(ArrayOf(String))
    producer_id_filters: list[int] = wire(ArrayOf(Int64))
    duration_filter: int = wire(Int64, since=1, default=-1)
    transactional_id_pattern: str | None = wire(String, since=2, nullable_since=2, default=None)


@struct
class TransactionState:
    """One transaction in brief."""

    transactional_id: str = wire(String)
    producer_id: int = wire(Int64)
    transaction_state: str = wire(String)


@message(versions=range(3), flexible_from=0)
class ListTransactionsResponse(Message):
    """The transactions that this broker coordinates."""

    max_items = 1 << 20  # all that a cluster has may be asked for

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16)
    unknown_state_filters: list[str] = wire(ArrayOf(String))
    transaction_states: list[TransactionState] = wire(ArrayOf(TransactionState))
