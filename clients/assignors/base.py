"""The interface of an assignor, and its arguments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from ottla.protocol.records import TopicPartition


class RebalanceProtocol(IntEnum):
    """A member's behaviour before it joins (KIP-429)."""

    EAGER = 0
    """It gives up everything, then gets its assignment."""
    COOPERATIVE = 1
    """It keeps what it has, and gives up only what it is told to, in a second rebalance."""


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member as the leader sees it: the topics that it wants and the partitions that it holds."""

    topics: Sequence[str]
    user_data: bytes | None = None
    owned_partitions: Sequence[TopicPartition] = ()
    generation_id: int = -1
    rack_id: str | None = None
    group_instance_id: str | None = None


Members = Mapping[str, MemberSubscription]
Assignments = dict[str, list[TopicPartition]]


class Assignor(ABC):
    """A way to divide partitions among members. Each consumer needs an object of its own, which may remember things.

    ``name`` is what the members of a group agree on; ``protocols`` the rebalance protocols it can be used with.
    """

    name: ClassVar[str]
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.EAGER,)

    @abstractmethod
    def assign(self, partition_counts: Mapping[str, int], members: Members) -> Assignments:
        """Divide the partitions of all subscribed topics among the members.

        Args:
            partition_counts: the topics that exist, with their number of partitions.
            members: by member id.

        Returns:
            Every member's partitions; each member has an entry.
        """

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        """Bytes that go with the subscription, for the leader's assignor to read; None for none."""
        return None

    def on_assignment(  # noqa: B027 - most assignors remember nothing
        self, partitions: Sequence[TopicPartition], generation_id: int
    ) -> None:
        """Called when the consumer has got this assignment in this generation."""


def in_order(members: Members) -> list[str]:
    """Member ids, static members first by instance id, then dynamic ones by member id (KIP-345).

    Instance ids outlive restarts, so that a static member keeps its partitions.
    """
    return sorted(
        members,
        key=lambda member_id: (
            (members[member_id].group_instance_id is None),
            members[member_id].group_instance_id or member_id,
        ),
    )


def subscribed_partitions(partition_counts: Mapping[str, int], members: Members) -> list[TopicPartition]:
    """All partitions that anybody subscribes to, in order."""
    topics = sorted({topic for member in members.values() for topic in member.topics})
    return [TopicPartition(topic, p) for topic in topics for p in range(partition_counts.get(topic, 0))]
