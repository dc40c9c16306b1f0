"""The roundrobin assignor: all partitions in order, dealt out one by one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from ottla.clients.assignors.base import Assignments, Assignor, Members, in_order, subscribed_partitions


class RoundRobinAssignor(Assignor):
    """Even to within one partition when all members subscribe to the same topics.

    A member that does not subscribe to a partition's topic is passed over for it.
    """

    name = "roundrobin"

    def assign(self, partition_counts: Mapping[str, int], members: Members) -> Assignments:
        assignments: Assignments = {member_id: [] for member_id in members}
        topics = {member_id: frozenset(member.topics) for member_id, member in members.items()}
        turn = cycle(in_order(members))
        for tp in subscribed_partitions(partition_counts, members):
            member_id = next(turn)
            while tp.topic not in topics[member_id]:
                member_id = next(turn)
            assignments[member_id].append(tp)
        return assignments
