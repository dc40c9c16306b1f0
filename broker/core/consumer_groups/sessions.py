"""How long members of consumer groups may take: to be heard of, to give partitions up, to join again, to sync."""

from __future__ import annotations

from ottla.broker.core.consumer_groups.group import ConsumerGroup, Session
from ottla.broker.core.consumer_groups.state import UNREVOKED, Member
from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.groups.machine import Machine, Timer

AGAIN_MS = 500
"""So long after the records that remove a member could not be written it is removed anew (R2.36)."""


def look_after(m: Machine, group: ConsumerGroup, again_ms: int | None = None) -> None:
    """Begin to look after members that nobody looks after: they came back from the log, or cannot be removed yet.

    After a load even a member of the classic protocol has the session timeout of the group, and a limit for what it is
    to give up; while it is served, that is left to the time in which it has to join again (R2.39).

    Args:
        again_ms: when that is looked at anew, in place of the usual times.
    """
    for member in group.state.members.values():
        session, timeout_ms = group.sessions.get(member.member_id), None
        if session is None:
            session, timeout_ms = m.new_session(group, member.member_id, again_ms), again_ms
        elif member.classic is not None:
            continue
        if member.state is UNREVOKED and m.left_ms(_key(Timer.REBALANCE, group, member.member_id)) is None:
            give_time(m, group, session, member, timeout_ms)


def give_time(
    m: Machine, group: ConsumerGroup, session: Session, member: Member, timeout_ms: int | None = None
) -> None:
    """Give a member its rebalance timeout, or another time, to give partitions up."""
    session.rebalance_epoch = member.epoch
    key = _key(Timer.REBALANCE, group, member.member_id)
    m.set_deadline(key, member.rebalance_timeout_ms if timeout_ms is None else timeout_ms)


def await_join(m: Machine, group: ConsumerGroup, member: Member) -> int | None:
    """Give a member of the classic protocol its rebalance timeout to join again; nothing if it has that already.

    Returns:
        When the time is up, if it begins now.
    """
    key = _key(Timer.JOIN, group, member.member_id)
    if m.left_ms(key) is not None:
        return None
    m.set_deadline(key, member.rebalance_timeout_ms)
    return m.now_ms + member.rebalance_timeout_ms


def await_sync(m: Machine, group: ConsumerGroup, member: Member) -> int:
    """Give a member of the classic protocol that has joined its rebalance timeout to sync; returns when it is up."""
    m.cancel_deadline(_key(Timer.JOIN, group, member.member_id))
    m.set_deadline(_key(Timer.SYNC, group, member.member_id), member.rebalance_timeout_ms)
    return m.now_ms + member.rebalance_timeout_ms


def has_synced(m: Machine, group: ConsumerGroup, member: Member) -> None:
    """A member of the classic protocol has its assignment."""
    m.cancel_deadline(_key(Timer.SYNC, group, member.member_id))


def _key(timer: Timer, group: ConsumerGroup, member_id: str) -> TimerKey:
    return TimerKey(timer, group.group_id, member_id)
