"""InitProducerId (key 22): an identity for an idempotent producer. KIP-98, KIP-360."""

from __future__ import annotations

from ottla.protocol.schema import Int16, Int32, Int64, Message, String, message, wire


@message(versions=range(6), flexible_from=2)
class InitProducerIdRequest(Message):
    """Ask for a producer id, or for a new epoch of one."""

    transactional_id: str | None = wire(String, nullable_since=0)
    transaction_timeout_ms: int = wire(Int32)
    producer_id: int = wire(Int64, since=3, default=-1)
    producer_epoch: int = wire(Int16, since=3, default=-1)


@message(versions=range(6), flexible_from=2)
class InitProducerIdResponse(Message):
    """The producer id and its epoch."""

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16)
    producer_id: int = wire(Int64, default=-1)
    producer_epoch: int = wire(Int16)
