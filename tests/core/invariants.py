"""The invariants of a coordinator, checked after every step."""

from __future__ import annotations

from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.groups.group import group_bytes
from ottla.broker.core.groups.machine import Machine, Timer


def check(coordinator: GroupCoordinator, now_ms: int) -> None:
    """Fail if a group contradicts itself, or a member could stay for ever."""
    m = coordinator
    assert m.held_bytes == sum(group.held_bytes for group in m.groups.values())
    assert sum(len(group.pending_members) for group in m.groups.values()) == len(m.issued)
    assert (m.issued_bytes > 0) == bool(m.issued)
    for group in m.groups.values():
        assert group.held_bytes == group_bytes(group.group_id) + sum(m.held_bytes for m in group.members.values())
        assert group.shard.groups[group.group_id] is group
        check_members(group)
        check_state(m, group)
        check_timers(m, group, now_ms)


def check_members(group: ClassicGroup) -> None:
    members = group.members
    assert all(member.member_id == member_id for member_id, member in members.items())
    assert not set(members) & set(group.pending_members)
    assert group.parked_joins == sum(member.parked_join is not None for member in members.values())
    support: dict[str, int] = {}
    for member in members.values():
        for name in dict.fromkeys(name for name, _ in member.protocols):
            support[name] = support.get(name, 0) + 1
    assert group.protocol_support == support
    static = {m.group_instance_id: m.member_id for m in members.values() if m.group_instance_id is not None}
    assert group.static_members == static
    assert (group.leader_id is None) == (not members)
    assert group.leader_id is None or group.leader_id in members


def check_state(m: Machine, group: ClassicGroup) -> None:
    members = group.members.values()
    if group.state is EMPTY:
        assert not members
    if group.state in (COMPLETING_REBALANCE, STABLE):
        assert members
        assert group.protocol_name is not None
        assert group.protocol_support[group.protocol_name] == len(members) or group.state is STABLE
    if group.state is not COMPLETING_REBALANCE:
        assert not group.unannounced
        assert not any(member.parked_sync is not None for member in members)
    if group.state is not PREPARING_REBALANCE and not group.unannounced:
        # Only a replacement that is being logged has a parked JoinGroup here.
        assert group.parked_joins == 0 or (group.state is STABLE and group.group_writes)
    for member in members:
        assert member.parked_join is None or member.parked_sync is None
        assert not member.is_new or group.state is PREPARING_REBALANCE or group.unannounced
    owed = len(group.pending_sync)
    assert not owed or group.state in (COMPLETING_REBALANCE, STABLE)


def check_timers(m: Machine, group: ClassicGroup, now_ms: int) -> None:
    hold = m.holds.get(group.group_id)
    armed_ms = {key: at_ms for key in m.timers_of(group) if (at_ms := m.deadlines.get(key)) is not None}
    if hold is not None:
        assert not armed_ms
        assert hold.left_ms.keys() <= set(m.timers_of(group))
        armed_ms = {key: now_ms + left_ms for key, left_ms in hold.left_ms.items()}
    for member_id in group.pending_members:
        assert TimerKey(Timer.SESSION, group.group_id, member_id) in armed_ms
    for member in group.members.values():
        armed = armed_ms.get(TimerKey(Timer.SESSION, group.group_id, member.member_id))
        if (member.parked_join is None and member.parked_sync is None) or member.is_new:
            assert armed is not None
            # A session that is held moves on only when it is let go of.
            assert armed <= member.session_deadline_ms or hold is not None
        # A heartbeat of right now must not be due before the purgatory looks.
        assert armed is None or armed <= now_ms + member.session_timeout_ms
    waits = [TimerKey(timer, group.group_id) in armed_ms for timer in (Timer.INITIAL_DELAY, Timer.JOIN)]
    assert sum(waits) == (1 if group.state is PREPARING_REBALANCE else 0)
    syncing = TimerKey(Timer.SYNC, group.group_id) in armed_ms
    assert syncing == bool(group.pending_sync)
