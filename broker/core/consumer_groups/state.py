"""The state of a consumer group: what its records say, and nothing else (R2.1).

`apply` is the one place that changes it. Members are never changed but replaced, and so are the partitions that they
have: a copy of a state shares them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias
from uuid import UUID

from msgspec import Struct

from ottla.broker.core.consumer_groups.assignors.spec import Target
from ottla.broker.core.consumer_groups.regexes import ResolvedRegex
from ottla.broker.core.consumer_groups.subscriptions import Subscriptions
from ottla.broker.core.groups.classic.member import Protocols, protocol_names, protocols_bytes
from ottla.broker.core.groups.group import MEMBER_BYTES, text_bytes
from ottla.protocol.groups import utf16_order

Owned: TypeAlias = Mapping[UUID, Mapping[int, int]]
"""The partitions that a member has, by topic id: each with the assignment epoch at which the member got it."""

LEAVES = -1
"""The member epoch that a member leaves with."""
IS_AWAY = -2
"""The member epoch of a static member that has gone away for a while, and that it goes with (KIP-345)."""

NOBODY = -1
"""The owner epoch of a partition that no member has."""

PARTITION_BYTES = 64
"""Bytes that a partition takes in an assignment or a target, roughly."""


MOST_SHARED = 1_024
"""Characters of names that are kept once for all members that name the same."""


@lru_cache(maxsize=1024)
def _same(names: tuple[str, ...]) -> tuple[str, ...]:
    return names


def names_of(topics: Iterable[str]) -> tuple[str, ...]:
    """The topics that a member names, as `Member.names`: one object for equal ones, as most members name the same."""
    names = tuple(sorted(dict.fromkeys(topics), key=utf16_order))
    return _same(names) if sum(map(len, names)) <= MOST_SHARED else names


class MemberState(enum.IntEnum):
    """How far a member is on its way to its target; the number is what stands in its record."""

    STABLE = 0
    """It has all of its target that it may have."""
    UNREVOKED_PARTITIONS = 1
    """It has to give partitions up first, and stays at its epoch until it says that it has."""
    UNRELEASED_PARTITIONS = 2
    """It is at the assignment epoch, and waits for partitions that others have not given up yet."""
    UNKNOWN = 127
    """Its record has another number."""


STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS


class ConsumerGroupState(enum.StrEnum):
    """A state of a group; the value is what stands on the wire (2.2)."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"

    @property
    def is_restless(self) -> bool:
        """True if the group is on its way to a target."""
        return self is ConsumerGroupState.ASSIGNING or self is ConsumerGroupState.RECONCILING


class ClassicProtocols(Struct, frozen=True, gc=False):
    """What a member of the classic protocol has said in its JoinGroup: its protocols in order of preference."""

    session_timeout_ms: int
    protocols: Protocols

    @property
    def names(self) -> list[str]:
        """The names of its protocols, each once, in order of preference."""
        return protocol_names(self.protocols)


class Member(Struct, frozen=True):
    """A member: what it has said of itself, and how far it is.

    Attributes:
        names: the topics that it subscribes to by name, each once, sorted as Java does.
        regex: that it subscribes with, "" for none.
        rebalance_timeout_ms: how long it may take to give partitions up.
        classic: None for a member of the consumer protocol.
        epoch, previous_epoch: the assignment epoch that it has arrived at, and the one before (2.3).
        assigned: what it has.
        pending: what it had and has not given up yet.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    names: tuple[str, ...] = ()
    regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicProtocols | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = STABLE
    assigned: Owned = {}
    pending: Owned = {}

    @property
    def held_bytes(self) -> int:
        """The bytes of memory that it takes, roughly."""
        texts = (self.member_id, self.instance_id, self.rack_id, self.client_id, self.client_host, self.regex)
        protocols = 0 if self.classic is None else protocols_bytes(self.classic.protocols)
        return (
            MEMBER_BYTES
            + sum(map(text_bytes, (*texts, self.server_assignor, *self.names)))
            + protocols
            + self.owned_bytes
        )

    @property
    def owned_bytes(self) -> int:
        """The part of them that its partitions take."""
        return PARTITION_BYTES * sum(map(len, (*self.assigned.values(), *self.pending.values())))


class State:
    """See the module.

    Attributes:
        exists: a record says that there is the group.
        epoch: counts the changes that need another target; 1 before the first of them.
        metadata_hash: of the topics that the group subscribes to, as of that epoch; 0 if none of them exists.
        assignment_epoch: the group epoch of which the target is; 1 before there is any.
        assignment_timestamp_ms: when it was computed, in Unix time; 0 if that does not matter.
        static_members: instance id → member id.
        targets: by member id, maybe of members of which the record is still to come.
        owner_epochs: topic id → partition → epoch of the member that has it, or has not given it up yet.
        resolved: the topics of each regex that was resolved.
        classic_members: how many members are of the classic protocol.
        classic_protocols: how many of these support each protocol, by its name.
        has_old_metadata: the log has a record of topics as Kafka 4.0 wrote them (key 4).
        held_bytes: what the members and their partitions take in memory, roughly.
        most_members: how many there have been at once since the group was made or loaded.
    """

    __slots__ = (
        "_at_epoch",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "classic_members",
        "classic_protocols",
        "epoch",
        "exists",
        "has_old_metadata",
        "held_bytes",
        "members",
        "metadata_hash",
        "most_members",
        "owner_epochs",
        "resolved",
        "static_members",
        "subscriptions",
        "targets",
    )

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Be the state of a group of which there is no record."""
        self.exists = False
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp_ms = 0
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Target] = {}
        self.owner_epochs: dict[UUID, dict[int, int]] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        self.subscriptions = Subscriptions()
        self.classic_members = 0
        self.classic_protocols: dict[str, int] = {}
        self.has_old_metadata = False
        self.held_bytes = 0
        self.most_members = 0
        self._at_epoch: dict[int, int] = {}
        """Member epoch → how many members are STABLE there."""

    def copy(self) -> State:
        """Another one that is equal; what is done to it does not show in this one."""
        other = State()
        other.exists = self.exists
        other.epoch = self.epoch
        other.metadata_hash = self.metadata_hash
        other.assignment_epoch = self.assignment_epoch
        other.assignment_timestamp_ms = self.assignment_timestamp_ms
        other.members = self.members.copy()
        other.static_members = self.static_members.copy()
        other.targets = self.targets.copy()
        other.owner_epochs = {topic_id: epochs.copy() for topic_id, epochs in self.owner_epochs.items()}
        other.resolved = self.resolved.copy()
        other.subscriptions = self.subscriptions.copy()
        other.classic_members = self.classic_members
        other.classic_protocols = self.classic_protocols.copy()
        other.has_old_metadata = self.has_old_metadata
        other.held_bytes = self.held_bytes
        other.most_members = self.most_members
        other._at_epoch = self._at_epoch.copy()
        return other

    @property
    def group_state(self) -> ConsumerGroupState:
        """The state of the group, which follows from everything else."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if self._at_epoch.get(self.assignment_epoch, 0) < len(self.members):
            return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    def owner_epoch(self, topic_id: UUID, partition: int) -> int:
        """The epoch of the member that has a partition, `NOBODY` if none has."""
        epochs = self.owner_epochs.get(topic_id)
        return NOBODY if epochs is None else epochs.get(partition, NOBODY)

    def static_member(self, instance_id: str) -> Member | None:
        """The member that an instance id stands for."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def topics_of(self, member: Member) -> Iterable[str]:
        """The names of the topics that a member subscribes to, each once, whether they exist or not (R3.1)."""
        resolved = self.resolved.get(member.regex) if member.regex else None
        return member.names if resolved is None else dict.fromkeys((*member.names, *resolved.topics))

    # For `apply` alone

    def put(self, member: Member, *, is_step: bool = False) -> None:
        """Let a member take the place of the one with its id, if there is one.

        Args:
            is_step: it differs only in its epochs, its state and its partitions.
        """
        before = self.members.get(member.member_id)
        if before is None:
            self.subscriptions.add(member.names, member.regex)
            self.held_bytes += member.held_bytes
        else:
            self._uncount(before)
            if is_step:
                self.held_bytes += member.owned_bytes - before.owned_bytes
            else:
                self.held_bytes += member.held_bytes - before.held_bytes
            if (before.names, before.regex) != (member.names, member.regex):
                self.subscriptions.remove(before.names, before.regex)
                self.subscriptions.add(member.names, member.regex)
        self.members[member.member_id] = member
        self.subscriptions.by_regex_before = None
        self.most_members = max(self.most_members, len(self.members))
        if member.state is STABLE:
            self._at_epoch[member.epoch] = self._at_epoch.get(member.epoch, 0) + 1
        if member.classic is not None:
            self.classic_members += 1
            for name in member.classic.names:
                self.classic_protocols[name] = self.classic_protocols.get(name, 0) + 1

    def remove(self, member: Member) -> None:
        """Forget a member, whose partitions were given up before."""
        del self.members[member.member_id]
        self.held_bytes -= member.held_bytes
        self._uncount(member)
        self.subscriptions.remove(member.names, member.regex)
        if self.static_members.get(member.instance_id or "") == member.member_id:
            del self.static_members[member.instance_id or ""]

    def _uncount(self, member: Member) -> None:
        if member.state is STABLE:
            self._at_epoch[member.epoch] -= 1
            if not self._at_epoch[member.epoch]:
                del self._at_epoch[member.epoch]
        if member.classic is not None:
            self.classic_members -= 1
            for name in member.classic.names:
                self.classic_protocols[name] -= 1
                if not self.classic_protocols[name]:
                    del self.classic_protocols[name]
