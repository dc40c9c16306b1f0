"""ListGroups (key 16). KIP-518, KIP-848."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int16, Int32, Message, String, message, struct, wire


@message(versions=range(6), flexible_from=3)
class ListGroupsRequest(Message):
    """Ask for the groups, filtered by state and type."""

    states_filter: list[str] = wire(ArrayOf(String), since=4)
    types_filter: list[str] = wire(ArrayOf(String), since=5)


@struct
class ListedGroup:
    """One group in brief."""

    group_id: str = wire(String)
    protocol_type: str = wire(String)
    group_state: str = wire(String, since=4)
    group_type: str = wire(String, since=5)


@message(versions=range(6), flexible_from=3)
class ListGroupsResponse(Message):
    """The groups that this broker coordinates."""

    max_items = 1 << 20  # all that a cluster has may be asked for

    throttle_time_ms: int = wire(Int32, since=1)
    error_code: int = wire(Int16)
    groups: list[ListedGroup] = wire(ArrayOf(ListedGroup))
