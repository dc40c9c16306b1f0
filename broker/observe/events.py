"""What the group coordinator saw and decided, as typed events.

Every entry into the coordinator (a request, a timer that fired, the outcome of an append, a change of ownership) is
one *input* with a number of its own. Every decision taken on the way names that number as its ``cause``; an input
that an earlier one brought about (a timer it armed, records it wrote) names the earlier one. Following ``cause``
backwards answers why a group rebalanced.

Where Kafka's coordinator logs a line that people search for, `Event.line` words it as Kafka does. Heartbeats that
are accepted leave no event: they are the hot path, and `SessionExpired` says when a member was last heard of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeAlias


@dataclass(slots=True, kw_only=True)
class Event:
    """Something that happened to a group.

    Attributes:
        group_id: the group; empty for events of a whole partition.
        cause: the number of the input that led to it, 0 if none did.
    """

    group_id: str
    cause: int

    def line(self) -> str | None:
        """The line in Kafka's wording, None where Kafka logs none."""
        return None

    def summary(self) -> str:
        """One line with the name and every field, for traces."""
        parts = [type(self).__name__]
        for field in fields(self):
            if field.name not in ("group_id", "cause"):
                parts.append(f"{field.name}={_brief(getattr(self, field.name))}")
        return " ".join(parts)


def _brief(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_brief(item) for item in value) + "]"
    text = str(value)
    return repr(text) if isinstance(value, str) and (not text or " " in text) else text


Emit: TypeAlias = Callable[[Event], None]
"""Takes an event; must not call back into the coordinator."""


def no_op(event: Event) -> None:
    """The observer that observes nothing."""


# Inputs


@dataclass(slots=True, kw_only=True)
class Input(Event):
    """An entry into the coordinator; ``number`` is what its decisions call their cause."""

    number: int


@dataclass(slots=True, kw_only=True)
class RequestReceived(Input):
    """A group API was called. Of heartbeats only refused ones are told, without the client's name and address."""

    api: str
    api_version: int
    client_id: str
    client_host: str
    member_id: str
    group_instance_id: str | None
    generation: int
    reason: str | None


@dataclass(slots=True, kw_only=True)
class TimerFired(Input):
    """A deadline passed."""

    timer: str
    member_id: str


@dataclass(slots=True, kw_only=True)
class AppendFinished(Input):
    """Records are durable, or failed with ``error``."""

    what: str
    error: str


@dataclass(slots=True, kw_only=True)
class OwnershipChanged(Input):
    """A partition of ``__consumer_offsets`` began loading, was loaded, failed to load or was given up."""

    partition: int
    state: str
    groups: int

    def line(self) -> str | None:
        return f"__consumer_offsets-{self.partition} is {self.state} with {self.groups} groups"


# Answers


@dataclass(slots=True, kw_only=True)
class RequestParked(Event):
    """A request waits for others; ``replaced`` tells that it took the place of one that is never answered."""

    api: str
    member_id: str
    replaced: bool


@dataclass(slots=True, kw_only=True)
class RequestAnswered(Event):
    """A request that was parked is answered; ``error`` is NONE if it was granted."""

    api: str
    member_id: str
    error: str


@dataclass(slots=True, kw_only=True)
class RequestRefused(Event):
    """A request was answered with an error at once."""

    api: str
    member_id: str
    error: str


# The life of a group


@dataclass(slots=True, kw_only=True)
class GroupCreated(Event):
    """A group that nobody knew; ``simple`` if it only stores offsets."""

    simple: bool


@dataclass(slots=True, kw_only=True)
class GroupRemoved(Event):
    """A group is no more."""

    generation: int
    reason: str

    def line(self) -> str | None:
        return f"Group {self.group_id} transitioned to Dead in generation {self.generation} (reason: {self.reason})"


@dataclass(slots=True, kw_only=True)
class StateChanged(Event):
    """A transition of the state machine."""

    before: str
    after: str
    generation: int


@dataclass(slots=True, kw_only=True)
class RebalanceStarted(Event):
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


@dataclass(slots=True, kw_only=True)
class BarrierOpened(Event):
    """A phase waits for members until ``deadline_ms``.

    ``barrier`` is ``initial delay``, ``join`` or ``sync``; ``awaited`` are the members that are not there yet.
    """

    barrier: str
    deadline_ms: int
    awaited: list[str]


@dataclass(slots=True, kw_only=True)
class BarrierClosed(Event):
    """The phase is over; ``absent`` are the members that never came."""

    barrier: str
    absent: list[str]

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


@dataclass(slots=True, kw_only=True)
class GenerationStarted(Event):
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


@dataclass(slots=True, kw_only=True)
class AssignmentReceived(Event):
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


@dataclass(slots=True, kw_only=True)
class AssignmentsPublished(Event):
    """The assignments are durable and every waiting member has its own."""

    generation: int
    members: int
    empty: list[str]


# Members


@dataclass(slots=True, kw_only=True)
class MemberIdIssued(Event):
    """A dynamic member was told to come back with this id (KIP-394)."""

    member_id: str
    state: str

    def line(self) -> str | None:
        return (
            f"Dynamic member with unknown member id joins group {self.group_id} in {self.state} state. Created a new "
            f"member id {self.member_id} and requesting the member to rejoin with this id."
        )


@dataclass(slots=True, kw_only=True)
class MemberAdded(Event):
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


@dataclass(slots=True, kw_only=True)
class MemberReplaced(Event):
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


@dataclass(slots=True, kw_only=True)
class ReplacementReverted(Event):
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


@dataclass(slots=True, kw_only=True)
class LeaderChanged(Event):
    """Another member leads the group, or none."""

    leader_id: str | None
    old_leader_id: str | None
    reason: str


@dataclass(slots=True, kw_only=True)
class SessionExpired(Event):
    """A member was not heard of for its session timeout, or a new one did not get into a generation in time."""

    member_id: str
    last_heard_ms: int
    is_new: bool

    def line(self) -> str | None:
        return f"Member {self.member_id} in group {self.group_id} has failed, removing it from the group"


@dataclass(slots=True, kw_only=True)
class PendingMemberExpired(Event):
    """An issued id was not used in time."""

    member_id: str

    def line(self) -> str | None:
        return (
            f"Pending member {self.member_id} in group {self.group_id} has been removed after session timeout "
            "expiration."
        )


@dataclass(slots=True, kw_only=True)
class MemberLeft(Event):
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


@dataclass(slots=True, kw_only=True)
class MemberRejected(Event):
    """The group is full (``group.max.size``)."""

    member_id: str
    members: int


# Offsets


@dataclass(slots=True, kw_only=True)
class OffsetsCommitted(Event):
    """Offsets are durable and visible."""

    member_id: str
    partitions: int


@dataclass(slots=True, kw_only=True)
class OffsetsRemoved(Event):
    """Tombstones of committed offsets are durable."""

    partitions: int
    reason: str


@dataclass(slots=True, kw_only=True)
class WriteFailed(Event):
    """Records of a group could not be written."""

    what: str
    error: str

    def line(self) -> str | None:
        return f"Failed to write {self.what} for group {self.group_id}: {self.error}"
