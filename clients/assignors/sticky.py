"""The sticky assignor (KIP-54): as even as can be, and among those as much as possible stays where it is.

Two ways to the same goal. When all members subscribe to the same topics, quotas say how many partitions each gets, and
what a member holds beyond its quota is dealt out to those below theirs. When subscriptions differ, partitions are
given to the member with the fewest that may have them, and then single partitions move from longer to shorter lists
until no move makes the two lists more even.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.clients.assignors.base import Assignments, Assignor, Members, in_order, subscribed_partitions
from ottla.clients.partitions import numbers_by_topic
from ottla.protocol.consumer_protocol import ConsumerTopicPartitions
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.records import TopicPartition
from ottla.protocol.schema import ArrayOf, Int32, Message, message, wire

Claims = Mapping[str, tuple[Sequence[TopicPartition], int]]
"""By member id: the partitions it says it holds, and the generation in which it got them."""


@message(versions=range(2))
class StickyUserData(Message):
    """The user data of Kafka's sticky assignor; version 1 has the generation (KIP-341)."""

    previous_assignment: list[ConsumerTopicPartitions] = wire(ArrayOf(ConsumerTopicPartitions))
    generation: int = wire(Int32, since=1, default=-1)


class StickyAssignor(Assignor):
    """Even and sticky. An eager assignor: the partitions that a member held travel in its user data."""

    name = "sticky"

    def __init__(self) -> None:
        self._held: list[TopicPartition] = []
        self._generation = -1

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        if self._generation < 0:
            return None
        data = StickyUserData(previous_assignment=grouped(self._held), generation=self._generation)
        encoded: bytes = StickyUserData.layout(1).encode(data)
        return encoded

    def on_assignment(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:
        self._held = list(partitions)
        self._generation = generation_id

    def assign(self, partition_counts: Mapping[str, int], members: Members) -> Assignments:
        claims = {member_id: _claims_in(member.user_data) for member_id, member in members.items()}
        return sticky_assignments(partition_counts, members, claims)


def _claims_in(user_data: bytes | None) -> tuple[list[TopicPartition], int]:
    """The partitions that a member held, by its user data; none if these cannot be read."""
    # Kafka's form without a version before it; the old one; and kafka-python's, which has a version of two bytes.
    for version, skip in ((1, 0), (0, 0), (1, 2)) if user_data else ():
        try:
            data = StickyUserData.layout(version).decode(user_data or b"", skip)
        except MalformedFrame:
            continue
        return [TopicPartition(t.topic, p) for t in data.previous_assignment for p in t.partitions], data.generation
    return [], -1


def grouped(partitions: Iterable[TopicPartition]) -> list[ConsumerTopicPartitions]:
    """Partitions in the form that the consumer protocol has for them."""
    by_topic = numbers_by_topic(sorted(partitions))
    return [ConsumerTopicPartitions(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()]


def owners_of(members: Members, claims: Claims) -> dict[TopicPartition, str]:
    """The owners of partitions. Of several claims the latest generation's counts; two of the same one both lapse."""
    owners: dict[TopicPartition, str] = {}
    since: dict[TopicPartition, int] = {}
    disputed: set[TopicPartition] = set()
    for member_id in in_order(members):
        partitions, generation = claims[member_id]
        for tp in partitions:
            if tp not in since or generation > since[tp]:
                owners[tp], since[tp] = member_id, generation
                disputed.discard(tp)
            elif generation == since[tp] and owners[tp] != member_id:
                disputed.add(tp)
    return {tp: owner for tp, owner in owners.items() if tp not in disputed}


def sticky_assignments(partition_counts: Mapping[str, int], members: Members, claims: Claims) -> Assignments:
    """Divide the partitions evenly, and leave as many as possible with the members that hold them."""
    topics = {member_id: frozenset(member.topics) for member_id, member in members.items()}
    partitions = subscribed_partitions(partition_counts, members)
    existing = set(partitions)
    owners = {
        tp: owner for tp, owner in owners_of(members, claims).items() if tp in existing and tp.topic in topics[owner]
    }
    if len(set(topics.values())) == 1:
        assignments = _by_quota(partitions, in_order(members), owners)
    else:
        assignments = _by_moves(partitions, in_order(members), topics, owners)
    return {member_id: sorted(assignments[member_id]) for member_id in members}


def _by_quota(
    partitions: Sequence[TopicPartition], ordered: Sequence[str], owners: Mapping[TopicPartition, str]
) -> Assignments:
    """All members may have everything: as even as possible, with the fewest partitions moved."""
    share, extra = divmod(len(partitions), len(ordered))
    held: Assignments = {member_id: [] for member_id in ordered}
    free: list[TopicPartition] = []
    for tp in partitions:
        held[owners[tp]].append(tp) if tp in owners else free.append(tp)
    # Whoever holds more than the share is first in line for one more than it: that moves the fewest.
    line = sorted(ordered, key=lambda member_id: len(held[member_id]) <= share)
    quota = {member_id: share + (place < extra) for place, member_id in enumerate(line)}
    for member_id in ordered:
        free += held[member_id][quota[member_id] :]
        del held[member_id][quota[member_id] :]
    free.sort()
    free.reverse()
    hungry = [member_id for member_id in ordered if len(held[member_id]) < quota[member_id]]
    while hungry:
        for member_id in hungry:
            held[member_id].append(free.pop())
        hungry = [member_id for member_id in hungry if len(held[member_id]) < quota[member_id]]
    return held


def _by_moves(
    partitions: Sequence[TopicPartition],
    ordered: Sequence[str],
    topics: Mapping[str, frozenset[str]],
    owners: Mapping[TopicPartition, str],
) -> Assignments:
    """Members may have different topics: fill up, then move single partitions while that evens out two lists."""
    takers: dict[str, list[str]] = {}
    for member_id in ordered:
        for topic in topics[member_id]:
            takers.setdefault(topic, []).append(member_id)
    count = dict.fromkeys(ordered, 0)
    owner = dict(owners)
    for member_id in owner.values():
        count[member_id] += 1
    # What few may have is given first: it has the least choice.
    for tp in sorted((tp for tp in partitions if tp not in owner), key=lambda tp: (len(takers[tp.topic]), tp)):
        owner[tp] = min(takers[tp.topic], key=count.__getitem__)
        count[owner[tp]] += 1
    # Every move makes the sum of squared lengths smaller, so this ends.
    moved = True
    while moved:
        moved = False
        # What has only just been given moves first: nobody loses it.
        for tp in sorted(partitions, key=lambda tp: (owners.get(tp) == owner[tp], tp)):
            shortest = min(takers[tp.topic], key=count.__getitem__)
            if count[shortest] < count[owner[tp]] - 1:
                count[owner[tp]] -= 1
                count[shortest] += 1
                owner[tp] = shortest
                moved = True
    assignments: Assignments = {member_id: [] for member_id in ordered}
    for tp in partitions:
        assignments[owner[tp]].append(tp)
    return assignments
