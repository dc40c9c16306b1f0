"""Decisions of the coordinator, and their results."""

from __future__ import annotations

from msgspec import Struct, field

from ottla.broker.core.events.base import Event
from ottla.broker.core.events.inputs import Commit, NamedBytes

# Answers


class RequestParked(Event, kw_only=True):
    """A request waits for others; ``replaced`` tells that it took the place of one that is never answered."""

    api: str
    member_id: str
    replaced: bool


class RequestAnswered(Event, kw_only=True):
    """A request that was parked is answered; ``error`` is NONE if it was granted."""

    api: str
    member_id: str
    error: str


class RequestRefused(Event, kw_only=True):
    """A request was answered with an error at once."""

    api: str
    member_id: str
    error: str


# The life of a group


class GroupCreated(Event, kw_only=True):
    """A group that nobody knew; ``simple`` if it only stores offsets."""

    simple: bool


class GroupRemoved(Event, kw_only=True):
    """A group is no more."""

    generation: int
    reason: str

    def line(self) -> str | None:
        return f"Group {self.group_id} transitioned to Dead in generation {self.generation} (reason: {self.reason})"


class LoadedMember(Struct, array_like=True, gc=False):
    """A member as the log has it."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    subscription: bytes
    assignment: bytes


class PendingCommit(Struct, array_like=True, gc=False):
    """An offset of an open transaction; ``is_overtaken`` if a later one of the partition has taken its place."""

    producer_id: int
    is_overtaken: bool
    commit: Commit


class GroupLoaded(Event, kw_only=True):
    """A group came back from the log, at a start or when the coordinator moved here.

    Attributes:
        state_since_ms: Unix time; None if the log has none.
        loaded, commits: its members and its offsets.
        pending: the offsets of open transactions, in the order of the log.
        is_recorded: whether the log has the group itself, and not only offsets of it.
    """

    state: str
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader_id: str | None
    state_since_ms: int | None
    loaded: list[LoadedMember]
    commits: list[Commit]
    pending: list[PendingCommit] = field(default_factory=list)
    is_recorded: bool = True


class StateChanged(Event, kw_only=True):
    """A transition of the state machine."""

    before: str
    after: str
    generation: int


class RebalanceStarted(Event, kw_only=True):
    """The group entered PreparingRebalance. ``generation`` is the old one."""

    generation: int
    partition: int
    members: int
    reason: str

    def line(self) -> str | None:
        return (
            f"Preparing to rebalance group {self.group_id} in state PreparingRebalance with old generation "
            f"{self.generation} (__consumer_offsets-{self.partition}) (reason: {self.reason})"
        )


class BarrierOpened(Event, kw_only=True):
    """A phase waits for members until ``deadline_ms``.

    ``barrier`` is ``initial delay``, ``join`` or ``sync``; ``awaited`` are the members that are not there yet.
    """

    barrier: str
    deadline_ms: int
    awaited: list[str]


class BarrierClosed(Event, kw_only=True):
    """The phase is over; ``absent`` are the members that never came, ``absent_heard_ms`` when each was last heard of.

    An id that was issued and never used was not heard of: -1.
    """

    barrier: str
    absent: list[str]
    absent_heard_ms: list[int] = field(default_factory=list)

    def line(self) -> str | None:
        if not self.absent:
            return None
        what = {
            "sync": "members who haven't sent their sync request",
            "no member rejoined": "",
        }.get(self.barrier, "dynamic members who haven't joined")
        if not what:
            return f"Group {self.group_id} could not complete rebalance because no members rejoined"
        return f"Group {self.group_id} removed {what}: {', '.join(self.absent)}"


class GenerationStarted(Event, kw_only=True):
    """The join phase ended; ``members`` is 0 if the group became Empty."""

    generation: int
    partition: int
    members: int
    leader_id: str | None
    protocol_name: str | None

    def line(self) -> str | None:
        where = f"(__consumer_offsets-{self.partition})"
        if not self.members:
            return f"Group {self.group_id} with generation {self.generation} is now empty {where}"
        return f"Stabilized group {self.group_id} generation {self.generation} {where} with {self.members} members"


class AssignmentReceived(Event, kw_only=True):
    """The leader's SyncGroup came; its assignments are being written."""

    leader_id: str
    generation: int
    members: int
    static_members: int

    def line(self) -> str | None:
        return (
            f"Assignment received from leader {self.leader_id} for group {self.group_id} for generation "
            f"{self.generation}. The group has {self.members} members, {self.static_members} of which are static."
        )


class AssignmentsPublished(Event, kw_only=True):
    """The assignments are durable and every waiting member has its own."""

    generation: int
    members: int
    empty: list[str]
    assignments: list[NamedBytes]


# Members


class MemberIdIssued(Event, kw_only=True):
    """A dynamic member was told to come back with this id (KIP-394)."""

    member_id: str
    state: str

    def line(self) -> str | None:
        return (
            f"Dynamic member with unknown member id joins group {self.group_id} in {self.state} state. Created a new "
            f"member id {self.member_id} and requesting the member to rejoin with this id."
        )


class MemberAdded(Event, kw_only=True):
    """A member joined. ``was_pending`` tells that it came back with an issued id."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    state: str
    was_pending: bool

    def line(self) -> str | None:
        if self.was_pending:
            return (
                f"Pending dynamic member with id {self.member_id} joins group {self.group_id} in {self.state} state. "
                "Adding to the group now."
            )
        if self.group_instance_id is not None:
            return (
                f"Static member with groupInstanceId={self.group_instance_id} and unknown member id joins group "
                f"{self.group_id} in {self.state} state. Created a new member id {self.member_id} for this member "
                "and adding to the group."
            )
        return (
            f"Dynamic member with unknown member id joins group {self.group_id} in {self.state} state. Created a new "
            f"member id {self.member_id} and adding the member to the group."
        )


class MemberReplaced(Event, kw_only=True):
    """A static member came back; its new id takes the place of the old one (KIP-345)."""

    member_id: str
    old_member_id: str
    group_instance_id: str
    state: str

    def line(self) -> str | None:
        return (
            f"Static member with groupInstanceId={self.group_instance_id} and unknown member id joins group "
            f"{self.group_id} in {self.state} state. Replacing previously mapped member {self.old_member_id} with "
            "this groupInstanceId."
        )


class ReplacementReverted(Event, kw_only=True):
    """The record of a replacement could not be written; the old id is back."""

    member_id: str
    old_member_id: str
    group_instance_id: str
    error: str

    def line(self) -> str | None:
        return (
            f"Failed to persist metadata for group {self.group_id} static member {self.member_id} with group "
            f"instance id {self.group_instance_id} due to {self.error}. Reverting to old member id "
            f"{self.old_member_id}."
        )


class LeaderChanged(Event, kw_only=True):
    """Another member leads the group, or none."""

    leader_id: str | None
    old_leader_id: str | None
    reason: str


class SessionExpired(Event, kw_only=True):
    """A member was not heard of for its session timeout, or a new one did not get into a generation in time."""

    member_id: str
    last_heard_ms: int
    session_timeout_ms: int
    is_new: bool

    def line(self) -> str | None:
        return f"Member {self.member_id} in group {self.group_id} has failed, removing it from the group"


class PendingMemberExpired(Event, kw_only=True):
    """An issued id was not used in time."""

    member_id: str

    def line(self) -> str | None:
        return (
            f"Pending member {self.member_id} in group {self.group_id} has been removed after session timeout "
            "expiration."
        )


class MemberLeft(Event, kw_only=True):
    """LeaveGroup removed a member or an issued id."""

    member_id: str
    group_instance_id: str | None
    was_pending: bool
    reason: str

    def line(self) -> str | None:
        who = "Pending member" if self.was_pending else "Member"
        return (
            f"{who} {self.member_id} has left group {self.group_id} through explicit `LeaveGroup` request; "
            f"client reason: {self.reason}"
        )


class MemberRejected(Event, kw_only=True):
    """The group is full (``group.max.size``)."""

    member_id: str
    members: int


# Offsets


class OffsetsCommitted(Event, kw_only=True):
    """Offsets are durable; ``moved_back`` are those that were further before, with the offset of then.

    They are visible, too, unless they belong to a transaction. When that ends this is told again, with ``producer_id``.
    """

    member_id: str
    partitions: int
    moved_back: list[Commit] = field(default_factory=list)
    producer_id: int = -1


class OffsetsRemoved(Event, kw_only=True):
    """Tombstones of committed offsets are durable."""

    partitions: int
    reason: str


class WriteFailed(Event, kw_only=True):
    """Records of a group could not be written."""

    what: str
    error: str

    def line(self) -> str | None:
        return f"Failed to write {self.what} for group {self.group_id}: {self.error}"
