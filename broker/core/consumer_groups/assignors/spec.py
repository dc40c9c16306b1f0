"""What an assignor is given, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from ottla.protocol.steps import Steps

Target = Mapping[UUID, Sequence[int]]
"""The partitions that a member shall own, by topic id. They stand in the order in which the record of the target has
them, at which Kafka's assignor looks (`ottla.broker.core.hash_order`). Nobody changes one once it is made: what is the
same before and after may be one object."""


class MemberSpec(NamedTuple):
    """A member as an assignor sees it.

    Attributes:
        topic_ids: the topics that it subscribes to and that exist, each once (R3.1).
        target: what it was given last; of a member that replaces another one, what that one was given (R4.2).
    """

    member_id: str
    instance_id: str | None
    topic_ids: Sequence[UUID]
    target: Target


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A snapshot of a group: nothing in it changes while an assignor works on it.

    Attributes:
        members: in the order in which they came into the group. Members that are away are among them (R4.6).
        partition_counts: how many partitions each topic has that somebody subscribes to.
        homogeneous: True if all members subscribe to the same topics (`Subscriptions.is_homogeneous`).
        newcomer: the id of the member whose first request this is for, None if its id is known (R4.16).
        most_members: how many there have been at once, before this request, since the group was made or loaded; the
            number of members if that is more. Kafka's table of members, which decides some ties, never shrinks (R4.16).
    """

    members: Sequence[MemberSpec]
    partition_counts: Mapping[UUID, int]
    homogeneous: bool
    newcomer: str | None = None
    most_members: int = 0


Assignor = Callable[[GroupSpec], Steps[dict[str, Target]]]
"""Steps of a millisecond or two each, which end with the new target of every member, by member id. A member that gets
nothing has an empty one (R4.5)."""


class Pace:
    """Says when a step has done enough: ``if pace.is_due(1): yield``."""

    STEP = 1_000
    """Partitions or members that are looked at in one step, each a microsecond or two."""

    def __init__(self) -> None:
        self._done = 0

    def is_due(self, looked_at: int) -> bool:
        """Whether others should have their turn, now that so many more were looked at."""
        self._done += looked_at
        if self._done < self.STEP:
            return False
        self._done = 0
        return True


def same_partitions(one: Target, other: Target) -> bool:
    """Whether two targets name the same partitions, in whatever order (R4.5)."""
    return one is other or (
        one.keys() == other.keys()
        and all(set(partitions) == set(other[topic_id]) for topic_id, partitions in one.items())
    )
