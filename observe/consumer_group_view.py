"""Consumer groups as `ottla.observe.view` shows them (KIP-848): as they are, with what is on its way to the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.state import (
    NOBODY,
    STABLE,
    UNRELEASED,
    Member,
    Owned,
    State,
)
from ottla.broker.core.groups.machine import Machine
from ottla.observe.snapshot import GroupBrief, GroupState, MemberState

TARGET = "target"
"""What a consumer group waits at: its members have not all arrived at their targets."""


def consumer_brief(m: Machine, group: ConsumerGroup, lag: int | None) -> GroupBrief:
    """One line about a group, whose lag is given."""
    return GroupBrief(
        group_id=group.group_id,
        state=group.state.group_state.value,
        generation=group.generation,
        members=group.member_count,
        protocol_name=assignor_of(m, group),
        lag=lag,
        topics=sorted({*group.offsets.by_topic, *group.state.subscriptions.topics()}),
        state_since_ms=group.state_since_ms,
        protocol="consumer",
    )


def group_state(
    m: Machine, group: ConsumerGroup, software_of: Callable[[str, str], str], now_ms: int, wall_ms: int
) -> GroupState:
    """A group and its members."""
    members = [member_state(m, group, one, software_of, now_ms) for one in group.state.members.values()]
    return state_with(m, group, members, wall_ms)


def state_with(m: Machine, group: ConsumerGroup, members: list[MemberState], wall_ms: int) -> GroupState:
    """A group with its members, as they were described."""
    state = group.state
    is_restless = state.group_state.is_restless
    return GroupState(
        group_id=group.group_id,
        partition=group.shard.partition,
        state=state.group_state.value,
        generation=state.epoch,
        protocol_type=group.protocol_type,
        protocol_name=assignor_of(m, group),
        state_since_ms=group.state_since_ms,
        members=members,
        pending_members=[],
        barrier=TARGET if is_restless else "",
        barrier_age_ms=max(0, wall_ms - group.restless_since_ms) if is_restless else 0,
        awaited=_awaited(state) if is_restless else [],
        protocol="consumer",
        assignment_epoch=state.assignment_epoch,
    )


def _awaited(state: State) -> list[str]:
    """The members that must give up, or come for their targets; all if there is a target to be computed first."""
    found = [one.member_id for one in state.members.values() if _is_awaited(state, one)]
    return found or list(state.members)


def _is_awaited(state: State, member: Member) -> bool:
    """False for who has its target, and for who waits for partitions that others have."""
    if member.epoch != state.assignment_epoch or member.state is not UNRELEASED:
        return member.epoch != state.assignment_epoch or member.state is not STABLE
    return not any(
        state.owner_epoch(topic_id, partition) != NOBODY and partition not in member.assigned.get(topic_id, {})
        for topic_id, partitions in state.targets.get(member.member_id, {}).items()
        for partition in partitions
    )


def assignor_of(m: Machine, group: ConsumerGroup) -> str:
    """The assignor that most members ask for, or the first of the broker's."""
    votes: dict[str, int] = {}
    for member in group.state.members.values():
        if member.server_assignor is not None:
            votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
    return max(votes, key=lambda name: votes[name], default=m.config.assignors[0])


def named(m: Machine, owned: Owned) -> dict[str, list[int]]:
    """Partitions by the names of topics; those of topics that are gone are left out."""
    by_id = m.topics.by_id
    return {by_id[topic_id].name: sorted(numbers) for topic_id, numbers in owned.items() if topic_id in by_id}


def held(m: Machine, group: ConsumerGroup, member_id: str) -> Mapping[str, list[int]]:
    """The partitions that a member has, those included that it has to give up."""
    member = group.state.members.get(member_id)
    if member is None:
        return {}
    found = named(m, member.assigned)
    for topic, numbers in named(m, member.pending).items():
        found[topic] = sorted([*found.get(topic, ()), *numbers])
    return found


def member_state(
    m: Machine, group: ConsumerGroup, member: Member, software_of: Callable[[str, str], str], now_ms: int
) -> MemberState:
    """A member."""
    session = group.sessions.get(member.member_id)
    return MemberState(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        is_leader=False,
        session_timeout_ms=0 if session is None else session.session_timeout_ms,
        rebalance_timeout_ms=max(member.rebalance_timeout_ms, 0),
        heard_ms=0 if session is None else max(0, now_ms - m.last_heard_ms(session)),
        slack_ms=0 if session is None else max(0, session.session_deadline_ms - now_ms),
        waits_for="",
        is_gone=False,
        protocols=[] if member.server_assignor is None else [member.server_assignor],
        topics=sorted(group.state.topics_of(member)),
        assignment=named(m, member.assigned),
        client_software=software_of(group.group_id, member.member_id),
        epoch=member.epoch,
        state=member.state.name,
        pending=named(m, member.pending),
        regex=member.regex,
    )
