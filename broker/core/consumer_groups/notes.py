"""The events of consumer groups: what came in, and what members are after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.state import Member
from ottla.broker.core.effects import Asker
from ottla.broker.core.events import (
    ConsumerHeartbeatReceived,
    MemberReconciled,
    MemberSubscribed,
    TopicPartitions,
)
from ottla.broker.core.groups.machine import Machine
from ottla.broker.core.groups.notes import received
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def heartbeat_received(
    m: Machine, request: ConsumerGroupHeartbeatRequest, ctx: Asker, issued_member_id: str = ""
) -> None:
    """A heartbeat came in that changes something, or is refused.

    Args:
        issued_member_id: that the request did not have.
    """
    if m.observed:
        owned = request.topic_partitions
        received(
            m,
            "ConsumerGroupHeartbeat",
            request.group_id,
            ctx,
            member_id=request.member_id,
            group_instance_id=request.instance_id,
            generation=request.member_epoch,
            kind=ConsumerHeartbeatReceived,
            issued_member_id=issued_member_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            rack_id=request.rack_id,
            names=request.subscribed_topic_names,
            regex=request.subscribed_topic_regex,
            server_assignor=request.server_assignor,
            owned=None if owned is None else [TopicPartitions(one.topic_id.bytes, one.partitions) for one in owned],
        )


def subscribed(group: ConsumerGroup, member: Member, *, is_new: bool) -> MemberSubscribed:
    """A member came, or has said something new."""
    return MemberSubscribed(
        group_id=group.group_id,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rack_id=member.rack_id,
        names=list(member.names),
        regex=member.regex,
        server_assignor=member.server_assignor,
        is_new=is_new,
        is_classic=member.classic is not None,
    )


def reconciled(
    group: ConsumerGroup, member: Member, awaited: Mapping[UUID, Iterable[int]], deadline_ms: int
) -> MemberReconciled:
    """A member is another one than before."""
    return MemberReconciled(
        group_id=group.group_id,
        member_id=member.member_id,
        epoch=member.epoch,
        previous_epoch=member.previous_epoch,
        state=member.state.name,
        assigned=told(member.assigned),
        pending=told(member.pending),
        awaited=told(awaited),
        deadline_ms=deadline_ms,
    )


def told(partitions: Mapping[UUID, Iterable[int]]) -> list[TopicPartitions]:
    """Partitions as events name them."""
    return [TopicPartitions(topic_id.bytes, sorted(numbers)) for topic_id, numbers in partitions.items()]
