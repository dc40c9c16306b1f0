"""The right answer to each request, given the state before it: a second version of the group protocol's tables.

`PARKED` stands for "no answer yet". Nothing here looks at how the coordinator comes to its answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.broker.core.coordination.shard import ShardState
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from tests.sim.views import GroupView, Step
from tests.sim.watched import LONGEST_METADATA

PARKED = -1000

EMPTY, PREPARING, COMPLETING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"

_REFUSED = {
    ShardState.ABSENT: ErrorCode.NOT_COORDINATOR,
    ShardState.FAILED: ErrorCode.NOT_COORDINATOR,
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.ACTIVE: ErrorCode.NONE,
}


def unavailable(step: Step, group_id: str) -> ErrorCode:
    return _REFUSED[step.shards[coordinator_partition(group_id, len(step.shards))]]


def identity(group: GroupView, member_id: str, instance_id: str | None) -> ErrorCode:
    if instance_id is not None:
        if instance_id not in group.static_members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.static_members[instance_id] != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def join(step: Step, max_size: int) -> tuple[int, str | None]:
    """The error (`PARKED`, or NONE for an answer at once), and the member id in it; None if that is a new one."""
    request, echo = step.request, step.request.member_id
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID, echo
    if not 6_000 <= request.session_timeout_ms <= 1_800_000:
        return ErrorCode.INVALID_SESSION_TIMEOUT, echo
    if error := unavailable(step, request.group_id):
        return error, ""
    group = step.before.get(request.group_id)
    if group is None and echo:
        return ErrorCode.UNKNOWN_MEMBER_ID, echo
    if group is not None and not _admitted(group, echo, max_size):
        return ErrorCode.GROUP_MAX_SIZE_REACHED, ""
    if not _supported(group, request):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL, echo
    if not echo:
        if request.group_instance_id is None and step.ctx.api_version >= 4:
            return ErrorCode.MEMBER_ID_REQUIRED, None
        return PARKED, None
    assert group is not None
    if echo in group.pending:
        return (PARKED, echo) if request.group_instance_id is None else (ErrorCode.UNKNOWN_SERVER_ERROR, "")
    if error := identity(group, echo, request.group_instance_id):
        return error, echo
    same = [(item.name, item.metadata) for item in request.protocols] == list(group.members[echo].protocols)
    follows = group.leader_id != echo
    if group.state == COMPLETING and same and not group.unannounced:
        return ErrorCode.NONE, echo
    if group.state == STABLE and same and follows:
        return ErrorCode.NONE, echo
    return PARKED, echo


def _admitted(group: GroupView, member_id: str, max_size: int) -> bool:
    member = group.members.get(member_id)
    if group.state == EMPTY:
        return True
    if group.state == PREPARING:
        return (member is not None and member.parked_join is not None) or group.parked_joins < max_size
    return member is not None or len(group.members) < max_size


def _supported(group: GroupView | None, request: Any) -> bool:
    names = [item.name for item in request.protocols]
    if group is None or group.state == EMPTY:
        return bool(request.protocol_type and names)
    if request.protocol_type != group.protocol_type:
        return False
    return any(
        all(any(name == theirs for theirs, _ in member.protocols) for member in group.members.values())
        for name in names
    )


def sync(step: Step) -> int:
    request = step.request
    if step.ctx.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if error := unavailable(step, request.group_id):
        return error
    group = step.before.get(request.group_id)
    if group is None or group.state == EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if error := identity(group, request.member_id, request.group_instance_id):
        return error
    if request.generation_id != group.generation or group.unannounced:
        return ErrorCode.ILLEGAL_GENERATION
    for asked, actual in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if asked is not None and actual is not None and asked != actual:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state == PREPARING:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return PARKED if group.state == COMPLETING else ErrorCode.NONE


def heartbeat(step: Step) -> int:
    request = step.request
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if error := unavailable(step, request.group_id):
        return ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error
    group = step.before.get(request.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if error := identity(group, request.member_id, request.group_instance_id):
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state == PREPARING else ErrorCode.NONE


def leave(step: Step) -> tuple[int, list[int]]:
    """The error of the whole request, and those of its entries."""
    request = step.request
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID, []
    if error := unavailable(step, request.group_id):
        return error, []
    entries = leave_entries(step)
    group = step.before.get(request.group_id)
    if group is None:
        return ErrorCode.NONE, [ErrorCode.UNKNOWN_MEMBER_ID] * len(entries)
    gone: list[str] = []
    return ErrorCode.NONE, [_leave_one(group, member_id, instance_id, gone) for member_id, instance_id in entries]


def leave_entries(step: Step) -> list[tuple[str, str | None]]:
    request = step.request
    if step.ctx.api_version < 3:
        return [(request.member_id or next((item.member_id for item in request.members), ""), None)]
    return [(item.member_id, item.group_instance_id) for item in request.members]


def _leave_one(group: GroupView, member_id: str, instance_id: str | None, gone: list[str]) -> int:
    if not member_id:
        owner = group.static_members.get(instance_id) if instance_id is not None else None
        if owner is None or owner in gone:
            return ErrorCode.UNKNOWN_MEMBER_ID
        gone.append(owner)
        return ErrorCode.NONE
    if member_id in gone:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_id not in group.pending:
        if instance_id is not None and group.static_members.get(instance_id) in gone:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if error := identity(group, member_id, instance_id):
            return error
    gone.append(member_id)
    return ErrorCode.NONE


def commit(step: Step) -> int:
    """The error of the group, for every partition that exists."""
    request, generation = step.request, step.request.generation_id_or_member_epoch
    if error := unavailable(step, request.group_id):
        return error
    group = step.before.get(request.group_id)
    if group is None:
        if generation < 0:
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if step.ctx.api_version >= 9 else ErrorCode.ILLEGAL_GENERATION
    if generation < 0 and group.state == EMPTY:
        return ErrorCode.NONE
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if error := identity(group, request.member_id, request.group_instance_id):
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state == COMPLETING else ErrorCode.NONE


def commit_partitions(step: Step, error: int) -> dict[tuple[str, int], int]:
    """The error of each partition, given that of the group."""
    found: dict[tuple[str, int], int] = {}
    for topic in step.request.topics:
        for item in topic.partitions:
            key = topic.name, item.partition_index
            metadata = item.committed_metadata or ""
            too_long = len(metadata.encode("utf-16-be")) // 2 > LONGEST_METADATA
            found[key] = step.refused.get(key) or error or (ErrorCode.OFFSET_METADATA_TOO_LARGE if too_long else 0)
    return found


def delete_offsets(step: Step, subscribed: Mapping[str, bool]) -> tuple[int, dict[tuple[str, int], int]]:
    """The error of the whole request, and that of each partition.

    Args:
        subscribed: which topics the group uses.
    """
    request = step.request
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID, {}
    if error := unavailable(step, request.group_id):
        return error, {}
    group = step.before.get(request.group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND, {}
    if group.state != EMPTY and group.protocol_type != PROTOCOL_TYPE:
        return ErrorCode.NON_EMPTY_GROUP, {}
    found: dict[tuple[str, int], int] = {}
    for topic in request.topics:
        for item in topic.partitions:
            key = topic.name, item.partition_index
            used = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed[topic.name] else ErrorCode.NONE
            found[key] = step.refused.get(key) or used
    return ErrorCode.NONE, found


def delete_groups(step: Step) -> dict[str, int]:
    found: dict[str, int] = {}
    for group_id in step.request.groups_names:
        group = step.before.get(group_id)
        if error := unavailable(step, group_id):
            found[group_id] = error
        elif group is None:
            found[group_id] = ErrorCode.GROUP_ID_NOT_FOUND
        else:
            found[group_id] = ErrorCode.NONE if group.state == EMPTY else ErrorCode.NON_EMPTY_GROUP
    return found
