"""The state of the group coordinator: the groups by id, their deadlines, what they hold in memory, and its observer.

The modules around this one are functions that take the machine first. Each is about one subject and keeps no state.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from ottla.broker.core.consumer_groups.assigning import Assigning
from ottla.broker.core.consumer_groups.group import ConsumerGroup, Session
from ottla.broker.core.consumer_groups.topics import Topics
from ottla.broker.core.coordination.machine import CoordinatorMachine, TimerKey
from ottla.broker.core.coordination.shard import Waiter, Write, append_error
from ottla.broker.core.effects import Asker, Reply
from ottla.broker.core.events import (
    THIS_ENTRY,
    UNOBSERVED,
    Event,
    GroupCreated,
    GroupRemoved,
    LeaderChanged,
    Observer,
    RequestAnswered,
    SettingsChanged,
    StateChanged,
    WriteFailed,
)
from ottla.broker.core.groups.classic.group import ClassicGroup, Recorded
from ottla.broker.core.groups.classic.state import GroupState
from ottla.broker.core.groups.config import ConsumerTimes, GroupConfig
from ottla.broker.core.groups.group import Group, HasSession, text_bytes
from ottla.broker.core.groups.offsets.committed import CommittedOffsets
from ottla.broker.core.groups.shard import GroupShard
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import DEFAULT_PARTITION_COUNT

ERROR_NAMES = {int(code): code.name for code in ErrorCode}
"""Names of error codes; looking them up in the enumeration takes longer than the rest of an event."""

ISSUED_BYTES = 512
"""Bytes that an issued id takes besides its text, roughly."""

R = TypeVar("R")


class Timer(enum.StrEnum):
    """The subject of a deadline."""

    SESSION = "session"
    INITIAL_DELAY = "initial delay"
    JOIN = "join"
    SYNC = "sync"
    RETENTION = "retention"
    REBALANCE = "rebalance"
    """Of a member of a consumer group, which has to give partitions up by then."""
    REGEX = "regex"
    """Of a consumer group, whose regexes are to be resolved: in an entry of its own, at once."""


MEMBER_TIMERS = (Timer.SESSION, Timer.REBALANCE, Timer.JOIN, Timer.SYNC)
"""What a member of a consumer group may have a deadline for. `JOIN` and `SYNC` are of members of the classic protocol:
one was told to join again, or is to fetch its assignment."""


@dataclass(slots=True)
class Hold:
    """The deadlines of a group that is held.

    Attributes:
        since_ms: when it was held, on the monotonic clock.
        count: how often it was held and not let go of.
        left_ms: the time that is left until each deadline, in milliseconds, once the group is let go of.
    """

    since_ms: int
    count: int = 1
    left_ms: dict[TimerKey, int] = field(default_factory=dict)


class GroupWrite(Write["Machine"]):
    """A record of a classic group itself; keeps account of what the log says of it."""

    __slots__ = ("generation", "group", "revision")

    def __init__(self, group: ClassicGroup) -> None:
        super().__init__(group.shard)
        self.group = group
        self.generation = group.generation
        self.revision = group.revision

    @property
    def group_id(self) -> str:
        return self.group.group_id

    def begins(self) -> None:
        self.group.group_writes += 1
        if self.group.recorded is Recorded.CURRENT:
            self.group.recorded = Recorded.STALE

    def is_current(self, m: Machine) -> bool:
        """Whether the group is still there, and has not become one of another kind."""
        return m.groups.get(self.group_id) is self.group

    def done(self, m: Machine, error: ErrorCode) -> None:
        """Note what the log says of the group now.

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
        m.emit(WriteFailed(group_id=self.group_id, what=self.what, error=error.name))


class Machine(CoordinatorMachine[GroupShard]):
    """See the module.

    Attributes:
        visible_topics: those of some topics that a client may describe; None where everybody may describe all.
    """

    visible_topics: Callable[[Asker, list[str]], list[str]] | None = None

    def __init__(
        self,
        config: GroupConfig,
        new_id: Callable[[], str],
        partition_count: int = DEFAULT_PARTITION_COUNT,
        observer: Observer = UNOBSERVED,
    ) -> None:
        super().__init__(map(GroupShard, range(partition_count)))
        self.config = config
        self.new_id = new_id
        self.observer = observer
        self.observed = observer.wants_requests
        self.recorded = self.observed and observer.wants_all
        self.groups: dict[str, Group] = {}
        """The groups of all active shards."""
        self.held_bytes = 0
        """Bytes of memory that they take, roughly, as far as `weigh` was told."""
        self.issued: dict[TimerKey, None] = {}
        """The issued ids of all groups that have not come back, oldest first."""
        self.issued_bytes = 0
        self.holds: dict[str, Hold] = {}
        """The groups whose deadlines are held, by their ids; there need not be such groups yet."""
        self.topics = Topics()
        """Every topic that there is."""
        self.assigning: dict[str, Assigning] = {}
        """Assignments of consumer groups that are under way, by group id."""
        self._usual_times = config.times_of({})
        self._overrides: dict[str, dict[str, str]] = {}
        self._times: dict[str, ConsumerTimes] = {}
        """Of consumer groups for which something was set."""

    def emit(self, event: Event) -> None:
        """Tell the observer what happened, with the time of this entry and, if it has no other cause, its number."""
        if event.cause == THIS_ENTRY:
            event.cause = self.cause
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
                    api=type(response).__name__.removesuffix("Response"),
                    member_id=member_id,
                    error=ERROR_NAMES[getattr(response, "error_code", 0)],
                )
            )

    def grant(self, ctx: Asker, response: Any, group_id: str, member_id: str) -> None:
        """Answer a parked request that succeeded. An event says so only if every event is wanted: there are many."""
        if self.recorded:
            self.reply(ctx, response, group_id, member_id)
        else:
            self.effects.append(Reply(ctx, response))

    # Timers

    def start_session(self, group: Group, member: HasSession, timeout_ms: int | None = None) -> None:
        """Give a member its session timeout, or another time, from now on.

        The purgatory looks after it no later than a heartbeat of right now would make it due, so that heartbeats
        need not touch the purgatory. If it turns out to be early the same is done again.
        """
        session_ms = member.session_timeout_ms
        after_ms = session_ms if timeout_ms is None else timeout_ms
        member.session_deadline_ms = self.now_ms + after_ms
        self.set_deadline(TimerKey(Timer.SESSION, group.group_id, member.member_id), min(after_ms, session_ms))

    def heard_of(self, group: Group, member_id: str) -> None:
        """A member that commits is alive: its session starts afresh."""
        if group.has_sessions and (member := group.session_of(member_id)) is not None:
            member.session_deadline_ms = self.now_ms + member.session_timeout_ms

    def last_heard_ms(self, member: HasSession) -> int:
        """When a member was last heard of; later than that, maybe, for one that has not been in a generation yet."""
        return member.session_deadline_ms - member.session_timeout_ms

    def shorten_session(self, group: Group, member: HasSession) -> None:
        """After a member's session timeout changed: look after it as `start_session` does, but leave it as it is."""
        key = TimerKey(Timer.SESSION, group.group_id, member.member_id)
        left_ms = self.left_ms(key)
        if left_ms is not None and left_ms > member.session_timeout_ms:
            self.set_deadline(key, member.session_timeout_ms)

    def ensure_session(self, group: Group, member: HasSession) -> None:
        """Start a session whose deadline passed while the member was parked."""
        if self.left_ms(TimerKey(Timer.SESSION, group.group_id, member.member_id)) is None:
            self.start_session(group, member)

    def cancel_session(self, group: Group, member_id: str) -> None:
        """Forget the deadline of a member or issued id."""
        key = TimerKey(Timer.SESSION, group.group_id, member_id)
        self.cancel_deadline(key)
        self.came_back(key)

    def new_session(
        self,
        group: ConsumerGroup,
        member_id: str,
        timeout_ms: int | None = None,
        *,
        own_timeout_ms: int | None = None,
    ) -> Session:
        """Begin to look after a member of a consumer group, or go on for another session timeout, or another time.

        Args:
            own_timeout_ms: the session timeout of the member, if it is not that of the group.
        """
        session = group.sessions.get(member_id)
        if session is None:
            session = group.sessions[member_id] = Session(member_id, 0)
        usual_ms = self.times_of(group.group_id).session_timeout_ms
        session.session_timeout_ms = usual_ms if own_timeout_ms is None else own_timeout_ms
        session.answer = None
        self.start_session(group, session, timeout_ms)
        return session

    def forget_session(self, group: ConsumerGroup, member_id: str) -> None:
        """Forget every deadline of a member of a consumer group."""
        group.sessions.pop(member_id, None)
        for timer in MEMBER_TIMERS:
            self.cancel_deadline(TimerKey(timer, group.group_id, member_id))

    # Issued ids

    def issue(self, group: ClassicGroup, member_id: str, timeout_ms: int) -> None:
        """Await somebody under an id for so long."""
        key = TimerKey(Timer.SESSION, group.group_id, member_id)
        group.issue(member_id)
        self.set_deadline(key, timeout_ms)
        self.issued[key] = None
        self.issued_bytes += ISSUED_BYTES + text_bytes(member_id)

    def came_back(self, key: TimerKey) -> None:
        """An id is not outstanding any more, if it was."""
        if key in self.issued:
            del self.issued[key]
            self.issued_bytes -= ISSUED_BYTES + text_bytes(key.member_id)

    def surplus(self, group: ClassicGroup) -> TimerKey | None:
        """The issued id to be given up after one of a group was issued; None if there is room for all.

        It is one of the same group, so that nobody's clients push out those of other groups, unless it has one only.
        """
        if len(group.pending_members) > self.config.group_max_issued_ids or (
            self.issued_bytes > self.config.groups_max_issued_bytes and len(group.pending_members) > 1
        ):
            return TimerKey(Timer.SESSION, group.group_id, next(iter(group.pending_members)))
        return next(iter(self.issued)) if self.issued_bytes > self.config.groups_max_issued_bytes else None

    def arm(self, timer: Timer, group: Group, after_ms: int) -> int:
        """Set a deadline of a group; returns when it is, unless the group is held."""
        after_ms = max(after_ms, 0)
        self.set_deadline(TimerKey(timer, group.group_id), after_ms)
        return self.now_ms + after_ms

    def disarm(self, timer: Timer, group: Group) -> None:
        """Forget a deadline of a group."""
        self.cancel_deadline(TimerKey(timer, group.group_id))

    def timers_of(self, group: Group) -> list[TimerKey]:
        """The keys of all times that a group may wait for: its own, and those of members and issued ids."""
        group_id = group.group_id
        own = [TimerKey(timer, group_id) for timer in (Timer.INITIAL_DELAY, Timer.JOIN, Timer.SYNC)]
        if isinstance(group, ClassicGroup):
            ids = (*group.members, *group.pending_members)
            return own + [TimerKey(Timer.SESSION, group_id, member_id) for member_id in ids]
        if isinstance(group, ConsumerGroup):
            return [TimerKey(timer, group_id, member_id) for member_id in group.sessions for timer in MEMBER_TIMERS]
        return own

    # Deadlines of groups: while a group is held, the purgatory has none of them

    def set_deadline(self, key: TimerKey, after_ms: int) -> None:
        """Set a deadline of a group, or another time for it."""
        if self.holds and (hold := self.holds.get(str(key.subject))) is not None:
            hold.left_ms[key] = after_ms
        else:
            self.deadlines.set(key, self.now_ms + after_ms)

    def left_ms(self, key: TimerKey) -> int | None:
        """The time that is left until a deadline of a group; None if there is no such deadline."""
        if self.holds and (hold := self.holds.get(str(key.subject))) is not None:
            return hold.left_ms.get(key)
        at_ms = self.deadlines.get(key)
        return None if at_ms is None else at_ms - self.now_ms

    def cancel_deadline(self, key: TimerKey) -> None:
        """Forget a deadline of a group."""
        if self.holds and (hold := self.holds.get(str(key.subject))) is not None:
            hold.left_ms.pop(key, None)
        else:
            self.deadlines.cancel(key)

    # Consumer groups

    def times_of(self, group_id: str) -> ConsumerTimes:
        """What a consumer group goes by."""
        return self._times.get(group_id, self._usual_times)

    def configure(self, config: GroupConfig, overrides: Mapping[str, Mapping[str, str]]) -> None:
        """Take settings over that were changed; members of consumer groups notice with their next heartbeat.

        Args:
            overrides: what is set for groups, by their ids.
        """
        if self.observed and (config != self.config or overrides != self._overrides):
            number = self.begin(self.now_ms)
            settings, groups = asdict(config), {name: dict(of_group) for name, of_group in overrides.items()}
            self.emit(SettingsChanged(group_id="", cause=0, number=number, settings=settings, groups=groups))
        self.config = config
        self._overrides = {group_id: dict(of_group) for group_id, of_group in overrides.items()}
        self._usual_times = config.times_of({})
        self._times = {group_id: config.times_of(of_group) for group_id, of_group in overrides.items()}
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                for session in group.sessions.values():
                    session.answer = None

    # Groups

    def move(self, group: ClassicGroup, state: GroupState) -> None:
        """Bring a group into another state."""
        before = group.state
        group.move(state, self.wall_ms)
        self.note_move(group, before)

    def note_move(self, group: ClassicGroup, before: GroupState) -> None:
        """Tell observers of a transition."""
        self.emit(StateChanged(group_id=group.group_id, before=before, after=group.state, generation=group.generation))

    def note_leader(self, group: ClassicGroup, before: str | None, reason: str) -> None:
        """Tell observers if the leader changed."""
        if group.leader_id != before:
            self.emit(
                LeaderChanged(group_id=group.group_id, leader_id=group.leader_id, old_leader_id=before, reason=reason)
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

    def remove_member(self, group: ClassicGroup, member_id: str, reason: str) -> None:
        """Remove a member or issued id with its deadline; parked requests were answered by the caller."""
        leader_id = group.leader_id
        group.remove(member_id)
        self.weigh(group)
        self.cancel_session(group, member_id)
        self.note_leader(group, leader_id, reason)

    def add_group(self, group: Group) -> None:
        """Make a group known."""
        self.groups[group.group_id] = group
        self.shards[group.shard.partition].groups[group.group_id] = group
        self.weigh(group)

    def replace_group(self, before: Group, after: Group) -> None:
        """Put a group in the place of one of another kind: the offsets stay, deadlines and issued ids do not."""
        self.drop_weight(before)
        self.cancel_timers(before)
        if isinstance(before, ClassicGroup):
            before.pending_members = {}
        elif isinstance(before, ConsumerGroup):
            before.sessions.clear()
        self.add_group(after)

    def new_simple_group(self, shard: GroupShard, group_id: str) -> Group:
        """A group that comes to be because somebody stores offsets."""
        group = ClassicGroup(group_id, shard, CommittedOffsets(), self.wall_ms)
        self.add_group(group)
        self.emit(GroupCreated(group_id=group_id, simple=True))
        return group

    def drop_if_vacant(self, group: Group) -> None:
        """Take back a group that only came to be by a commit that failed."""
        if (
            isinstance(group, ClassicGroup)
            and group.is_simple
            and group.recorded is Recorded.NOTHING
            and not group.offsets
            and not group.group_writes
            and self.groups.get(group.group_id) is group
        ):
            self.forget_group(group, "its first commit could not be written")

    def forget_group(self, group: Group, reason: str) -> None:
        """Make a group unknown and cancel its deadlines."""
        del self.groups[group.group_id]
        del self.shards[group.shard.partition].groups[group.group_id]
        self.drop_weight(group)
        self.cancel_timers(group)
        self.emit(GroupRemoved(group_id=group.group_id, generation=group.generation, reason=reason))

    def cancel_timers(self, group: Group) -> None:
        """Cancel every deadline of a group, its members and issued ids."""
        for key in self.timers_of(group):
            self.cancel_deadline(key)
            self.came_back(key)
        if isinstance(group, ConsumerGroup):
            self.deadlines.cancel(TimerKey(Timer.REGEX, group.group_id))


class HeldAnswer(Waiter[Machine]):
    """An answer that is held until some writes are over; the error of one that fails takes its place."""

    __slots__ = ("ctx", "group_id", "response", "waiting")

    def __init__(self, ctx: Asker, group_id: str, response: Any, waiting: int) -> None:
        self.ctx = ctx
        self.group_id = group_id
        self.response = response
        self.waiting = waiting

    def done(self, m: Machine, error: ErrorCode) -> None:
        if error:
            self.response = type(self.response)(error_code=append_error(error))
        self.waiting -= 1
        if not self.waiting:
            m.reply(self.ctx, self.response, self.group_id, "")


def held_until(writes: Sequence[Write[Machine]], ctx: Asker, group_id: str, response: R) -> R | None:
    """Hold a response until writes are over; it is returned if there are none."""
    waiter = HeldAnswer(ctx, group_id, response, len(writes))
    for write in writes:
        write.waiters.append(waiter)
    return None if writes else response
