"""DescribeGroups and ListGroups: at once, or in steps where there is much to tell.

In steps each group is told as it is at one moment, and all that there were when the first step was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ottla.broker.core.coordination.shard import ShardState
from ottla.broker.core.effects import Asker
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.state import DEAD, STABLE
from ottla.broker.core.groups.group import Group
from ottla.broker.core.groups.machine import Machine
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ottla.protocol.steps import Steps, finished

REPORTS_ABSENT_GROUPS = 6
"""From this DescribeGroups version on an absent group is an error (KIP-1043)."""

AT_ONCE = 500
"""Groups and members that are described, or groups that are listed, without a pause."""

LOOKED_AT = 5_000
"""Groups of which some are chosen in one step."""


def describe_groups(
    m: Machine, request: DescribeGroupsRequest, ctx: Asker, errors: Mapping[str, ErrorCode]
) -> DescribeGroupsResponse | Steps[DescribeGroupsResponse]:
    """The groups of a request. ``errors`` are those that this broker cannot speak for, and why."""
    names = request.groups
    groups = (m.groups.get(group_id) for group_id in names)
    is_little = (
        len(names) <= AT_ONCE
        and sum(1 + len(group.members) for group in groups if isinstance(group, ClassicGroup)) <= AT_ONCE
    )
    steps = _described(m, request, ctx, errors)
    return finished(steps) if is_little else steps


def _described(
    m: Machine, request: DescribeGroupsRequest, ctx: Asker, errors: Mapping[str, ErrorCode]
) -> Steps[DescribeGroupsResponse]:
    described: dict[str, DescribedGroup] = {}
    count = 0
    for group_id in request.groups:
        if group_id in described:
            continue
        if group_id in errors:
            one = DescribedGroup(group_id=group_id, error_code=errors[group_id])
        else:
            one = describe(m, group_id, ctx.api_version)
        described[group_id] = one
        count += 1 + len(one.members)
        if count > AT_ONCE:
            count = 0
            yield None
    return DescribeGroupsResponse(groups=[described[group_id] for group_id in request.groups])


def describe(m: Machine, group_id: str, api_version: int) -> DescribedGroup:
    """One classic group in detail. Before version 6 one that does not exist is shown as ``Dead``, without an error."""
    group = m.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        absent = DescribedGroup(group_id=group_id, group_state=DEAD.value)
        if api_version >= REPORTS_ABSENT_GROUPS:
            absent.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            kind = "Group" if group is None else "Classic group"
            absent.error_message = f"{kind} {group_id} not found."
        return absent
    stable = group.state is STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol_name) if stable else b"",
                member_assignment=member.assignment,
            )
            for member in group.members.values()
        ],
    )


def list_groups(m: Machine, request: ListGroupsRequest) -> ListGroupsResponse | Steps[ListGroupsResponse]:
    """The groups of all shards of this broker. While one of them loads there is no answer but that."""
    if any(shard.state is ShardState.LOADING for shard in m.shards):
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = [name.strip().lower() for name in request.states_filter]
    types = [name.lower() for name in request.types_filter]  # not stripped: Kafka does not, either
    groups = list(m.groups.values())
    if len(groups) > AT_ONCE:
        return _listing(groups, states, types)
    return ListGroupsResponse(groups=[_listed(group) for group in groups if _is_in(group, states, types)])


def _listing(groups: Sequence[Group], states: Sequence[str], types: Sequence[str]) -> Steps[ListGroupsResponse]:
    chosen: list[Group] = []
    for begin in range(0, len(groups), LOOKED_AT):
        chosen.extend(group for group in groups[begin : begin + LOOKED_AT] if _is_in(group, states, types))
        yield None
    return ListGroupsResponse(groups=_Rows(chosen))


def _is_in(group: Group, states: Sequence[str], types: Sequence[str]) -> bool:
    state = group.shown_state
    return bool(state) and (not states or state.lower() in states) and (not types or group.kind in types)


class _Rows(list[ListedGroup]):
    """Rows of groups, which are made as they are encoded: a million would be held all at once otherwise."""

    def __init__(self, groups: Sequence[Group]) -> None:
        super().__init__()
        self.groups = groups

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[ListedGroup]:
        return map(_listed, self.groups)


def _listed(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.shown_state,
        group_type=group.kind,
    )
