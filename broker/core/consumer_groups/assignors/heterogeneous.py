"""``uniform`` for members that subscribe to different topics (4.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from ottla.broker.core.consumer_groups.assignors.draft import Draft, finished_drafts
from ottla.broker.core.consumer_groups.assignors.spec import MemberSpec, Pace, Target
from ottla.protocol.steps import Steps

MOST_ROUNDS = 16
"""Rounds over all topics, after which what is not balanced yet stays as it is. Mostly there are two."""

_NOBODY = -1


def assign_heterogeneous(
    members: Sequence[MemberSpec], partition_counts: Mapping[UUID, int], pace: Pace
) -> Steps[dict[str, Target]]:
    """Let members keep what they subscribe to, give what is free to those that have least, and even out (R4.13).

    Args:
        members: among those that have as much as others the first is given something first, and the last loses
            something first.
    """
    plan = _Plan(members, partition_counts)
    yield from plan.keep(pace)
    topics = sorted(plan.subscribers, key=plan.rank)
    for topic_id in topics:
        yield from plan.hand_out(topic_id, pace)
    yield from plan.balance([topic_id for topic_id in topics if len(plan.subscribers[topic_id]) > 1], pace)
    return (yield from finished_drafts(plan.drafts, pace))


class _Plan:
    """Who gets what. Members are numbers here: their places in the list.

    Attributes:
        loads: how many partitions each member has.
        subscribers: of each topic, in ascending order.
        owners: of each partition of a topic.
    """

    def __init__(self, members: Sequence[MemberSpec], partition_counts: Mapping[UUID, int]) -> None:
        self.members = members
        self.drafts = {member.member_id: Draft(member.target) for member in members}
        self.loads = [0] * len(members)
        self.subscribers: dict[UUID, list[int]] = {}
        self.owners: dict[UUID, list[int]] = {}
        self._counts = partition_counts
        self._by_number = list(self.drafts.values())

    def keep(self, pace: Pace) -> Steps[None]:
        """Let everybody keep what it still subscribes to."""
        for number, member in enumerate(self.members):
            for topic_id in member.topic_ids:
                of_topic = self.subscribers.get(topic_id)
                if of_topic is None:
                    of_topic = self.subscribers[topic_id] = []
                    self.owners[topic_id] = [_NOBODY] * self._counts[topic_id]
                of_topic.append(number)
            for topic_id, partitions in member.target.items():
                of_topic = self.subscribers.get(topic_id)
                if of_topic is None or of_topic[-1] != number:
                    self._by_number[number].drop(topic_id)
                    continue
                owners = self.owners[topic_id]
                for partition in partitions:
                    owners[partition] = number
                self.loads[number] += len(partitions)
                if pace.is_due(len(partitions)):
                    yield None
            if pace.is_due(1 + len(member.topic_ids) // 4):
                yield None

    def rank(self, topic_id: UUID) -> tuple[float, int, int, int]:
        """Topics with most partitions for each subscriber come first, then those with few subscribers."""
        count = len(self.subscribers[topic_id])
        high, low = (number - (number >> 63 << 64) for number in (topic_id.int >> 64, topic_id.int & (1 << 64) - 1))
        return -self._counts[topic_id] / count, count, high, low

    def hand_out(self, topic_id: UUID, pace: Pace) -> Steps[None]:
        """Give each partition of a topic that nobody has to the subscriber that has least."""
        free = [partition for partition, owner in enumerate(self.owners[topic_id]) if owner == _NOBODY]
        if free:
            takers = self._lowest(self._by_load(topic_id))
            for partition in free:
                self._give(topic_id, partition, next(takers)[0])
                if pace.is_due(1):
                    yield None
        if pace.is_due(1 + len(self.subscribers[topic_id]) // 8):
            yield None

    def balance(self, topics: Sequence[UUID], pace: Pace) -> Steps[None]:
        """Move partitions until the subscribers of each topic have the same, as far as that topic's can help."""
        last_moved = None
        for _ in range(MOST_ROUNDS):
            for topic_id in topics:
                if topic_id == last_moved:
                    return  # all the others have been looked at since
                if (yield from self._even_out(topic_id, pace)) or last_moved is None:
                    last_moved = topic_id

    def _even_out(self, topic_id: UUID, pace: Pace) -> Steps[bool]:
        """Move partitions of a topic from those that have most to those that have least; whether one was moved."""
        loads = [self.loads[number] for number in self.subscribers[topic_id]]
        if pace.is_due(1 + len(loads) // 16):
            yield None
        if max(loads) - min(loads) <= 1:
            return False
        by_load = self._by_load(topic_id)
        held: dict[int, list[int]] = {number: [] for number in by_load}
        for partition, owner in enumerate(self.owners[topic_id]):
            held[owner].append(partition)
            if pace.is_due(1):
                yield None
        takers = self._lowest(by_load)
        has_moved = False
        for giver, high in self._highest(by_load, held):
            partition = held[giver].pop()
            taker, low = next(takers)
            if high - low <= 1:
                break
            self._give(topic_id, partition, taker)
            has_moved = True
            if pace.is_due(2):
                yield None
        return has_moved

    def _by_load(self, topic_id: UUID) -> list[int]:
        return sorted(self.subscribers[topic_id], key=self.loads.__getitem__)

    def _give(self, topic_id: UUID, partition: int, taker: int) -> None:
        owners, subscribers = self.owners[topic_id], len(self.subscribers[topic_id])
        if (giver := owners[partition]) != _NOBODY:
            self._by_number[giver].remove(topic_id, partition)
            self.loads[giver] -= 1
        share = -(-self._counts[topic_id] // subscribers)
        self._by_number[taker].add(topic_id, partition, share * 4 // 3 + 1)
        owners[partition] = taker
        self.loads[taker] += 1

    def _lowest(self, by_load: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Those who have least, again and again while they get one each; with what they have.

        Once all who have least got one, those join them who have as much.
        """
        count, level = 0, self.loads[by_load[0]]
        while True:
            while count < len(by_load) and self.loads[by_load[count]] == level:
                count += 1
            for place in range(count):
                yield by_load[place], level
            level += 1

    def _highest(self, by_load: list[int], held: Mapping[int, Sequence[int]]) -> Iterator[tuple[int, int]]:
        """Those who have most and something to give, again and again while they give one each; with what they have.

        Who has nothing to give changes places with the last of those who may have.
        """
        begin = end = len(by_load)
        level = 0
        while True:
            if begin < end:
                level -= 1
            elif begin:
                level = self.loads[by_load[begin - 1]]
            while begin and self.loads[by_load[begin - 1]] == level:
                begin -= 1
            if not end:
                return
            for place in range(end - 1, begin - 1, -1):
                giver = by_load[place]
                if held[giver]:
                    yield giver, level
                else:
                    end -= 1
                    by_load[place], by_load[end] = by_load[end], giver
