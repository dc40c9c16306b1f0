"""JoinGroup (key 11): the first half of a rebalance. KIP-345, KIP-394, KIP-559, KIP-800, KIP-814."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Boolean, Bytes, Int16, Int32, Message, String, message, struct, wire


@struct
class JoinGroupRequestProtocol:
    """An assignor that the member can use, and what it subscribes to."""

    name: str = wire(String)
    metadata: bytes = wire(Bytes)


@message(versions=range(10), flexible_from=6)
class JoinGroupRequest(Message):
    """Ask to be a member of a group's next generation."""

    group_id: str = wire(String)
    session_timeout_ms: int = wire(Int32)
    rebalance_timeout_ms: int = wire(Int32, since=1, default=-1)
    member_id: str = wire(String)
    group_instance_id: str | None = wire(String, since=5, nullable_since=5, default=None)
    protocol_type: str = wire(String)
    protocols: list[JoinGroupRequestProtocol] = wire(ArrayOf(JoinGroupRequestProtocol))
    reason: str | None = wire(String, since=8, nullable_since=8, default=None)


@struct
class JoinGroupResponseMember:
    """A member as the leader sees it."""

    member_id: str = wire(String)
    group_instance_id: str | None = wire(String, since=5, nullable_since=5, default=None)
    metadata: bytes = wire(Bytes)


@message(versions=range(10), flexible_from=6)
class JoinGroupResponse(Message):
    """The generation that was formed; the member list goes to the leader alone."""

    throttle_time_ms: int = wire(Int32, since=2)
    error_code: int = wire(Int16)
    generation_id: int = wire(Int32, default=-1)
    protocol_type: str | None = wire(String, since=7, nullable_since=7, default=None)
    protocol_name: str | None = wire(String, nullable_since=7)
    leader: str = wire(String)
    skip_assignment: bool = wire(Boolean, since=9)
    member_id: str = wire(String)
    members: list[JoinGroupResponseMember] = wire(ArrayOf(JoinGroupResponseMember))
