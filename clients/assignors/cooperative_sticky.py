"""The cooperative sticky assignor (KIP-429): the sticky assignment, reached in two rebalances without a full stop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ottla.clients.assignors.base import Assignments, Assignor, Members, MemberSubscription, RebalanceProtocol
from ottla.clients.assignors.sticky import owners_of, sticky_assignments
from ottla.protocol.records import TopicPartition


class CooperativeStickyAssignor(Assignor):
    """Even and sticky, and nobody stops consuming what stays where it is.

    A partition that moves is first only taken from its holder. The holder gives it up and joins again, and that second
    rebalance finds it free. So no partition is ever assigned to one member while another still holds it.
    """

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        self._generation = -1

    def user_data(self, topics: Iterable[str]) -> bytes | None:
        # Leaders that read only version 1 of the subscription find the generation here, where Kafka's puts it too.
        return self._generation.to_bytes(4, "big", signed=True)

    def on_assignment(self, partitions: Sequence[TopicPartition], generation_id: int) -> None:
        self._generation = generation_id

    def assign(self, partition_counts: Mapping[str, int], members: Members) -> Assignments:
        claims = {member_id: (member.owned_partitions, _generation_of(member)) for member_id, member in members.items()}
        owners = owners_of(members, claims)
        claimants: dict[TopicPartition, set[str]] = {}
        for member_id, (partitions, _) in claims.items():
            for tp in partitions:
                claimants.setdefault(tp, set()).add(member_id)
        assignments = sticky_assignments(partition_counts, members, claims)
        return {
            member_id: [
                tp for tp in partitions if owners.get(tp) == member_id or not claimants.get(tp, set()) - {member_id}
            ]
            for member_id, partitions in assignments.items()
        }


def _generation_of(member: MemberSubscription) -> int:
    """Version 2 of the subscription has it (KIP-792), before that the user data."""
    if member.generation_id >= 0 or member.user_data is None or len(member.user_data) != 4:
        return member.generation_id
    return int.from_bytes(member.user_data, "big", signed=True)
