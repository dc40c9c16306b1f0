"""The two barriers: how a rebalance begins, how the join phase ends, and how the sync phase runs out.

`state` has the theory. Everything that moves a group on comes through here.
"""

from __future__ import annotations

from ottla.broker.core.coordination.shard import append_error
from ottla.broker.core.events import BarrierClosed, BarrierOpened, GenerationStarted, RebalanceStarted
from ottla.broker.core.events.reasons import Began, Reason
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.member import Member
from ottla.broker.core.groups.classic.replies import join_error, join_success, sync_error, sync_success
from ottla.broker.core.groups.classic.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, can_rebalance
from ottla.broker.core.groups.machine import GroupWrite, Machine, Timer
from ottla.broker.core.groups.records import group_record
from ottla.protocol.errors import ErrorCode


class EmptyGroupWrite(GroupWrite):
    """The record of a generation without members. If it fails, that is only noted: nobody is there to be harmed."""

    __slots__ = ()
    what = "empty generation"


class GenerationWrite(GroupWrite):
    """The record of a generation that its members have not been told of (``group.generation.persist=join``)."""

    __slots__ = ()
    what = "new generation"

    def done(self, m: Machine, error: ErrorCode) -> None:
        group = self.group
        GroupWrite.done(self, m, error)
        if group.state is not COMPLETING_REBALANCE or group.generation != self.generation or not self.is_current(m):
            return
        group.unannounced = False
        if not error:
            announce(m, group)
            return
        for member in group.members.values():
            if (ctx := group.unpark_join(member)) is not None:
                response = join_error(ctx, append_error(error), member.member_id)
                m.reply(ctx, response, group.group_id, member.member_id)
                member.is_new = False
                m.start_session(group, member)
        reason = Reason(Began.GENERATION_FAILED, error=append_error(error).name, generation=group.generation)
        prepare(m, group, reason)


def rebalance_or_finish(m: Machine, group: ClassicGroup, reason: Reason) -> GroupWrite | None:
    """Start a rebalance, or, if one runs, see whether it can end.

    Returns:
        The write of an empty generation, if the group became Empty on the way.
    """
    if can_rebalance(group.state):
        return prepare(m, group, reason)
    return try_finish(m, group)


def prepare(m: Machine, group: ClassicGroup, reason: Reason) -> GroupWrite | None:
    """Begin the join phase. The deadline is fixed here: who joins later cannot extend it.

    Returns:
        The write of an empty generation, if nobody is left and the group became Empty at once.
    """
    if group.state is COMPLETING_REBALANCE:
        group.assign({})
        m.weigh(group)
        answer_syncs(m, group, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    m.disarm(Timer.SYNC, group)
    group.unannounced = False
    group.assigning = False
    group.rebalance_cause = m.cause
    from_empty = group.state is EMPTY
    m.move(group, PREPARING_REBALANCE)
    m.emit(
        RebalanceStarted(
            group_id=group.group_id,
            generation=group.generation,
            partition=group.shard.partition,
            members=len(group.members),
            reason=str(reason),
        )
    )
    if from_empty:
        delay = m.config.group_initial_rebalance_delay_ms
        _wait_initially(m, group, delay, max(group.rebalance_timeout_ms - delay, 0))
        return None
    if group.all_joined:
        return finish(m, group)
    wait_for_joins(m, group)
    return None


def try_finish(m: Machine, group: ClassicGroup) -> GroupWrite | None:
    """End the join phase if everybody is here; the initial delay always runs to its end."""
    if group.state is PREPARING_REBALANCE and group.previous_state is not EMPTY and group.all_joined:
        return finish(m, group)
    return None


def finish_if_all_joined(m: Machine, group: ClassicGroup) -> GroupWrite | None:
    """End the join phase if everybody is here, even the initial delay.

    Only an expiry does this: of a session or of an issued id.
    """
    if group.state is PREPARING_REBALANCE and group.all_joined:
        return finish(m, group)
    return None


def _wait_initially(m: Machine, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
    group.initial_delay = (delay_ms, remaining_ms)
    at_ms = m.arm(Timer.INITIAL_DELAY, group, delay_ms)
    _note_open(m, group, Timer.INITIAL_DELAY, at_ms, _absent(group))


def wait_for_joins(m: Machine, group: ClassicGroup) -> None:
    """Give the members that are not here the largest rebalance timeout to come."""
    at_ms = m.arm(Timer.JOIN, group, group.rebalance_timeout_ms)
    _note_open(m, group, Timer.JOIN, at_ms, _absent(group))


def _absent(group: ClassicGroup) -> list[str]:
    late = [member.member_id for member in group.members.values() if member.parked_join is None]
    return late + list(group.pending_members)


def _note_open(m: Machine, group: ClassicGroup, timer: Timer, at_ms: int, awaited: list[str]) -> None:
    m.emit(BarrierOpened(group_id=group.group_id, barrier=timer, deadline_ms=at_ms, awaited=awaited))


def _note_close(m: Machine, group: ClassicGroup, barrier: str, absent: list[str]) -> None:
    """Must be called before the absent are removed: observers are told when each was last heard of."""
    members = (group.members.get(member_id) for member_id in absent)
    heard = [-1 if member is None else m.last_heard_ms(member) for member in members]
    m.emit(BarrierClosed(group_id=group.group_id, barrier=barrier, absent=absent, absent_heard_ms=heard))


def barrier_over(m: Machine, group: ClassicGroup, timer: Timer) -> None:
    """The deadline of a barrier passed, or that of the initial delay."""
    if timer is Timer.SYNC:
        sync_overdue(m, group)
    elif timer is Timer.INITIAL_DELAY:
        initial_delay_over(m, group)
    else:
        finish(m, group)


def initial_delay_over(m: Machine, group: ClassicGroup) -> None:
    """Extend the initial delay if somebody new came while it ran and time is left; else end the phase.

    What is subtracted is the delay that just elapsed, and the flag is cleared only by an extension: both as Kafka.
    """
    delay_ms, remaining_ms = group.initial_delay
    if group.new_member_added and remaining_ms:
        group.new_member_added = False
        next_delay = min(m.config.group_initial_rebalance_delay_ms, remaining_ms)
        _wait_initially(m, group, next_delay, max(remaining_ms - delay_ms, 0))
    else:
        finish(m, group)


def finish(m: Machine, group: ClassicGroup) -> GroupWrite | None:
    """End the join phase: drop late dynamic members, settle the leader, begin the next generation.

    If only static members that did not rejoin are left, nobody can lead. The phase then runs for another rebalance
    timeout, until one rejoins or their sessions end.

    Returns:
        The write of an empty generation, if nobody was left.
    """
    m.disarm(Timer.INITIAL_DELAY, group)
    m.disarm(Timer.JOIN, group)
    late = [member for member in group.members.values() if member.parked_join is None and not member.is_static]
    _note_close(m, group, "join", [member.member_id for member in late])
    for member in late:
        m.remove_member(group, member.member_id, "the leader did not rejoin")
    leader_id = group.leader_id
    if not group.elect_joined_leader() and group.members:
        _note_close(m, group, "no member rejoined", list(group.members))
        # At least a millisecond: a rebalance timeout of 0 would have the timer fire without end.
        at_ms = m.arm(Timer.JOIN, group, max(group.rebalance_timeout_ms, 1))
        _note_open(m, group, Timer.JOIN, at_ms, _absent(group))
        return None
    m.note_leader(group, leader_id, "the leader did not rejoin")
    before = group.state
    group.next_generation(m.wall_ms)
    m.note_move(group, before)
    m.emit(
        GenerationStarted(
            group_id=group.group_id,
            generation=group.generation,
            partition=group.shard.partition,
            members=len(group.members),
            leader_id=group.leader_id,
            protocol_name=group.protocol_name,
        )
    )
    if not group.members:
        write = EmptyGroupWrite(group)
        m.append(write, [group_record(group)])
        return write
    if m.config.group_generation_persist == "join":
        group.unannounced = True
        m.append(GenerationWrite(group), [group_record(group, assignments={})])
    else:
        announce(m, group)
    return None


def announce(m: Machine, group: ClassicGroup) -> None:
    """Answer every JoinGroup with the generation that was formed, and await their SyncGroups.

    Static members that did not rejoin are awaited too, and dropped if they do not sync.
    """
    for member in group.members.values():
        if (ctx := group.unpark_join(member)) is not None:
            m.grant(ctx, join_success(ctx, group, member), group.group_id, member.member_id)
        m.start_session(group, member)
        member.is_new = False
    group.await_sync()
    at_ms = m.arm(Timer.SYNC, group, group.rebalance_timeout_ms)
    _note_open(m, group, Timer.SYNC, at_ms, list(group.pending_sync))


def has_synced(m: Machine, group: ClassicGroup, member_id: str) -> None:
    """A member no longer owes its SyncGroup."""
    group.pending_sync.pop(member_id, None)
    if not group.pending_sync:
        m.disarm(Timer.SYNC, group)


def sync_overdue(m: Machine, group: ClassicGroup) -> None:
    """Drop every member that owes its SyncGroup, dynamic or static, however well it heartbeats."""
    absent = list(group.pending_sync)
    _note_close(m, group, Timer.SYNC, absent)
    for member_id in absent:
        m.remove_member(group, member_id, "the leader sent no SyncGroup")
    prepare(m, group, Reason(Began.UNSYNCED, ", ".join(absent)))


def answer_syncs(m: Machine, group: ClassicGroup, error: ErrorCode) -> None:
    """Answer every parked SyncGroup: with the member's assignment, or with an error.

    Sessions of those who are answered begin afresh: a deadline that passed while they waited was ignored.
    """
    for member in group.members.values():
        if (ctx := member.parked_sync) is not None:
            member.parked_sync = None
            if error:
                m.reply(ctx, sync_error(error), group.group_id, member.member_id)
            else:
                m.grant(ctx, sync_success(group, member), group.group_id, member.member_id)
            m.start_session(group, member)


def answer_parked(m: Machine, group: ClassicGroup, error: ErrorCode) -> list[str]:
    """Answer every parked JoinGroup and SyncGroup with an error; returns whose they were."""
    answered = []
    for member in group.members.values():
        if (ctx := group.unpark_join(member)) is not None:
            m.reply(ctx, join_error(ctx, error, member.member_id), group.group_id, member.member_id)
            answered.append(member.member_id)
        if (ctx := member.parked_sync) is not None:
            member.parked_sync = None
            m.reply(ctx, sync_error(error), group.group_id, member.member_id)
            answered.append(member.member_id)
    return answered


def drop_parked_join(m: Machine, group: ClassicGroup, member: Member) -> None:
    """Tell a member that is about to be removed to start over."""
    if (ctx := group.unpark_join(member)) is not None:
        response = join_error(ctx, ErrorCode.UNKNOWN_MEMBER_ID, "")
        m.reply(ctx, response, group.group_id, member.member_id)
