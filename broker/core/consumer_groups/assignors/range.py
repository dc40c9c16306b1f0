"""The assignor ``range``: to each member consecutive partitions of each of its topics (4.2)."""

from __future__ import annotations

from uuid import UUID

from ottla.broker.core.consumer_groups.assignors.spec import GroupSpec, MemberSpec, Pace, Target
from ottla.protocol.groups import utf16_order
from ottla.protocol.steps import Steps


def assign_ranges(group: GroupSpec) -> Steps[dict[str, Target]]:
    """Divide each topic among its subscribers, of whom the first get one more where it does not come out even.

    What members had before does not matter (R4.8).
    """
    pace = Pace()
    members = sorted(group.members, key=_rank)
    targets: dict[str, dict[UUID, list[int]]] = {member.member_id: {} for member in members}
    subscribers: dict[UUID, list[dict[UUID, list[int]]]] = {}
    if group.homogeneous and members:
        everybody = list(targets.values())
        subscribers.update((topic_id, everybody) for topic_id in members[0].topic_ids)
        members = []
    for member in members:
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(targets[member.member_id])
        if pace.is_due(1 + len(member.topic_ids) // 8):
            yield None
    for topic_id, of_topic in subscribers.items():
        count = group.partition_counts[topic_id]
        share, more = divmod(count, len(of_topic))
        begin = 0
        for target in of_topic[:count]:
            end = begin + share + (more > 0)
            target[topic_id] = list(range(begin, end))
            begin, more = end, more - 1
            if pace.is_due(1 + share // 8):
                yield None
    return dict(targets)


def _rank(member: MemberSpec) -> tuple[bool, bytes]:
    """Static members come first, by instance id, and then the others by member id (R4.9)."""
    if member.instance_id is None:
        return True, utf16_order(member.member_id)
    return False, utf16_order(member.instance_id)
