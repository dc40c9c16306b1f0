"""DeleteGroups (key 42). KIP-229."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int16, Int32, Message, String, message, struct, wire


@message(versions=range(3), flexible_from=2)
class DeleteGroupsRequest(Message):
    """Delete groups that have no members, with their offsets."""

    groups_names: list[str] = wire(ArrayOf(String))


@struct
class DeletableGroupResult:
    """The outcome for one group."""

    group_id: str = wire(String)
    error_code: int = wire(Int16)


@message(versions=range(3), flexible_from=2)
class DeleteGroupsResponse(Message):
    """The outcome for each group."""

    throttle_time_ms: int = wire(Int32)
    results: list[DeletableGroupResult] = wire(ArrayOf(DeletableGroupResult))
