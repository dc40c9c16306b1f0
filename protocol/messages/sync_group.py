"""SyncGroup (key 14): the second half of a rebalance. KIP-345, KIP-559."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Bytes, Int16, Int32, Message, String, message, struct, wire


@struct
class SyncGroupRequestAssignment:
    """The assignment of one member."""

    member_id: str = wire(String)
    assignment: bytes = wire(Bytes)


@message(versions=range(6), flexible_from=4)
class SyncGroupRequest(Message):
    """Ask for one's assignment; the leader's request brings everybody's."""

    group_id: str = wire(String)
    generation_id: int = wire(Int32)
    member_id: str = wire(String)
    group_instance_id: str | None = wire(String, since=3, nullable_since=3, default=None)
    protocol_type: str | None = wire(String, since=5, nullable_since=5, default=None)
    protocol_name: str | None = wire(String, since=5, nullable_since=5, default=None)
    assignments: list[SyncGroupRequestAssignment] = wire(ArrayOf(SyncGroupRequestAssignment))


@message(versions=range(6), flexible_from=4)
class SyncGroupResponse(Message):
    """The member's assignment."""

    throttle_time_ms: int = wire(Int32, since=1)
    error_code: int = wire(Int16)
    protocol_type: str | None = wire(String, since=5, nullable_since=5, default=None)
    protocol_name: str | None = wire(String, since=5, nullable_since=5, default=None)
    assignment: bytes = wire(Bytes)
