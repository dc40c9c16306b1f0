"""A classic group becomes a consumer group, because a member of the consumer protocol comes to it (8.4, 8.5)."""

from __future__ import annotations

from ottla.broker.core.consumer_groups.changes import Change, Refused
from ottla.broker.core.consumer_groups.facts import (
    Contradiction,
    GroupEpoch,
    MemberCurrent,
    MemberSaid,
    MemberTarget,
    TargetEpoch,
)
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.partitions import by_id
from ottla.broker.core.consumer_groups.state import ClassicProtocols, Member, names_of
from ottla.broker.core.events import ConversionRefused
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.member import Member as ClassicMember
from ottla.broker.core.groups.classic.rebalance import answer_parked
from ottla.broker.core.groups.machine import Machine
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, Assignment, decode_assignment, decode_subscription
from ottla.protocol.errors import ErrorCode, MalformedFrame


def check(m: Machine, group: ClassicGroup) -> str:
    """Why a classic group cannot become a consumer group, as far as that does not depend on what its members said."""
    if group.is_empty:
        return ""
    if not m.config.may_convert("upgrade"):
        return "group.consumer.migration.policy does not allow it"
    if group.protocol_type != PROTOCOL_TYPE:
        return f"its members are of the protocol type {group.protocol_type}"
    if len(group.members) > m.config.group_consumer_max_size:
        return f"it has more members than group.consumer.max.size={m.config.group_consumer_max_size}"
    return ""


def convert(change: Change, group: ClassicGroup) -> None:
    """Let a consumer group begin with the members of a classic one, and what they have (R8.14).

    Members whose requests are parked are told to join again, whatever comes of it (R8.13).

    Raises:
        Refused: the group stays as it is.
    """
    m = change.m
    if problem := check(m, group):
        raise refusal(change, group, problem)
    if group.is_empty:
        return
    change.announce_now()
    change.told_to_rejoin = answer_parked(m, group, ErrorCode.REBALANCE_IN_PROGRESS)
    for member in group.members.values():
        m.ensure_session(group, member)
    members = [_member(change, group, member) for member in group.members.values()]
    for one in members:
        change.add(MemberSaid(one))
    generation = group.generation
    change.add(GroupEpoch(generation, m.topics.hash_of(change.state.subscriptions.topics())))
    for one in members:
        change.add(MemberTarget(one.member_id, {topic_id: tuple(has) for topic_id, has in one.assigned.items()}))
    change.add(TargetEpoch(generation, 0))
    try:
        for one in members:
            change.add(MemberCurrent.of(one))
    except Contradiction:
        # The leader gave a partition to two members, which no consumer group can have.
        raise refusal(change, group, "two members have the same partition", ErrorCode.UNKNOWN_SERVER_ERROR) from None


def refusal(
    change: Change, group: ClassicGroup, problem: str, error: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND
) -> Refused:
    """The refusal of a conversion, which observers are told of."""
    change.announce_now()
    told = change.told_to_rejoin
    change.m.emit(ConversionRefused(group_id=group.group_id, kind=group.kind, reason=problem, told_to_rejoin=told))
    text = f"Classic group {group.group_id} cannot become a consumer group: {problem}"
    return Refused(error, None if error is ErrorCode.UNKNOWN_SERVER_ERROR else text)  # 1.4


def _member(change: Change, group: ClassicGroup, member: ClassicMember) -> Member:
    """A member as the consumer group has it (R8.14)."""
    topics, generation, member_id = change.m.topics, group.generation, member.member_id
    try:
        assignment = decode_assignment(member.assignment) if member.assignment else Assignment(assigned_partitions=[])
        if assignment.user_data:
            problem = f"the assignment of member {member_id} has user data of the assignor, which would be lost"
            raise refusal(change, group, problem)
        if group.protocol_name is None:
            # The first join phase: nobody has anything yet. Kafka stumbles over it (R8.17).
            raise refusal(change, group, "its first members are still joining", ErrorCode.UNKNOWN_SERVER_ERROR)
        subscription = decode_subscription(member.metadata(group.protocol_name))
    except MalformedFrame as error:
        raise refusal(change, group, f"what member {member_id} said or has cannot be read: {error}") from None
    assigned = {
        topic_id: dict.fromkeys(partitions, generation)
        for topic_id, partitions in by_id(topics, assignment.assigned_partitions).items()
    }
    return Member(
        member_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        names=names_of(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicProtocols(member.session_timeout_ms, member.protocols),
        epoch=generation,
        previous_epoch=generation,
        assigned=assigned,
    )


def look_after(m: Machine, group: ConsumerGroup) -> None:
    """Go on looking after the members that a consumer group has from a classic one (R8.15)."""
    for member in group.state.members.values():
        if member.classic is not None:
            m.new_session(group, member.member_id, own_timeout_ms=member.classic.session_timeout_ms)
