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
    SeenTopic,
    TopicPartitions,
    TopicsSeen,
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


def topics_seen(m: Machine) -> None:
    """Topics have changed since observers were told of them: what is decided now may depend on that."""
    topics = m.topics
    news = dict.fromkeys(topics.by_name, False) if topics.news is None else topics.news
    if not m.observed or not news:
        return
    topics.news = {}
    seen = []
    for name, has_other_racks in news.items():
        topic = topics.by_name.get(name)
        if topic is None:
            seen.append(SeenTopic(name, b"", 0, []))
        else:
            racks = [list(of_partition) for of_partition in topic.racks] if any(topic.racks) else []
            seen.append(SeenTopic(name, topic.topic_id.bytes, topic.partition_count, racks, has_other_racks))
    m.emit(TopicsSeen(group_id="", topics=seen, version=topics.version, newest_version=topics.newest_version))


def subscribed(m: Machine, group: ConsumerGroup, member: Member, *, is_new: bool) -> MemberSubscribed:
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
        session_timeout_ms=m.times_of(group.group_id).session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        is_new=is_new,
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
        assigned=told(m, member.assigned),
        pending=told(m, member.pending),
        awaited=told(m, awaited),
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
        partitions=told(m, {topic_id: numbers for topic_id, numbers in left.items() if numbers}),
        said=reported is not None,
    )


def told(m: Machine, partitions: Mapping[UUID, Iterable[int]]) -> list[TopicPartitions]:
    """Partitions as events name them."""
    by_id = m.topics.by_id
    return [
        TopicPartitions(topic_id.bytes, sorted(numbers), by_id[topic_id].name if topic_id in by_id else "")
        for topic_id, numbers in partitions.items()
    ]
