"""DescribeGroups and ListGroups."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.core.coordination.shard import ShardState
from ottla.broker.core.effects import Asker
from ottla.broker.core.groups.classic.group import Group
from ottla.broker.core.groups.classic.state import DEAD, STABLE
from ottla.broker.core.groups.machine import Machine
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

REPORTS_ABSENT_GROUPS = 6
"""From this DescribeGroups version on an absent group is an error (KIP-1043)."""

GROUP_TYPE = "classic"


def describe_groups(
    m: Machine, request: DescribeGroupsRequest, ctx: Asker, errors: Mapping[str, ErrorCode]
) -> DescribeGroupsResponse:
    """The groups of a request. ``errors`` are those that this broker cannot speak for, and why."""
    described = {
        group_id: DescribedGroup(group_id=group_id, error_code=errors[group_id])
        if group_id in errors
        else describe(m, group_id, ctx.api_version)
        for group_id in dict.fromkeys(request.groups)
    }
    return DescribeGroupsResponse(groups=[described[group_id] for group_id in request.groups])


def describe(m: Machine, group_id: str, api_version: int) -> DescribedGroup:
    """One group in detail. Before version 6 a group that does not exist is shown as ``Dead``, without an error."""
    group = m.groups.get(group_id)
    if group is None:
        absent = DescribedGroup(group_id=group_id, group_state=DEAD.value)
        if api_version >= REPORTS_ABSENT_GROUPS:
            absent.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            absent.error_message = f"Group {group_id} not found."
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


def list_groups(m: Machine, request: ListGroupsRequest) -> ListGroupsResponse:
    """The groups of all shards of this broker. While one of them loads there is no answer but that."""
    if any(shard.state is ShardState.LOADING for shard in m.shards):
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = [name.strip().lower() for name in request.states_filter]
    types = [name.lower() for name in request.types_filter]  # not stripped: Kafka does not, either
    if types and GROUP_TYPE not in types:
        return ListGroupsResponse()
    chosen = (group for group in m.groups.values() if not states or group.state.value.lower() in states)
    return ListGroupsResponse(groups=[_listed(group) for group in chosen])


def _listed(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=GROUP_TYPE,
    )
