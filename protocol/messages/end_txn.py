"""EndTxn (key 26): commit or abort. KIP-98, KIP-890."""

from __future__ import annotations

from ottla.protocol.schema import Boolean, Int16, Int32, Int64, Message, String, message, wire


@message(versions=range(6), flexible_from=3)
class EndTxnRequest(Message):
    """Commit the ongoing transaction, or abort it."""

    transactional_id: str = wire(String)
    producer_id: int = wire(Int64)
    producer_epoch: int = wire(Int16)
    committed: bool = wire(Boolean)


@message(versions=range(6), flexible_from=3)
class EndTxnResponse(Message):
    """The outcome; from version 5 with the id and epoch for the next transaction."""

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16)
    producer_id: int = wire(Int64, since=5, default=-1)
    producer_epoch: int = wire(Int16, since=5, default=-1)
