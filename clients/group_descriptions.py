"""Descriptions of groups of both protocols, made of the broker's answers."""

from __future__ import annotations

from ottla.clients.admin_structs import GroupDescription, MemberDescription
from ottla.clients.errors import KafkaError, error_of
from ottla.clients.structs import BrokerInfo
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.messages import consumer_group_describe, describe_groups
from ottla.protocol.records import TopicPartition

NO_SUCH_GROUP = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
"""The answers of a broker that has no such group, or no groups of the ``consumer`` protocol at all."""
CLASSIC_MEMBER = 0


def classic_group(group: describe_groups.DescribedGroup, coordinator: BrokerInfo) -> GroupDescription | KafkaError:
    """A group as DescribeGroups has it; Dead if there is none of the classic protocol."""
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:  # version 6 says so what earlier ones called Dead
        return GroupDescription(group.group_id, "Dead", "", "", [], coordinator)
    if group.error_code:
        return error_of(group.error_code, f"describe group {group.group_id!r}", group.error_message)
    is_consumer = group.protocol_type == PROTOCOL_TYPE
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        [_classic_member(member, is_consumer) for member in group.members],
        coordinator,
        # Dead: there may be a group of the other protocol.
        "" if group.group_state == "Dead" else "classic",
    )


def _classic_member(member: describe_groups.DescribedGroupMember, is_consumer: bool) -> MemberDescription:
    topics: list[str] = []
    assignment: list[TopicPartition] = []
    user_data = subscription_user_data = b""
    if is_consumer:
        try:
            if member.member_metadata:
                subscription = decode_subscription(member.member_metadata)
                topics, subscription_user_data = subscription.topics, subscription.user_data or b""
            if member.member_assignment:
                given = decode_assignment(member.member_assignment)
                assignment = [TopicPartition(one.topic, p) for one in given.assigned_partitions for p in one.partitions]
                user_data = given.user_data or b""
        except MalformedFrame:
            pass  # a member may write what it likes; the rest of the description stands
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        topics,
        assignment,
        user_data=user_data,
        subscription_user_data=subscription_user_data,
    )


def consumer_group(
    group: consumer_group_describe.DescribedConsumerGroup, coordinator: BrokerInfo
) -> GroupDescription | KafkaError | None:
    """A group as ConsumerGroupDescribe has it; None if there is none of the ``consumer`` protocol."""
    if group.error_code in NO_SUCH_GROUP:
        return None
    if group.error_code:
        return error_of(group.error_code, f"describe group {group.group_id!r}", group.error_message)
    return GroupDescription(
        group.group_id,
        group.group_state,
        PROTOCOL_TYPE,
        group.assignor_name,
        [_consumer_member(member) for member in group.members],
        coordinator,
        "consumer",
        group.group_epoch,
        group.assignment_epoch,
    )


def _consumer_member(member: consumer_group_describe.DescribedConsumerGroupMember) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.subscribed_topic_names,
        _partitions(member.assignment),
        # Before version 1 nobody says; then none can be of the classic protocol.
        "classic" if member.member_type == CLASSIC_MEMBER else "consumer",
        member.member_epoch,
        _partitions(member.target_assignment),
        member.subscribed_topic_regex or "",
    )


def _partitions(assignment: consumer_group_describe.DescribedAssignment) -> list[TopicPartition]:
    return [TopicPartition(one.topic_name, number) for one in assignment.topic_partitions for number in one.partitions]
