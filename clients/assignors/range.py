"""The range assignor: topic by topic, neighbouring partitions to each member. Kafka's default of old."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.clients.assignors.base import Assignments, Assignor, Members, in_order
from ottla.protocol.records import TopicPartition


class RangeAssignor(Assignor):
    """Partition n of every topic goes to the same member where counts and subscriptions allow: good for joins.

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
