"""Taking over and giving up a partition of ``__consumer_offsets``."""

from __future__ import annotations

from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.events.reasons import Began, Reason
from ottla.broker.core.groups import notes
from ottla.broker.core.groups.classic.group import Group
from ottla.broker.core.groups.classic.rebalance import prepare
from ottla.broker.core.groups.classic.replies import join_error, sync_error
from ottla.broker.core.groups.classic.state import DEAD
from ottla.broker.core.groups.machine import Machine, Timer
from ottla.broker.core.groups.shard import GroupShard
from ottla.protocol.errors import ErrorCode


def activate(m: Machine, shard: GroupShard) -> None:
    """Serve the groups that were replayed.

    Every member gets a fresh session, so that a fail-over by itself evicts nobody.
    """
    m.groups.update(shard.groups)
    for group in list(shard.groups.values()):
        notes.group_loaded(m, group)
        m.weigh(group)
        for member in group.members.values():
            m.start_session(group, member)
        if len(group.members) > m.config.group_max_size:
            members, most = len(group.members), m.config.group_max_size
            prepare(m, group, Reason(Began.OVER_CAPACITY, group=group.group_id, members=members, most=most))
        elif m.config.group_generation_persist == "join" and _is_unassigned(group):
            prepare(m, group, Reason(Began.UNASSIGNED, generation=group.generation))
    schedule_retention(m, shard)


def _is_unassigned(group: Group) -> bool:
    """Whether the generation was logged when it was formed, and its assignments never were."""
    return bool(group.members) and not any(member.assignment for member in group.members.values())


def schedule_retention(m: Machine, shard: GroupShard) -> None:
    """Look for expired offsets one interval from now."""
    key = TimerKey(Timer.RETENTION, shard.partition)
    m.deadlines.set(key, m.now_ms + m.config.offsets_retention_check_interval_ms)


def give_up(m: Machine, shard: GroupShard) -> None:
    """Stop serving: every parked request hears NOT_COORDINATOR, and every timer is cancelled."""
    m.deadlines.cancel(TimerKey(Timer.RETENTION, shard.partition))
    for group in shard.groups.values():
        del m.groups[group.group_id]
        m.drop_weight(group)
        m.cancel_timers(group)
        _dismiss(m, group)


def _dismiss(m: Machine, group: Group) -> None:
    m.move(group, DEAD)
    for member in group.members.values():
        if (ctx := group.unpark_join(member)) is not None:
            response = join_error(ctx, ErrorCode.NOT_COORDINATOR, member.member_id)
            m.reply(ctx, response, group.group_id, member.member_id)
        if (ctx := member.parked_sync) is not None:
            member.parked_sync = None
            m.reply(ctx, sync_error(ErrorCode.NOT_COORDINATOR), group.group_id, member.member_id)
