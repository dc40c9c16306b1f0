"""LeaveGroup (key 13): one member or, from version 3, several. KIP-345, KIP-800."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int16, Int32, Message, String, message, struct, wire


@struct
class MemberIdentity:
    """A member to remove: by member id, by instance id, or by both."""

    member_id: str = wire(String, since=3)
    group_instance_id: str | None = wire(String, since=3, nullable_since=3, default=None)
    reason: str | None = wire(String, since=5, nullable_since=5, default=None)


@message(versions=range(6), flexible_from=4)
class LeaveGroupRequest(Message):
    """Leave a group, or have members removed from it."""

    group_id: str = wire(String)
    member_id: str = wire(String, until=2)
    members: list[MemberIdentity] = wire(ArrayOf(MemberIdentity), since=3)


@struct
class MemberResponse:
    """The outcome for one member."""

    member_id: str = wire(String, since=3)
    group_instance_id: str | None = wire(String, since=3, nullable_since=3)
    error_code: int = wire(Int16, since=3)


@message(versions=range(6), flexible_from=4)
class LeaveGroupResponse(Message):
    """The outcome; for each member from version 3."""

    throttle_time_ms: int = wire(Int32, since=1)
    error_code: int = wire(Int16)
    members: list[MemberResponse] = wire(ArrayOf(MemberResponse), since=3)
