"""DescribeGroups (key 15): classic groups in detail. KIP-345, KIP-1043."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Boolean, Bytes, Int16, Int32, Message, String, Words, message, struct, wire


@message(versions=range(7), flexible_from=5)
class DescribeGroupsRequest(Message):
    """Ask for groups in detail."""

    groups: list[str] = wire(ArrayOf(String))
    include_authorized_operations: bool = wire(Boolean, since=3)


@struct
class DescribedGroupMember:
    """A member, with the subscription and assignment that the group protocol carries."""

    member_id: str = wire(String)
    group_instance_id: str | None = wire(String, since=4, nullable_since=4, default=None)
    client_id: str = wire(String)
    client_host: str = wire(String)
    member_metadata: bytes = wire(Bytes)
    member_assignment: bytes = wire(Bytes)


@struct
class DescribedGroup:
    """A group: state, protocol and members."""

    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, since=6, nullable_since=6, default=None)
    group_id: str = wire(String)
    group_state: str = wire(String)
    protocol_type: str = wire(String)
    protocol_data: str = wire(String)
    members: list[DescribedGroupMember] = wire(ArrayOf(DescribedGroupMember))
    authorized_operations: int = wire(Int32, since=3, default=-2147483648)


@message(versions=range(7), flexible_from=5)
class DescribeGroupsResponse(Message):
    """The groups, in the order asked."""

    max_items = 1 << 20  # all that a cluster has may be asked for

    throttle_time_ms: int = wire(Int32, since=1)
    groups: list[DescribedGroup] = wire(ArrayOf(DescribedGroup, repeats=True))
