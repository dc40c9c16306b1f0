"""Groups whose deadlines are held: time passes for everybody else.

What was left of a deadline when the group was held is left of it when the group is let go of. A deadline that is set
meanwhile counts from there, too. The purgatory has none of them, so none can surface.
"""

from __future__ import annotations

from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.events import DeadlinesHeld, DeadlinesMoved
from ottla.broker.core.groups import notes
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.broker.core.groups.machine import Hold, Machine


def hold(m: Machine, group_id: str, now_ms: int, wall_ms: int) -> None:
    """Hold a group, or count that it is held once more."""
    if (held := m.holds.get(group_id)) is not None:
        held.count += 1
        return
    m.begin(now_ms, wall_ms)
    notes.came(m, DeadlinesHeld, group_id)
    held = m.holds[group_id] = Hold(now_ms)
    group = m.groups.get(group_id)
    for key in [] if group is None else m.timers_of(group):
        if (at_ms := m.deadlines.get(key)) is not None:
            held.left_ms[key] = at_ms - now_ms
            m.deadlines.cancel(key)


def let_go(m: Machine, group_id: str, now_ms: int, wall_ms: int) -> None:
    """Let a group go once that was asked for as often as it was held. Raises KeyError if it is not held."""
    held = m.holds[group_id]
    held.count -= 1
    if held.count:
        return
    m.begin(now_ms, wall_ms)
    by_ms = now_ms - held.since_ms
    notes.came(m, DeadlinesMoved, group_id, by_ms=by_ms)
    del m.holds[group_id]
    for key, left_ms in held.left_ms.items():
        m.deadlines.set(key, now_ms + left_ms)
    # Whoever was heard of meanwhile has a whole session before it, and no more.
    group = m.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        for member in group.members.values():
            longest_ms = max(member.session_timeout_ms, NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else 0)
            member.session_deadline_ms = min(member.session_deadline_ms + by_ms, now_ms + longest_ms)
    elif isinstance(group, ConsumerGroup):
        for session in group.sessions.values():
            session.session_deadline_ms = min(session.session_deadline_ms + by_ms, now_ms + session.session_timeout_ms)
