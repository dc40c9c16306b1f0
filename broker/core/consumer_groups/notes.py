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
    RevocationAwaited,
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


def subscribed(m: Machine, group: ConsumerGroup, member: Member, *, is_new: bool) -> MemberSubscribed:
    """A member came, or has said something new."""
    times, is_classic = m.times_of(group.group_id), member.classic is not None
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
        session_timeout_ms=times.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        is_new=is_new,
        is_classic=is_classic,
        heartbeat_interval_ms=0 if is_classic else times.heartbeat_interval_ms,
        missing=[name for name in member.names if name not in m.topics.by_name],
    )


def reconciled(
    m: Machine, group: ConsumerGroup, member: Member, awaited: Mapping[UUID, Iterable[int]], deadline_ms: int
) -> MemberReconciled:
    """A member is another one than before."""
    return MemberReconciled(
        group_id=group.group_id,
        member_id=member.member_id,
        epoch=member.epoch,
        previous_epoch=member.previous_epoch,
        state=member.state.name,
        assigned=m.topics.told(member.assigned),
        pending=m.topics.told(member.pending),
        awaited=m.topics.told(awaited),
        deadline_ms=deadline_ms,
    )


def awaited(
    m: Machine, group: ConsumerGroup, member: Member, reported: Mapping[UUID, Mapping[int, None]] | None
) -> RevocationAwaited:
    """A member still has what it has to give up."""
    left = {
        topic_id: [one for one in partitions if reported is None or one in reported.get(topic_id, ())]
        for topic_id, partitions in member.pending.items()
    }
    return RevocationAwaited(
        group_id=group.group_id,
        member_id=member.member_id,
        partitions=m.topics.told({topic_id: numbers for topic_id, numbers in left.items() if numbers}),
        said=reported is not None,
    )
