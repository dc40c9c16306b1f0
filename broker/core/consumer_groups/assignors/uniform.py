"""The assignor ``uniform``: as many partitions for each member as for any other, and few that move (4.3, 4.4).

Where Kafka leaves a choice to the order of a hash table, the order is Kafka's (4.5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from ottla.broker.core.consumer_groups.assignors.draft import Draft, finished_drafts
from ottla.broker.core.consumer_groups.assignors.heterogeneous import assign_heterogeneous
from ottla.broker.core.consumer_groups.assignors.spec import GroupSpec, MemberSpec, Pace, Target
from ottla.broker.core.hash_order import bucket, copied_set_size, ids_in_order, in_set_order, table_size, table_slot
from ottla.protocol.steps import Steps


def assign_uniformly(group: GroupSpec) -> Steps[dict[str, Target]]:
    """Give everybody as much as others that subscribe to the same, and leave with members what they may keep."""
    pace = Pace()
    size = table_size(len(group.members))
    most = max(group.most_members, len(group.members) - (group.newcomer is not None))
    ranked: list[tuple[int, bool, int, int]] = []
    for number, (member_id, *_) in enumerate(group.members):
        slot = table_slot(member_id, most)
        ranked.append((bucket(member_id, size), member_id == group.newcomer, slot, -number))
        if pace.is_due(5):
            yield None
    members = [group.members[-rank[-1]] for rank in sorted(ranked)]
    if not group.homogeneous:
        return (yield from assign_heterogeneous(members, group.partition_counts, pace))
    topics = dict.fromkeys(members[0].topic_ids if members else ())
    if not topics:
        return {member.member_id: {} for member in members}
    return (yield from _assign_homogeneous(members, topics, group.partition_counts, pace))


def _assign_homogeneous(
    members: Sequence[MemberSpec], topics: Mapping[UUID, None], partition_counts: Mapping[UUID, int], pace: Pace
) -> Steps[dict[str, Target]]:
    """Divide all partitions among members that subscribe to the same topics (R4.10)."""
    free = yield from _free_partitions(members, topics, partition_counts, pace)
    quota, extra = divmod(sum(partition_counts[topic_id] for topic_id in topics), len(members))
    drafts: dict[str, Draft] = {}
    unfilled: list[tuple[Draft, int]] = []
    for number, member in enumerate(members):
        draft = drafts[member.member_id] = Draft(member.target)
        has_extra = extra > 0
        room = _keep(member.target, topics, quota + has_extra, draft, free)
        if room and has_extra and len(members) - number > extra:
            room, has_extra = room - 1, False  # somebody behind gets it
        if room:
            unfilled.append((draft, room))
        extra -= has_extra
        if pace.is_due(1 + quota):
            yield None
    taken = 0
    for draft, room in unfilled:
        for topic_id, partition in free[taken : taken + room]:
            draft.add(topic_id, partition)
        taken += room
        if pace.is_due(room):
            yield None
    return (yield from finished_drafts(drafts, pace))


def _free_partitions(
    members: Sequence[MemberSpec], topics: Mapping[UUID, None], partition_counts: Mapping[UUID, int], pace: Pace
) -> Steps[list[tuple[UUID, int]]]:
    """The partitions that are in nobody's target."""
    assigned: dict[UUID, set[int]] = {topic_id: set() for topic_id in topics}
    for member in members:
        for topic_id, partitions in member.target.items():
            if topic_id in assigned:
                assigned[topic_id].update(partitions)
            if pace.is_due(1 + len(partitions)):
                yield None
    free: list[tuple[UUID, int]] = []
    for topic_id in ids_in_order(topics, copied_set_size(len(topics))):
        for begin in range(0, count := partition_counts[topic_id], Pace.STEP):
            some = range(begin, min(begin + Pace.STEP, count))
            free += [(topic_id, partition) for partition in some if partition not in assigned[topic_id]]
            if pace.is_due(1 + len(some)):
                yield None
    return free


def _keep(target: Target, topics: Mapping[UUID, None], room: int, draft: Draft, free: list[tuple[UUID, int]]) -> int:
    """Take from a member what it must not keep, as it has room for so many partitions; return the room that is left.

    What it gives up for others becomes free. What is gone, or subscribed to no more, is dropped (R4.4).
    """
    size = sum(map(len, target.values()))
    if size <= room and target.keys() <= topics.keys():
        return room - size
    for topic_id in ids_in_order(target, table_size(len(target))):
        partitions = target[topic_id]
        if topic_id not in topics:
            draft.drop(topic_id)
        elif len(partitions) <= room:
            room -= len(partitions)
        else:
            for partition in in_set_order(partitions, copied_set_size(len(partitions)))[room:]:
                draft.remove(topic_id, partition)
                free.append((topic_id, partition))
            room = 0
    return room
