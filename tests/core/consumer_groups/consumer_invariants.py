"""The invariants of consumer groups, checked after every step."""

from __future__ import annotations

from uuid import UUID

from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.state import IS_AWAY, PARTITION_BYTES, STABLE, UNREVOKED, State
from ottla.broker.core.consumer_groups.subscriptions import Subscriptions
from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.groups.group import group_bytes
from ottla.broker.core.groups.machine import Timer
from tests.core import invariants

UNTRACKED = (0, -1, -2)
"""Member epochs that may follow any other."""


def check(coordinator: GroupCoordinator, now_ms: int) -> None:
    """Fail if a group contradicts itself, or a member could stay for ever."""
    assert coordinator.held_bytes == sum(group.held_bytes for group in coordinator.groups.values())
    for group in coordinator.groups.values():
        assert group.shard.groups[group.group_id] is group
        if isinstance(group, ConsumerGroup):
            assert group.held_bytes == group_bytes(group.group_id) + group.state.held_bytes
            assert (group.state is group.durable) == (not group.in_flight)
            assert group.durable.exists or group.in_flight
            for state in (group.durable, group.state):
                check_owners(state)
                check_counts(state)
            check_timers(coordinator, group, now_ms)
        elif isinstance(group, ClassicGroup):
            assert not group.is_gone
            invariants.check_members(group)
            invariants.check_state(coordinator, group)
            invariants.check_timers(coordinator, group, now_ms)
    for key in coordinator.deadlines._due:
        assert key.timer is Timer.RETENTION or str(key.subject) in coordinator.groups


def check_owners(state: State) -> None:
    """No partition has two owners, and the epoch of each is known."""
    owners: dict[tuple[UUID, int], str] = {}
    epochs: dict[UUID, dict[int, int]] = {}
    for member in state.members.values():
        for owned in (member.assigned, member.pending):
            for topic_id, partitions in owned.items():
                assert partitions, "a topic without partitions"
                for partition, since in partitions.items():
                    other = owners.setdefault((topic_id, partition), member.member_id)
                    assert other == member.member_id, f"{topic_id}-{partition}: {other} and {member.member_id}"
                    epochs.setdefault(topic_id, {})[partition] = member.epoch
                    assert since <= max(member.epoch, 0) or member.epoch == 0
        assert (member.state is UNREVOKED and member.epoch != IS_AWAY) or not member.pending
        assert member.epoch <= state.assignment_epoch
    assert state.owner_epochs == epochs
    targets: dict[tuple[UUID, int], str] = {}
    for member_id, target in state.targets.items():
        assert member_id in state.members
        for topic_id, numbers in target.items():
            for number in numbers:
                assert targets.setdefault((topic_id, number), member_id) == member_id


def check_counts(state: State) -> None:
    """What is counted is what there is."""
    counts = Subscriptions()
    at_epoch: dict[int, int] = {}
    for member in state.members.values():
        counts.add(member.names, member.regex)
        if member.state is STABLE:
            at_epoch[member.epoch] = at_epoch.get(member.epoch, 0) + 1
    for resolved in state.resolved.values():
        counts.add_resolved(resolved.topics)
    known = state.subscriptions
    assert (known.by_name, known.regexes, known.by_regex) == (counts.by_name, counts.regexes, counts.by_regex)
    assert set(state.resolved) <= set(counts.regexes)
    assert state._at_epoch == at_epoch
    targeted = sum(len(numbers) for target in state.targets.values() for numbers in target.values())
    of_members = sum(member.held_bytes for member in state.members.values())
    assert state.held_bytes == of_members + PARTITION_BYTES * targeted
    classics = [member.classic for member in state.members.values() if member.classic is not None]
    protocols: dict[str, int] = {}
    for classic in classics:
        for name in classic.names:
            protocols[name] = protocols.get(name, 0) + 1
    assert (state.classic_members, state.classic_protocols) == (len(classics), protocols)
    statics = {member.instance_id: member.member_id for member in state.members.values() if member.instance_id}
    assert statics.items() <= state.static_members.items()
    assert state.assignment_epoch <= state.epoch
    copied = state.copy()
    assert all(getattr(copied, name) == getattr(state, name) for name in State.__slots__)


def check_timers(coordinator: GroupCoordinator, group: ConsumerGroup, now_ms: int) -> None:
    """Each member is looked after, and one that has to give something up has a limit."""
    deadlines = coordinator.deadlines
    for member in group.state.members.values():
        session = group.sessions[member.member_id]
        armed = deadlines.get(TimerKey(Timer.SESSION, group.group_id, member.member_id))
        assert armed is not None and armed <= session.session_deadline_ms
        # A heartbeat of right now must not be due before the purgatory looks.
        assert armed <= now_ms + session.session_timeout_ms
        if member.state is UNREVOKED and member.epoch >= 0 and member.classic is None:
            assert TimerKey(Timer.REBALANCE, group.group_id, member.member_id) in deadlines


class Epochs:
    """Looks at member epochs as they become durable: they do not go back."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], int] = {}

    def check(self, coordinator: GroupCoordinator) -> None:
        now = {
            (group.group_id, member.member_id): member.epoch
            for group in coordinator.groups.values()
            if isinstance(group, ConsumerGroup)
            for member in group.durable.members.values()
        }
        for key, epoch in now.items():
            before = self.known.get(key, 0)
            assert epoch >= before or epoch in UNTRACKED, f"{key}: {before}, then {epoch}"
        self.known = now
