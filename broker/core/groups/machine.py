"""What all parts of the coordinator share: time, timers, effects, events, and the groups by id.

An entry into the coordinator calls `Machine.begin` once; until it returns, ``now_ms`` and ``wall_ms`` stand still and
``cause`` is its number. The modules around this one are functions that take the machine first, and each is about one
subject; none of them keeps state of its own.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.broker.core.effects import Append, Asker, Effect, Reply
from ottla.broker.core.events import (
    Event,
    GroupRemoved,
    LeaderChanged,
    Observer,
    RequestAnswered,
    StateChanged,
    WriteFailed,
)
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.group import Group, Recorded
from ottla.broker.core.groups.member import Member, text_bytes
from ottla.broker.core.groups.shard import Shard
from ottla.broker.core.groups.state import GroupState
from ottla.broker.core.purgatory import Deadlines
from ottla.protocol.errors import ErrorCode
from ottla.protocol.offsets_topic import CoordinatorRecord

ERROR_NAMES = {int(code): code.name for code in ErrorCode}
"""Names of error codes; looking them up in the enumeration takes longer than the rest of an event."""


ISSUED_BYTES = 512
"""What an issued id takes besides its text, roughly."""


class Timer(enum.StrEnum):
    """What a deadline is about."""

    SESSION = "session"
    INITIAL_DELAY = "initial delay"
    JOIN = "join"
    SYNC = "sync"
    RETENTION = "retention"


class TimerKey(NamedTuple):
    """The key of a deadline; the subject is a group id, or a partition for ``RETENTION``."""

    timer: Timer
    subject: str | int
    member_id: str = ""


class Write:
    """Records on their way to the log; the token of their `Append`.

    Attributes:
        cause: the input that wrote them.
    """

    __slots__ = ("cause", "shard", "waiters")
    what = "records"
    producer_id = -1
    """The transaction that the records belong to; -1 for records that count at once."""
    producer_epoch = -1
    verified: object = None
    """Shows that the transaction may write to the partition, if it has not yet."""

    def __init__(self, shard: Shard) -> None:
        self.shard = shard
        self.cause = 0
        self.waiters: list[Waiter] = []

    def done(self, m: Machine, error: ErrorCode) -> None:
        """The records are durable (``NONE``), or failed."""
        raise NotImplementedError

    @property
    def group_id(self) -> str:
        """The group that they are about, empty if there is no single one."""
        return ""


class Waiter:
    """An answer that waits for a write of which it is not the subject."""

    __slots__ = ()

    def done(self, m: Machine, error: ErrorCode) -> None:
        """The write succeeded or failed."""
        raise NotImplementedError


class GroupWrite(Write):
    """A record of the group itself; keeps account of what the log says of it."""

    __slots__ = ("generation", "group", "revision")

    def __init__(self, group: Group) -> None:
        super().__init__(group.shard)
        self.group = group
        self.generation = group.generation
        self.revision = group.revision

    @property
    def group_id(self) -> str:
        return self.group.group_id

    def begins(self) -> None:
        """Called when the record is handed over."""
        self.group.group_writes += 1
        if self.group.recorded is Recorded.CURRENT:
            self.group.recorded = Recorded.STALE

    def ended(self, m: Machine, error: ErrorCode) -> None:
        """Called once its outcome is known.

        If memory has moved on, either its state says so or a later record is on its way; only a static member that
        was replaced, or whose replacement was taken back, shows in the revision alone.
        """
        group = self.group
        group.group_writes -= 1
        if not error:
            group.recorded = Recorded.CURRENT if group.revision == self.revision else Recorded.STALE
            return
        if group.recorded is Recorded.CURRENT:
            group.recorded = Recorded.STALE
        m.emit(WriteFailed(group_id=self.group_id, cause=m.cause, what=self.what, error=error.name))


class Machine:
    """See the module. Attributes that entries change are ``now_ms``, ``wall_ms`` and ``cause``."""

    __slots__ = (
        "cause",
        "config",
        "deadlines",
        "effects",
        "groups",
        "held_bytes",
        "issued",
        "issued_bytes",
        "new_id",
        "now_ms",
        "observed",
        "observer",
        "partition_count",
        "recorded",
        "shards",
        "wall_ms",
    )

    def __init__(
        self, config: GroupConfig, new_id: Callable[[], str], partition_count: int, observer: Observer
    ) -> None:
        self.config = config
        self.new_id = new_id
        self.partition_count = partition_count
        self.observer = observer
        self.observed = observer.wants_requests
        self.recorded = self.observed and observer.wants_all
        self.deadlines: Deadlines[TimerKey] = Deadlines()
        self.effects: list[Effect] = []
        self.shards = [Shard(partition) for partition in range(partition_count)]
        self.groups: dict[str, Group] = {}
        """The groups of all active shards."""
        self.held_bytes = 0
        """What they take in memory, roughly, as far as `weigh` was told."""
        self.issued: dict[TimerKey, None] = {}
        """The issued ids of all groups that have not come back, oldest first."""
        self.issued_bytes = 0
        self.now_ms = 0
        self.wall_ms = 0
        self.cause = 0

    def begin(self, now_ms: int, wall_ms: int | None = None) -> int:
        """Start an entry; returns its number."""
        self.now_ms = now_ms
        if wall_ms is not None:
            self.wall_ms = wall_ms
        self.cause += 1
        return self.cause

    def emit(self, event: Event) -> None:
        """Tell the observer what happened, with the time of this entry."""
        event.at_ms = self.now_ms
        event.wall_ms = self.wall_ms
        self.observer(event)

    # Effects

    def reply(self, ctx: Asker, response: Any, group_id: str, member_id: str) -> None:
        """Answer a parked request."""
        self.effects.append(Reply(ctx, response))
        if self.observed:
            self.emit(
                RequestAnswered(
                    group_id=group_id,
                    cause=self.cause,
                    api=type(response).__name__.removesuffix("Response"),
                    member_id=member_id,
                    error=ERROR_NAMES[getattr(response, "error_code", 0)],
                )
            )

    def append(self, write: Write, records: list[CoordinatorRecord]) -> None:
        """Hand records over to the log; ``write.done`` is called with their outcome."""
        write.cause = self.cause
        write.shard.in_flight[write] = None
        if isinstance(write, GroupWrite):
            write.begins()
        self.effects.append(
            Append(write.shard.partition, records, write, write.producer_id, write.producer_epoch, write.verified)
        )

    # Timers

    def start_session(self, group: Group, member: Member, timeout_ms: int | None = None) -> None:
        """Give a member its session timeout, or another time, from now on.

        The purgatory looks after it no later than a heartbeat of right now would make it due, so that heartbeats
        need not touch the purgatory. If it turns out to be early the same is done again.
        """
        session_ms = member.session_timeout_ms
        member.session_deadline_ms = self.now_ms + (session_ms if timeout_ms is None else timeout_ms)
        key = TimerKey(Timer.SESSION, group.group_id, member.member_id)
        self.deadlines.set(key, min(member.session_deadline_ms, self.now_ms + session_ms))

    def last_heard_ms(self, member: Member) -> int:
        """When a member was last heard of; later than that, maybe, for one that has not been in a generation yet."""
        return member.session_deadline_ms - member.session_timeout_ms

    def shorten_session(self, group: Group, member: Member) -> None:
        """After a member's session timeout changed: look after it as `start_session` does, but leave it as it is."""
        key = TimerKey(Timer.SESSION, group.group_id, member.member_id)
        armed = self.deadlines.get(key)
        if armed is not None and armed > self.now_ms + member.session_timeout_ms:
            self.deadlines.set(key, self.now_ms + member.session_timeout_ms)

    def ensure_session(self, group: Group, member: Member) -> None:
        """Start a session whose deadline passed while the member was parked."""
        if TimerKey(Timer.SESSION, group.group_id, member.member_id) not in self.deadlines:
            self.start_session(group, member)

    def cancel_session(self, group: Group, member_id: str) -> None:
        """Forget the deadline of a member or issued id."""
        key = TimerKey(Timer.SESSION, group.group_id, member_id)
        self.deadlines.cancel(key)
        self.came_back(key)

    # Issued ids

    def issue(self, group: Group, member_id: str, timeout_ms: int) -> None:
        """Await somebody under an id for so long."""
        key = TimerKey(Timer.SESSION, group.group_id, member_id)
        group.pending_members[member_id] = None
        self.deadlines.set(key, self.now_ms + timeout_ms)
        self.issued[key] = None
        self.issued_bytes += ISSUED_BYTES + text_bytes(member_id)

    def came_back(self, key: TimerKey) -> None:
        """An id is not outstanding any more, if it was."""
        if key in self.issued:
            del self.issued[key]
            self.issued_bytes -= ISSUED_BYTES + text_bytes(key.member_id)

    def surplus(self, group: Group) -> TimerKey | None:
        """The issued id to be given up after one of a group was issued; None if there is room for all.

        It is one of the same group, so that nobody's clients push out those of other groups, unless it has one only.
        """
        if len(group.pending_members) > self.config.group_max_issued_ids or (
            self.issued_bytes > self.config.groups_max_issued_bytes and len(group.pending_members) > 1
        ):
            return TimerKey(Timer.SESSION, group.group_id, next(iter(group.pending_members)))
        return next(iter(self.issued)) if self.issued_bytes > self.config.groups_max_issued_bytes else None

    def arm(self, timer: Timer, group: Group, after_ms: int) -> int:
        """Set a deadline of a group; returns when it is."""
        at_ms = self.now_ms + max(after_ms, 0)
        self.deadlines.set(TimerKey(timer, group.group_id), at_ms)
        return at_ms

    def disarm(self, timer: Timer, group: Group) -> None:
        """Forget a deadline of a group."""
        self.deadlines.cancel(TimerKey(timer, group.group_id))

    # Groups

    def move(self, group: Group, state: GroupState) -> None:
        """Bring a group into another state."""
        before = group.state
        group.move(state, self.wall_ms)
        self.note_move(group, before)

    def note_move(self, group: Group, before: GroupState) -> None:
        """Tell observers of a transition."""
        self.emit(
            StateChanged(
                group_id=group.group_id,
                cause=self.cause,
                before=before,
                after=group.state,
                generation=group.generation,
            )
        )

    def note_leader(self, group: Group, before: str | None, reason: str) -> None:
        """Tell observers if the leader changed."""
        if group.leader_id != before:
            self.emit(
                LeaderChanged(
                    group_id=group.group_id,
                    cause=self.cause,
                    leader_id=group.leader_id,
                    old_leader_id=before,
                    reason=reason,
                )
            )

    def has_room(self, group: Group | None, more_bytes: int) -> bool:
        """Whether a group, or one that is not there yet, may keep so much more. Less is always welcome."""
        if more_bytes <= 0:
            return True
        config = self.config
        if group is not None and group.held_bytes + more_bytes > config.group_max_bytes:
            return False
        return self.held_bytes + more_bytes <= config.groups_max_bytes

    def weigh(self, group: Group) -> None:
        """Take note of what a group takes in memory now."""
        self.held_bytes += group.held_bytes - group.noted_bytes
        group.noted_bytes = group.held_bytes

    def drop_weight(self, group: Group) -> None:
        """A group is not among ours any more."""
        self.held_bytes -= group.noted_bytes
        group.noted_bytes = 0

    def remove_member(self, group: Group, member_id: str, reason: str) -> None:
        """Remove a member or issued id with its deadline; parked requests were answered by the caller."""
        leader_id = group.leader_id
        group.remove(member_id)
        self.weigh(group)
        self.cancel_session(group, member_id)
        self.note_leader(group, leader_id, reason)

    def add_group(self, group: Group) -> None:
        """Make a group known."""
        self.groups[group.group_id] = group
        group.shard.groups[group.group_id] = group
        self.weigh(group)

    def forget_group(self, group: Group, reason: str) -> None:
        """Make a group unknown and cancel its deadlines."""
        del self.groups[group.group_id]
        del group.shard.groups[group.group_id]
        self.drop_weight(group)
        self.cancel_timers(group)
        self.emit(GroupRemoved(group_id=group.group_id, cause=self.cause, generation=group.generation, reason=reason))

    def cancel_timers(self, group: Group) -> None:
        """Cancel every deadline of a group, its members and issued ids."""
        for timer in (Timer.INITIAL_DELAY, Timer.JOIN, Timer.SYNC):
            self.disarm(timer, group)
        for member_id in [*group.members, *group.pending_members]:
            self.cancel_session(group, member_id)
