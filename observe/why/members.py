"""Members as they are remembered, and the reading of their metadata and assignments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import NamedTuple, TypeAlias

from ottla.broker.core.events import JoinReceived, LoadedMember, MemberAdded, NamedBytes
from ottla.observe.why.model import MemberPart
from ottla.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    Subscription,
    assigned_partitions,
    decode_subscription,
    subscribed_topics,
)
from ottla.protocol.errors import MalformedFrame

Partition: TypeAlias = tuple[str, int]
FEW_PARTITIONS = 4
"""So many partitions of a member are remembered; more are read again from its assignment each time."""
NEVER = -1


def read_subscription(data: bytes) -> Subscription | None:
    """A member's metadata; None if they are not the consumer protocol's."""
    try:
        return decode_subscription(data)
    except MalformedFrame:
        try:
            return Subscription(topics=subscribed_topics(data))
        except MalformedFrame:
            return None


def read_partitions(data: bytes) -> tuple[Partition, ...] | None:
    """The partitions of an assignment, none if it is empty; None if it cannot be read."""
    if not data:
        return ()
    try:
        return tuple(assigned_partitions(data))
    except MalformedFrame:
        return None


NOTHING_HELD: frozenset[Partition] = frozenset()


class Asked:
    """The content of a JoinGroup.

    Attributes:
        names: of the protocols, in its order.
        topics: None if the metadata cannot be read.
        held: the partitions that it keeps while the group rebalances (KIP-429).
        user_data: what the assignors say among themselves.
        is_partial: only what the log has of it is known, which is the metadata for the chosen protocol.
    """

    __slots__ = ("held", "is_partial", "names", "protocols", "topics", "user_data")

    def __init__(self, protocol_type: str, protocols: Sequence[NamedBytes]) -> None:
        self.protocols = protocols
        self.is_partial = False
        self.names = [intern(protocol.name) for protocol in protocols]
        self.topics: list[str] | None = None
        self.held: frozenset[Partition] = NOTHING_HELD
        self.user_data: list[bytes | None] = []
        if protocol_type != PROTOCOL_TYPE:
            return
        held: set[Partition] = set()
        topics: dict[str, None] = {}
        readable = False
        for protocol in protocols:
            if (said := read_subscription(protocol.data)) is None:
                continue
            readable = True
            topics.update((intern(topic), None) for topic in said.topics)
            self.user_data.append(said.user_data)
            held.update((one.topic, partition) for one in said.owned_partitions for partition in one.partitions)
        if readable:
            self.topics = sorted(topics)
            self.held = frozenset(held) if held else NOTHING_HELD


NOTHING_ASKED = Asked("", ())

MOST_SHARED_BYTES = 1_024
"""What is asked for is shared between members if its metadata are no longer than this together."""


def asked_for(protocol_type: str, protocols: Sequence[NamedBytes], *, is_partial: bool = False) -> Asked:
    """One object for what is asked for, however many ask: most members of a group ask for the same."""
    named = tuple((protocol.name, protocol.data) for protocol in protocols)
    is_small = sum(len(data) for _, data in named) <= MOST_SHARED_BYTES
    return (_shared if is_small else _shared.__wrapped__)(protocol_type, named, is_partial)


@lru_cache(maxsize=1024)
def _shared(protocol_type: str, protocols: tuple[tuple[str, bytes], ...], is_partial: bool) -> Asked:
    asked = Asked(protocol_type, [NamedBytes(name, data) for name, data in protocols])
    asked.is_partial = is_partial
    return asked


@dataclass(slots=True, eq=False)
class Known:
    """A member, as the events tell of it. Times are the broker's monotonic clock, `NEVER` if there is none.

    Attributes:
        asked: its last JoinGroup.
        assignment: the bytes of its last assignment, read when they are needed: the coordinator has the same bytes.
        owned: how many partitions that is.
        read: the partitions of the assignment if they are few, or while they are needed again soon; see `partitions`.
        heard_ms: when it was last known to have been heard of; sign_ms: when it last did something that shows that its
            application runs: a join, a sync, a commit.
        lost_ms: when the connection over which it joined was lost, unless it was heard of since.
        is_connected: it joined over a connection; one that was read from the log may have one or not.
        error: the last error that it was answered, since it joined.
        departures: when it, or those whose place it took, left or were removed (Unix time); the newest last.
        awaited_sync: the generation whose assignment it has not fetched yet, -1 if none.
        is_classic: it is of the classic protocol.
    """

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = 0
    asked: Asked = NOTHING_ASKED
    assignment: bytes = b""
    owned: int = 0
    read: tuple[Partition, ...] | None = None
    heard_ms: int = NEVER
    sign_ms: int = NEVER
    lost_ms: int = NEVER
    is_connected: bool = False
    error: str = ""
    departures: Sequence[int] = ()
    awaited_sync: int = -1
    is_classic: bool = True

    def __post_init__(self) -> None:
        self.client_id = intern(self.client_id)
        self.client_host = intern(self.client_host)

    @classmethod
    def added(cls, event: MemberAdded, join: JoinReceived | None) -> Known:
        """A member that joined; without its JoinGroup what it asks for is not known."""
        known = cls(event.member_id, event.client_id, event.client_host, event.group_instance_id)
        if join is not None:
            known.ask(join)
        return known

    @classmethod
    def loaded(cls, member: LoadedMember, protocol_type: str | None, protocol_name: str | None) -> Known:
        """A member that the log has."""
        known = cls(member.member_id, member.client_id, member.client_host, member.group_instance_id)
        known.session_timeout_ms = member.session_timeout_ms
        known.rebalance_timeout_ms = member.rebalance_timeout_ms
        if protocol_name is not None:
            only = [NamedBytes(protocol_name, member.subscription)]
            known.asked = asked_for(protocol_type or "", only, is_partial=True)
        known.assign(member.assignment, is_readable=protocol_type == PROTOCOL_TYPE)
        return known

    def ask(self, join: JoinReceived) -> Asked:
        """Take over what a JoinGroup asks for; returns what was asked before."""
        before = self.asked
        if before.protocols != join.protocols:
            self.asked = asked_for(join.protocol_type, join.protocols)
        self.session_timeout_ms = join.session_timeout_ms
        has_own = join.rebalance_timeout_ms >= 0
        self.rebalance_timeout_ms = join.rebalance_timeout_ms if has_own else join.session_timeout_ms
        return before

    def heard(self, at_ms: int) -> None:
        """It asked for something: its application runs, and it has a connection."""
        self.is_connected = True
        self.heard_ms = self.sign_ms = at_ms
        self.lost_ms = NEVER

    def assign(self, assignment: bytes, *, is_readable: bool = True) -> tuple[Partition, ...] | None:
        """Take over an assignment; returns its partitions, None if they cannot be read."""
        if self.read is None or not is_readable or assignment != self.assignment:
            self.read = read_partitions(assignment) if is_readable else None
        self.assignment = assignment
        self.owned = len(self.read or ())
        return self.read

    def partitions(self, *, again: bool = False) -> tuple[Partition, ...]:
        """Its partitions; none if they cannot be read. ``again``: keep them, as they are soon needed once more."""
        found = self.read
        if found is None:
            found = read_partitions(self.assignment) or ()
        self.read = found if again or len(found) <= FEW_PARTITIONS else None
        return found

    @property
    def is_bare(self) -> bool:
        """True once it was stripped; see `strip`."""
        return self.asked is NOTHING_ASKED and not self.assignment

    def strip(self) -> None:
        """Forget what it asked for and had: it is gone, and only who it was still counts."""
        self.asked = NOTHING_ASKED
        self.assignment = b""

    @property
    def place(self) -> tuple[str, str]:
        """The key by which a successor is recognised: the instance id, or else client id and host."""
        if self.group_instance_id is not None:
            return self.group_instance_id, "\0instance"
        return self.client_id, self.client_host

    def part(self) -> MemberPart:
        """Its part in an episode that begins."""
        return MemberPart(
            self.member_id,
            self.client_id,
            self.client_host,
            self.group_instance_id,
            before=self.owned,
            topics=self.asked.topics or [],
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
        )


@dataclass(slots=True, eq=False)
class Departure:
    """A member that is gone.

    Attributes:
        cause: how it went; wall_ms, at_ms: when.
        known: what was known of it.
        closed_ms: when its connection was lost afterwards, `NEVER` if it was not (yet).
        back_ms: when a successor joined, Unix time; `NEVER` if none did (yet).
        heard_ms: when it was heard of again under its old id.
    """

    known: Known
    cause: str
    at_ms: int
    wall_ms: int
    closed_ms: int = NEVER
    back_ms: int = NEVER
    heard_ms: int = NEVER


class Happening(NamedTuple):
    """Something that an input brought about; ``known`` is the member that did it."""

    cause: str
    known: Known | None
    reason: str
    facts: dict[str, str]
    fate: str = ""
