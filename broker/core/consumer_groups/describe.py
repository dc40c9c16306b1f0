"""ConsumerGroupDescribe: consumer groups as the log has them for certain (1.5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from ottla.broker.core.consumer_groups.assignors.preferred import preferred_assignor
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.state import Member, State
from ottla.broker.core.consumer_groups.target import NOTHING, votes_of
from ottla.broker.core.consumer_groups.topics import Topics
from ottla.broker.core.groups.machine import Machine
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedConsumerGroupMember,
    DescribedTopicPartitions,
)
from ottla.protocol.steps import Steps, finished

AT_ONCE = 500
"""Groups and members that are described without a pause."""

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""The types of members, as they are told (KIP-1099)."""


def describe_groups(
    m: Machine, request: ConsumerGroupDescribeRequest, errors: Mapping[str, ErrorCode]
) -> ConsumerGroupDescribeResponse | Steps[ConsumerGroupDescribeResponse]:
    """The groups of a request, each as often as it was asked for; in steps if there is much to tell.

    Args:
        errors: group id → why this broker cannot speak for the group.
    """
    if not m.config.serves_consumer_protocol:
        refused = [_error(group_id, ErrorCode.UNSUPPORTED_VERSION) for group_id in request.group_ids]
        return ConsumerGroupDescribeResponse(groups=refused)
    known = (m.groups.get(group_id) for group_id in request.group_ids)
    count = len(request.group_ids) + sum(group.member_count for group in known if isinstance(group, ConsumerGroup))
    steps = _described(m, request, errors)
    return finished(steps) if count <= AT_ONCE else steps


def _described(
    m: Machine, request: ConsumerGroupDescribeRequest, errors: Mapping[str, ErrorCode]
) -> Steps[ConsumerGroupDescribeResponse]:
    nameless = [_error("", ErrorCode.INVALID_GROUP_ID) for group_id in request.group_ids if not group_id]
    response = ConsumerGroupDescribeResponse(groups=nameless)
    count = 0
    for group_id in filter(None, request.group_ids):
        if group_id in errors:
            one = _error(group_id, errors[group_id])
        else:
            one = describe(m, group_id)
        response.groups.append(one)
        count += 1 + len(one.members)
        if count > AT_ONCE:
            count = 0
            yield None
    return response


def _error(group_id: str, error: ErrorCode, text: str | None = None) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(group_id=group_id, error_code=error, error_message=text)


def describe(m: Machine, group_id: str) -> DescribedConsumerGroup:
    """One group in detail."""
    group = m.groups.get(group_id)
    if group is None or not group.shown_state:
        return _error(group_id, ErrorCode.GROUP_ID_NOT_FOUND, f"There is no group {group_id}")
    if not isinstance(group, ConsumerGroup):
        text = f"Group {group_id} is a {group.kind} group, and no consumer group"
        return _error(group_id, ErrorCode.GROUP_ID_NOT_FOUND, text)
    state = group.durable
    return DescribedConsumerGroup(
        group_id=group_id,
        group_state=group.shown_state,
        group_epoch=state.epoch,
        assignment_epoch=state.assignment_epoch,
        assignor_name=preferred_assignor(votes_of(state), None, None) or m.config.assignors[0],
        members=[_member(state, member, m.topics) for member in state.members.values()],
    )


def _member(state: State, member: Member, topics: Topics) -> DescribedConsumerGroupMember:
    has: dict[UUID, list[int]] = {}
    for owned in (member.assigned, member.pending):
        for topic_id, partitions in owned.items():
            has.setdefault(topic_id, []).extend(partitions)
    return DescribedConsumerGroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.names),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(has, topics),
        target_assignment=_assignment(state.targets.get(member.member_id, NOTHING), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[UUID, Iterable[int]], topics: Topics) -> DescribedAssignment:
    """Partitions of topics that there still are."""
    return DescribedAssignment(
        topic_partitions=[
            DescribedTopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(numbers))
            for topic_id, numbers in partitions.items()
            if (topic := topics.by_id.get(topic_id)) is not None and numbers
        ]
    )
