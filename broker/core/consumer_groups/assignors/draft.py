"""A target while an assignor changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from ottla.broker.core.consumer_groups.assignors.spec import Pace, Target
from ottla.broker.core.hash_order import copied_set_size, in_set_order, set_size
from ottla.protocol.steps import Steps


class Draft:
    """The target of one member. Its partitions come out in the order in which Kafka's hash sets would give them.

    Topics that do not change are shared with the target before, which nobody changes.
    """

    __slots__ = ("_before", "_buckets", "_sets")

    def __init__(self, before: Target) -> None:
        self._before = before
        self._sets: dict[UUID, dict[int, None]] = {}
        self._buckets: dict[UUID, int] = {}

    def drop(self, topic_id: UUID) -> None:
        """Take a topic away that was not touched yet, with all of its partitions."""
        self._sets[topic_id] = {}

    def remove(self, topic_id: UUID, partition: int) -> None:
        """Take a partition away."""
        del self._set(topic_id, 0)[partition]

    def add(self, topic_id: UUID, partition: int, capacity: int = 16) -> None:
        """Add a partition.

        Args:
            capacity: that Kafka asks of the set which it makes for the first partition of a topic.
        """
        partitions = self._set(topic_id, capacity)
        partitions[partition] = None
        if len(partitions) * 4 > self._buckets[topic_id] * 3:
            self._buckets[topic_id] *= 2

    def _set(self, topic_id: UUID, capacity: int) -> dict[int, None]:
        partitions = self._sets.get(topic_id)
        if partitions:
            return partitions
        before = self._before.get(topic_id) if partitions is None else None
        buckets = set_size(capacity) if before is None else copied_set_size(len(before))
        self._buckets[topic_id] = buckets
        partitions = self._sets[topic_id] = dict.fromkeys(in_set_order(before or (), buckets))
        return partitions

    def finished(self) -> Target:
        """The target as it is now: the one before, if nothing has changed."""
        if not self._sets:
            return self._before
        order = [topic_id for topic_id in reversed(self._sets) if topic_id not in self._before]  # new ones come first
        target: dict[UUID, Sequence[int]] = {}
        for topic_id in (*order, *self._before):
            partitions = self._sets.get(topic_id)
            if partitions is None:
                target[topic_id] = self._before[topic_id]
            elif partitions:
                target[topic_id] = in_set_order(partitions, self._buckets[topic_id])
        return target


def finished_drafts(drafts: Mapping[str, Draft], pace: Pace) -> Steps[dict[str, Target]]:
    """The targets of all members, by member id."""
    targets: dict[str, Target] = {}
    for member_id, draft in drafts.items():
        target = targets[member_id] = draft.finished()
        if pace.is_due(1 + sum(map(len, target.values()))):
            yield None
    return targets
