"""The committed offsets of one group, and which of them have a write on its way.

An offset is visible once its record is durable, so the table changes only when an append succeeded; order in the
log and order of outcomes are the same. Decisions that depend on writes that are not durable yet (is there anything
to delete? does the group still hold offsets?) look at the count of writes on their way as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.broker.core.groups.machine import Write


class CommittedOffset(NamedTuple):
    """What a member committed for a partition. Timestamps are Unix milliseconds.

    Attributes:
        leader_epoch: -1 for none.
        expire_timestamp_ms: set by old clients that bring a retention of their own, else -1.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1


class CommittedOffsets:
    """Topic → partition → offset."""

    __slots__ = ("by_topic", "in_flight", "last_write")

    def __init__(self) -> None:
        self.by_topic: dict[str, dict[int, CommittedOffset]] = {}
        self.in_flight: dict[tuple[str, int], int] = {}
        """How many records of a partition (commits and tombstones) are on their way."""
        self.last_write: Write | None = None
        """The write that carried the last of them."""

    def __len__(self) -> int:
        return sum(len(partitions) for partitions in self.by_topic.values())

    def __bool__(self) -> bool:
        return bool(self.by_topic) or bool(self.in_flight)

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        """The durable offset of a partition."""
        partitions = self.by_topic.get(topic)
        return None if partitions is None else partitions.get(partition)

    def store(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Replace the offset of a partition."""
        self.by_topic.setdefault(topic, {})[partition] = committed

    def discard(self, topic: str, partition: int) -> None:
        """Forget the offset of a partition."""
        partitions = self.by_topic.get(topic)
        if partitions is not None and partitions.pop(partition, None) is not None and not partitions:
            del self.by_topic[topic]

    def items(self) -> Iterator[tuple[str, int, CommittedOffset]]:
        """All durable offsets."""
        for topic, partitions in self.by_topic.items():
            for partition, committed in partitions.items():
                yield topic, partition, committed

    def known_partitions(self) -> list[tuple[str, int]]:
        """The partitions with an offset that is durable or on its way."""
        known = dict.fromkeys((topic, partition) for topic, partition, _ in self.items())
        known.update(dict.fromkeys(self.in_flight))
        return list(known)

    def known_partitions_of(self, topic: str) -> list[int]:
        """The partitions of a topic with an offset that is durable or on its way."""
        known = dict.fromkeys(self.by_topic.get(topic, ()))
        known.update(dict.fromkeys(partition for name, partition in self.in_flight if name == topic))
        return list(known)

    def is_known(self, topic: str, partition: int) -> bool:
        """Whether there is an offset that is durable or on its way."""
        return (topic, partition) in self.in_flight or self.get(topic, partition) is not None

    def write_begins(self, topic: str, partition: int) -> None:
        """A record for the partition is on its way."""
        self.in_flight[topic, partition] = self.in_flight.get((topic, partition), 0) + 1

    def write_ends(self, topic: str, partition: int) -> None:
        """It is durable or has failed."""
        left = self.in_flight[topic, partition] - 1
        if left:
            self.in_flight[topic, partition] = left
        else:
            del self.in_flight[topic, partition]
