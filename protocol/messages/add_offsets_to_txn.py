"""AddOffsetsToTxn (key 25): a group's offsets are to be committed by a transaction. KIP-98, KIP-890."""

from __future__ import annotations

from ottla.protocol.schema import Int16, Int32, Int64, Message, String, message, wire


@message(versions=range(5), flexible_from=3)
class AddOffsetsToTxnRequest(Message):
    """Add the partition that keeps a group's offsets to the ongoing transaction."""

    transactional_id: str = wire(String)
    producer_id: int = wire(Int64)
    producer_epoch: int = wire(Int16)
    group_id: str = wire(String)


@message(versions=range(5), flexible_from=3)
class AddOffsetsToTxnResponse(Message):
    """The outcome."""

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16)
