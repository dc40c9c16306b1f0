"""Assignments that take too long for one entry: they are computed on a snapshot, beside everything else.

The heartbeat that needs such a one is undone and waits; those of its group that come meanwhile wait behind it, unless
they find nothing to do. Then they are served in their order, as if they had come just now. What has changed meanwhile
by others is thereby seen: an assignment of another snapshot than the group is by then is not used.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.broker.core.consumer_groups.assignors import ASSIGNORS
from ottla.broker.core.consumer_groups.assignors.spec import GroupSpec, Pace, Target, same_partitions
from ottla.broker.core.consumer_groups.facts import MemberTarget
from ottla.broker.core.consumer_groups.records import record_of
from ottla.broker.core.effects import Asker
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.steps import Steps

LARGE = 5_000
"""Microseconds, roughly, that an assignor may take within an entry."""

MOST_TRIES = 3
"""So often an assignment is computed for a heartbeat while others change its group; then it is, within the entry."""


class NotYet(Exception):
    """A heartbeat needs an assignment that takes too long for its entry.

    Attributes:
        assignor: its name.
    """

    def __init__(self, assignor: str, spec: GroupSpec) -> None:
        super().__init__(assignor)
        self.assignor = assignor
        self.spec = spec


class Assignment(NamedTuple):
    """What an assignor came to.

    Attributes:
        targets: by member id; a member that is not there gets nothing (R4.5).
        records: of targets that have changed, as far as they are made already.
    """

    targets: Mapping[str, Target]
    records: Mapping[str, CoordinatorRecord]


@dataclass(slots=True, eq=False)
class Assigning:
    """An assignment under way, and who waits for it.

    Attributes:
        partition: of the group's shard.
        assignor, spec: what it is computed by, and of.
        waiting: heartbeats of the group, in the order in which they came.
        tries: how often one was computed for the first of them.
        assignment: what came of it, once it is computed.
        is_over: it is computed, or that failed.
    """

    group_id: str
    partition: int
    assignor: str
    spec: GroupSpec
    waiting: deque[tuple[ConsumerGroupHeartbeatRequest, Asker]]
    tries: int = 1
    assignment: Assignment | None = None
    is_over: bool = False


def is_large(spec: GroupSpec) -> bool:
    """Whether an assignor takes longer than an entry should."""
    work = 10 * len(spec.members) + 2 * sum(spec.partition_counts.values())
    if not spec.homogeneous:
        work += sum(len(member.topic_ids) for member in spec.members)
    return work > LARGE


def assign(group_id: str, assignor: str, spec: GroupSpec) -> Steps[Assignment]:
    """Compute an assignment, and make the records of what it changes: they take longer than everything else."""
    targets = yield from ASSIGNORS[assignor](spec)
    records: dict[str, CoordinatorRecord] = {}
    pace = Pace()
    for member in spec.members:
        target = targets.get(member.member_id, {})
        if not same_partitions(member.target, target):
            records[member.member_id] = record_of(group_id, MemberTarget(member.member_id, target))
            if pace.is_due(10 + 4 * len(target) + sum(map(len, target.values())) // 4):
                yield None
    return Assignment(targets, records)
