"""The messages of the group protocol, as a consumer writes and reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.clients.assignors import Assignor, MemberSubscription
from ottla.clients.assignors.sticky import grouped
from ottla.clients.group_effects import Sent
from ottla.clients.options import ConsumerOptions
from ottla.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.records import TopicPartition

MAX_REASON = 255
"""The longest reason that goes out (KIP-800)."""


def join_request(
    options: ConsumerOptions,
    member: Sent,
    assignors: Iterable[Assignor],
    topics: frozenset[str],
    owned: Iterable[TopicPartition],
    reason: str,
) -> JoinGroupRequest:
    """Ask to be in the next generation: one protocol for each assignor, in order of preference."""
    ordered = sorted(topics)
    held = grouped(owned)
    protocols = []
    for assignor in assignors:
        subscription = Subscription(
            topics=ordered,
            user_data=assignor.user_data(ordered),
            owned_partitions=held,
            generation_id=member.generation_id,
            rack_id=options.client_rack,
        )
        protocols.append(JoinGroupRequestProtocol(name=assignor.name, metadata=encode_subscription(subscription)))
    return JoinGroupRequest(
        group_id=options.group,
        session_timeout_ms=options.session_timeout_ms,
        rebalance_timeout_ms=options.join_timeout_ms,
        member_id=member.member_id,
        group_instance_id=options.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=protocols,
        reason=reason[:MAX_REASON],
    )


def sync_request(
    options: ConsumerOptions, member: Sent, protocol_name: str | None, assignments: Mapping[str, list[TopicPartition]]
) -> SyncGroupRequest:
    """Ask for the assignment; the leader's brings everybody's."""
    return SyncGroupRequest(
        group_id=options.group,
        generation_id=member.generation_id,
        member_id=member.member_id,
        group_instance_id=options.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol_name,
        assignments=[
            # Version 0 says the same as the later ones, and everybody reads it.
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_assignment(Assignment(assigned_partitions=grouped(partitions)), 0),
            )
            for member_id, partitions in assignments.items()
        ],
    )


def heartbeat_request(options: ConsumerOptions, member: Sent) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=options.group,
        generation_id=member.generation_id,
        member_id=member.member_id,
        group_instance_id=options.group_instance_id,
    )


def leave_request(options: ConsumerOptions, member: Sent, reason: str) -> LeaveGroupRequest:
    """Filled for both forms: one member up to version 2, a list from version 3."""
    identity = MemberIdentity(member_id=member.member_id, reason=reason[:MAX_REASON])
    return LeaveGroupRequest(group_id=options.group, member_id=member.member_id, members=[identity])


def read_members(answer: JoinGroupResponse) -> dict[str, MemberSubscription]:
    """The members as the leader is told of them.

    Raises:
        MalformedFrame: a subscription is unreadable; the message names the member.
    """
    members: dict[str, MemberSubscription] = {}
    for member in answer.members:
        try:
            wanted = decode_subscription(member.metadata)
        except MalformedFrame as error:
            raise MalformedFrame(f"the subscription of {member.member_id!r}: {error}") from None
        members[member.member_id] = MemberSubscription(
            topics=wanted.topics,
            user_data=wanted.user_data,
            owned_partitions=[TopicPartition(t.topic, p) for t in wanted.owned_partitions for p in t.partitions],
            generation_id=wanted.generation_id,
            rack_id=wanted.rack_id,
            group_instance_id=member.group_instance_id,
        )
    return members


def read_assignment(data: bytes) -> list[TopicPartition]:
    """A member's assignment; no bytes at all are an empty one.

    Raises:
        MalformedFrame: it is unreadable.
    """
    given = decode_assignment(data) if data else Assignment()
    return [TopicPartition(t.topic, p) for t in given.assigned_partitions for p in t.partitions]
