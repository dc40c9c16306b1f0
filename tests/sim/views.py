"""Copies of a coordinator's groups before and after a step, for the checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from ottla.broker.core.coordination.shard import ShardState
from ottla.broker.core.groups.classic.group import ClassicGroup


class MemberView(NamedTuple):
    """A member as it was, with the names that its fields have in the core."""

    member_id: str
    group_instance_id: str | None
    is_new: bool
    parked_join: Any
    parked_sync: Any
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Sequence[tuple[str, bytes]]
    assignment: bytes
    client_id: str
    client_host: str

    @property
    def is_parked(self) -> bool:
        return self.parked_join is not None or self.parked_sync is not None


class GroupView(NamedTuple):
    """A group as it was; ``group`` tells one from a later one of the same name."""

    group: ClassicGroup
    state: str
    previous_state: str
    generation: int
    leader_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    members: Mapping[str, MemberView]
    static_members: Mapping[str, str]
    pending: tuple[str, ...]
    owes_sync: tuple[str, ...]
    unannounced: bool
    support: Mapping[str, int]

    @property
    def parked_joins(self) -> int:
        return sum(member.parked_join is not None for member in self.members.values())


Views = dict[str, GroupView]


_of_member = attrgetter(*MemberView._fields)


def view(group: ClassicGroup) -> GroupView:
    members = {member.member_id: MemberView(*_of_member(member)) for member in group.members.values()}
    return GroupView(
        group,
        group.state.value,
        group.previous_state.value,
        group.generation,
        group.leader_id,
        group.protocol_type,
        group.protocol_name,
        members,
        dict(group.static_members),
        tuple(group.pending_members),
        tuple(group.pending_sync),
        group.unannounced,
        dict(group.protocol_support),
    )


@dataclass(slots=True)
class Step:
    """One entry into a coordinator and everything that came of it.

    Attributes:
        kind: the name of the entry.
        life: which coordinator; a crash begins another life.
        shards: partition → state before the step.
        answer: what the entry returned; for a heartbeat its error code.
        touched: the groups that may have changed.
    """

    kind: str
    life: int
    now_ms: int
    wall_ms: int
    before: Views
    shards: Sequence[ShardState]
    request: Any = None
    ctx: Any = None
    refused: Mapping[tuple[str, int], int] = field(default_factory=dict)
    token: Any = None
    error: int = 0
    answer: Any = None
    after: Views = field(default_factory=dict)
    touched: Sequence[str] = ()
    effects: list[Any] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)

    def events_of(self, *kinds: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]
