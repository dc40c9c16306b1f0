"""A classic group: its fields, and the changes that keep them consistent with each other.

Nothing here answers anybody, arms a timer or writes a record; that is done by the modules that decide (`rebalance`,
`join`, `sync`, `membership`). Methods that end a wait hand back the parked context.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ottla.broker.core.effects import Asker
from ottla.broker.core.groups.classic.member import NO_ASSIGNMENT, Member, Protocols, protocols_bytes
from ottla.broker.core.groups.classic.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    HEARTBEAT_ANSWER,
    PREPARING_REBALANCE,
    STABLE,
    GroupState,
    IllegalTransition,
    can_move,
)
from ottla.broker.core.groups.classic.voting import elect
from ottla.broker.core.groups.group import Group, group_bytes
from ottla.broker.core.groups.offsets.committed import NOTHING
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, subscribed_topics
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.messages.join_group import JoinGroupResponseMember


class Recorded(enum.Enum):
    """The log's word on the group itself (not on its offsets)."""

    NOTHING = enum.auto()
    """There is no record, or its last one is a tombstone."""
    STALE = enum.auto()
    """There is one, and memory has moved on since, or a newer one is on its way."""
    CURRENT = enum.auto()
    """A coordinator that replays the log has what this one has."""


def _nothing() -> dict[Any, Any]:
    """What a group without members has of them; `Group.await_sync` and others put a dict of its own in the place."""
    return NOTHING


@dataclass(slots=True, eq=False)
class ClassicGroup(Group):
    """Members, generation and protocol of one classic group.

    Attributes:
        generation: starts at 0, and goes up by one at the end of each join phase.
        state_timestamp_ms: Unix time of the last transition; None if it was loaded from a record without one.
        protocol_type: kept when the group becomes Empty; None for a group that only stores offsets.
        protocol_name: chosen at the end of a join phase, None without members.
        pending_members: issued ids that have not come back. A dict for its order.
        pending_sync: ids that were sent a JoinGroup answer of this generation and have not sent SyncGroup.
        parked_joins: how many members have a parked JoinGroup.
        protocol_support: protocol name → how many members list it.
        topics: what the members subscribe to, None if that is not known (KIP-211).
        new_member_added: someone new came during the initial delay, which is then extended.
        initial_delay: the delay that runs, and what remains of the rebalance timeout after it.
        heartbeat_answer: what a heartbeat with the right generation hears, kept by `move`.
        unannounced: the generation is being logged before its members are told (``group.generation.persist=join``).
        assigning: the leader's assignments of this generation are being logged.
        recorded, group_writes: what the log has of the group, and how many of its records are on their way.
        revision: counts the changes of a generation that was formed already (static members replaced).
    """

    kind: ClassVar[str] = "classic"

    held_bytes: int = field(init=False)
    state_timestamp_ms: int | None
    state: GroupState = field(default=EMPTY, init=False)
    previous_state: GroupState = field(default=EMPTY, init=False)
    generation: int = field(default=0, init=False)
    protocol_type: str | None = field(default=None, init=False)
    protocol_name: str | None = field(default=None, init=False)
    leader_id: str | None = field(default=None, init=False)
    members: dict[str, Member] = field(default_factory=_nothing, init=False)
    static_members: dict[str, str] = field(default_factory=_nothing, init=False)
    pending_members: dict[str, None] = field(default_factory=_nothing, init=False)
    pending_sync: dict[str, None] = field(default_factory=_nothing, init=False)
    parked_joins: int = field(default=0, init=False)
    protocol_support: dict[str, int] = field(default_factory=_nothing, init=False)
    topics: frozenset[str] | None = field(default=None, init=False)
    new_member_added: bool = field(default=False, init=False)
    initial_delay: tuple[int, int] = field(default=(0, 0), init=False)
    heartbeat_answer: int = field(default=HEARTBEAT_ANSWER[EMPTY], init=False)
    unannounced: bool = field(default=False, init=False)
    assigning: bool = field(default=False, init=False)
    rebalance_cause: int = field(default=0, init=False)
    recorded: Recorded = field(default=Recorded.NOTHING, init=False)
    group_writes: int = field(default=0, init=False)
    revision: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.held_bytes = group_bytes(self.group_id)

    # State

    def move(self, state: GroupState, wall_ms: int) -> None:
        """Enter another state.

        Raises:
            IllegalTransition: the table does not have it.
        """
        if not can_move(self.state, state):
            raise IllegalTransition(f"group {self.group_id}: {self.state} → {state}")
        self.previous_state = self.state
        self.state = state
        self.state_timestamp_ms = wall_ms
        self.heartbeat_answer = HEARTBEAT_ANSWER[state]

    @property
    def is_gone(self) -> bool:
        return self.state is DEAD

    @property
    def member_count(self) -> int:
        return len(self.members)

    @property
    def is_empty(self) -> bool:
        return self.state is EMPTY

    @property
    def has_writes(self) -> bool:
        return self.group_writes > 0

    @property
    def shown_state(self) -> str:
        return self.state.value

    @property
    def is_simple(self) -> bool:
        """Whether it only stores offsets and never had members."""
        return self.state is EMPTY and self.protocol_type is None and not self.pending_members

    @property
    def all_joined(self) -> bool:
        """Whether every member has a parked JoinGroup and no issued id is outstanding."""
        return len(self.members) == self.parked_joins and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The largest rebalance timeout among the members, 0 without members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Members

    def session_of(self, member_id: str) -> Member | None:
        return self.members.get(member_id)

    def fence(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Check who somebody claims to be.

        The instance id comes first: whoever names one that belongs to another member id is fenced, and only the
        mapping decides between "fenced" and "unknown". A static member that leaves its instance id out passes.
        """
        if group_instance_id is not None:
            owner = self.static_members.get(group_instance_id)
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def refuse_fetch(self, member_id: str | None, epoch: int, *, stable: bool) -> ErrorCode:
        return ErrorCode.NONE

    def refuse_commit(
        self, member_id: str, group_instance_id: str | None, generation: int, api_version: int
    ) -> ErrorCode:
        if self.state is DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and self.state is EMPTY:
            return ErrorCode.NONE
        if generation < 0 and not member_id and group_instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if error := self.fence(member_id, group_instance_id):
            return error
        if generation != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.REBALANCE_IN_PROGRESS if self.state is COMPLETING_REBALANCE else ErrorCode.NONE

    def refuse_transactional_commit(self, member_id: str, group_instance_id: str | None, generation: int) -> ErrorCode:
        # Unlike a plain commit, one in a transaction is taken whatever the group does, and from somebody who names no
        # member, as older versions could not. It keeps nobody's session alive.
        if generation < 0 and not member_id and group_instance_id is None and self.state is not DEAD:
            return ErrorCode.NONE
        error = self.refuse_commit(member_id, group_instance_id, generation, 0)
        return ErrorCode.NONE if error is ErrorCode.REBALANCE_IN_PROGRESS else error

    def add(self, member: Member) -> None:
        """Insert a new member. The first one brings the protocol type, and leads if nobody does."""
        if not self.members:
            self.protocol_type = member.protocol_type
            self.members = {}
        if member.group_instance_id is not None:
            if self.static_members is NOTHING:
                self.static_members = {}
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self.held_bytes += member.held_bytes
        self._count_protocols(member, 1)
        self.pending_members.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member | None:
        """Forget a member or an issued id. If it led, the longest-standing other member leads.

        Its parked requests go with it: whoever removes it answers them first.
        """
        self.pending_members.pop(member_id, None)
        self.pending_sync.pop(member_id, None)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self.held_bytes -= member.held_bytes
        self._count_protocols(member, -1)
        if member.parked_join is not None:
            self.parked_joins -= 1
        instance_id = member.group_instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace_static(self, old: Member, member_id: str) -> Member:
        """Put a successor with another id in the place of a static member, whose requests were answered before.

        The old id stays among those that owe a SyncGroup, as it does in Kafka.
        """
        assert old.group_instance_id is not None
        self.revision += 1
        del self.members[old.member_id]
        successor = old.successor(member_id)
        self.members[member_id] = successor
        self.held_bytes += successor.held_bytes - old.held_bytes
        self.static_members[old.group_instance_id] = member_id
        if self.leader_id == old.member_id:
            self.leader_id = member_id
        return successor

    def update(
        self,
        member: Member,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Take over what a JoinGroup of a known member says."""
        if member.protocols != protocols:
            self._count_protocols(member, -1)
            self.held_bytes += protocols_bytes(protocols) - protocols_bytes(member.protocols)
            member.protocols = protocols
            self._count_protocols(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def issue(self, member_id: str) -> None:
        """Await somebody under an id."""
        if self.pending_members is NOTHING:
            self.pending_members = {}
        self.pending_members[member_id] = None

    def await_sync(self) -> None:
        """Await the SyncGroup of every member."""
        self.pending_sync = dict.fromkeys(self.members)

    def _count_protocols(self, member: Member, step: int) -> None:
        if self.protocol_support is NOTHING:
            self.protocol_support = {}
        for name in member.protocol_names():
            count = self.protocol_support.get(name, 0) + step
            if count:
                self.protocol_support[name] = count
            else:
                del self.protocol_support[name]

    # Parked requests

    def park_join(self, member: Member, ctx: Asker) -> bool:
        """Keep a JoinGroup until the phase ends; True if it takes the place of one that is now never answered."""
        replaced = member.parked_join is not None
        if not replaced:
            self.parked_joins += 1
        member.parked_join = ctx
        return replaced

    def unpark_join(self, member: Member) -> Asker | None:
        """End the wait of a member's JoinGroup."""
        ctx = member.parked_join
        if ctx is not None:
            self.parked_joins -= 1
            member.parked_join = None
        return ctx

    # Protocols

    def supports(self, protocol_type: str, protocols: Sequence[tuple[str, bytes]]) -> bool:
        """Whether someone with these protocols can be a member: one of them must be supported by all members."""
        if self.state is EMPTY:
            return bool(protocol_type) and bool(protocols)
        if protocol_type == self.protocol_type:
            everybody = len(self.members)
            for name, _ in protocols:
                if self.protocol_support.get(name, 0) == everybody:
                    return True
        return False

    def select_protocol(self) -> str | None:
        """The protocol that the members would choose now."""
        everybody = len(self.members)
        candidates = {name for name, count in self.protocol_support.items() if count == everybody}
        if len(candidates) == 1:
            return next(iter(candidates))  # and everybody votes for it
        votes = (member.vote(candidates) for member in self.members.values())
        return elect(vote for vote in votes if vote is not None)

    def recompute_topics(self) -> None:
        """Find the topics that the members subscribe to, from the metadata of the chosen protocol (KIP-211)."""
        self.topics = None
        if self.protocol_type != PROTOCOL_TYPE:
            return
        said = dict.fromkeys(member.metadata(self.protocol_name) for member in self.members.values())
        topics: list[str] = []
        try:
            for metadata in said:
                topics.extend(subscribed_topics(metadata))
        except MalformedFrame:
            return
        self.topics = frozenset(topics)

    def is_subscribed(self, topic: str) -> bool:
        if self.topics is not None:
            return topic in self.topics
        return self.protocol_type == PROTOCOL_TYPE

    def expiry_rule(self) -> tuple[int | None, Container[str]] | None:
        if self.protocol_type is None:
            return None, ()
        if self.state is EMPTY:
            return self.state_timestamp_ms, ()
        if self.state is STABLE and self.protocol_type == PROTOCOL_TYPE and self.topics is not None:
            return None, self.topics
        return None

    # Generations

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader has rejoined; False if no member has."""
        leader = self.members.get(self.leader_id) if self.leader_id is not None else None
        if leader is not None and leader.parked_join is not None:
            return True
        for member in self.members.values():
            if member.parked_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    def next_generation(self, wall_ms: int) -> None:
        """Begin a generation with the members that are there; without any the group becomes Empty."""
        self.generation += 1
        self.pending_sync.clear()
        self.assigning = False
        self.protocol_name = self.select_protocol()
        self.recompute_topics()
        self.move(COMPLETING_REBALANCE if self.members else EMPTY, wall_ms)

    def begin_with(self, generation: int, protocol_type: str | None, protocol_name: str | None) -> None:
        """Be in a generation that was formed before: it is in the log, or that of a consumer group."""
        self.state = STABLE if self.members else EMPTY
        self.heartbeat_answer = HEARTBEAT_ANSWER[self.state]
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.recompute_topics()

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Give everybody the assignment under its id; whoever is not named gets none."""
        for member in self.members.values():
            before, assignment = member.assignment, assignments.get(member.member_id, NO_ASSIGNMENT)
            if assignment != before:  # else whoever has read it needs not do so again
                member.assignment = assignment
                self.held_bytes += len(assignment) - len(before)

    def described_members(self) -> list[JoinGroupResponseMember]:
        """The members as the leader is shown them."""
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    @property
    def has_sessions(self) -> bool:
        return self.state is STABLE or self.state is PREPARING_REBALANCE

    def __repr__(self) -> str:
        return f"<Group {self.group_id} {self.state} generation {self.generation}>"
