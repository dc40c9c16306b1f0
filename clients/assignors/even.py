"""The range and roundrobin assignors: even, whoever held what before."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from ottla.clients.assignors.base import Assignments, Assignor, Members, in_order, subscribed_partitions
from ottla.protocol.records import TopicPartition


class RangeAssignor(Assignor):
    """Topic by topic, neighbouring partitions to each member: Kafka's default of old.

    Partition n of every topic goes to the same member where counts and subscriptions allow: good for joins.

    The first members in order get one partition more when a topic does not divide evenly.
    """

    name = "range"

    def assign(self, partition_counts: Mapping[str, int], members: Members) -> Assignments:
        ordered = in_order(members)
        assignments: Assignments = {member_id: [] for member_id in members}
        for topic in sorted({topic for member in members.values() for topic in member.topics}):
            takers = [member_id for member_id in ordered if topic in members[member_id].topics]
            share, extra = divmod(partition_counts.get(topic, 0), len(takers))
            start = 0
            for index, member_id in enumerate(takers):
                end = start + share + (index < extra)
                assignments[member_id] += [TopicPartition(topic, partition) for partition in range(start, end)]
                start = end
        return assignments


class RoundRobinAssignor(Assignor):
    """All partitions in order, dealt out one by one.

    Even to within one partition when all members subscribe to the same topics.

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
