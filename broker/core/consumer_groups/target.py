"""The target of a consumer group: when it is computed, of what, and what is written of it (2.7 step 5)."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ottla.broker.core.consumer_groups import facts
from ottla.broker.core.consumer_groups.assigning import MOST_TRIES, Assignment, NotYet, is_large
from ottla.broker.core.consumer_groups.assignors import ASSIGNORS
from ottla.broker.core.consumer_groups.assignors.preferred import preferred_assignor
from ottla.broker.core.consumer_groups.assignors.spec import GroupSpec, MemberSpec, Target, same_partitions
from ottla.broker.core.consumer_groups.changes import Change, Refused
from ottla.broker.core.consumer_groups.state import Member, State
from ottla.broker.core.events import MemberTarget, TargetComputed, TargetDelayed
from ottla.broker.core.groups.machine import Machine
from ottla.protocol.errors import ErrorCode
from ottla.protocol.steps import finished

NOTHING: Target = {}


def update(change: Change, before: Member, after: Member, *, may_wait: bool = False) -> Target:
    """Compute the target anew if the group's epoch has gone past it, unless the last one is too fresh (R2.22).

    Args:
        before, after: the member of the request, before it and now.
        may_wait: the request can wait for an assignment that takes long.

    Returns:
        The target of this member.

    Raises:
        NotYet: it has to.
    """
    m, group, state = change.m, change.group, change.state
    if state.epoch <= state.assignment_epoch:
        return last(change, after)
    until_ms = state.assignment_timestamp_ms + m.times_of(group.group_id).assignment_interval_ms
    if state.assignment_timestamp_ms and m.wall_ms < until_ms:
        change.events.append(TargetDelayed(group_id=group.group_id, epoch=state.epoch, until_ms=until_ms))
        return last(change, after)
    votes = votes_of(state)
    if after.server_assignor is not None:
        votes[after.server_assignor] -= 1
    if before.server_assignor is not None:
        votes[before.server_assignor] = votes.get(before.server_assignor, 0) + 1
    name = preferred_assignor(votes, before.server_assignor, after.server_assignor) or m.config.assignors[0]
    assignment = _assign(m, group.group_id, name, _spec_of(change), may_wait=may_wait)
    changed: list[MemberTarget] = []
    for member_id in state.members:
        new = assignment.targets.get(member_id, NOTHING)
        made = assignment.records.get(member_id)
        # That of a predecessor, which who asks may have by now, is written once more (R4.5).
        old = None if member_id == change.untargeted else state.targets.get(member_id)
        if made is not None or old is None or not same_partitions(old, new):
            change.add(facts.MemberTarget(member_id, new), made)
            changed.append(MemberTarget(member_id, m.topics.told(new)))
    change.add(facts.TargetEpoch(state.epoch, m.wall_ms))
    change.events.append(
        TargetComputed(
            group_id=group.group_id, epoch=state.epoch, assignor=name, members=len(state.members), changed=changed
        )
    )
    return change.state.targets[after.member_id]


def _assign(m: Machine, group_id: str, assignor: str, spec: GroupSpec, *, may_wait: bool) -> Assignment:
    """The targets of all members: computed now, or beside requests before."""
    assigning = m.assigning.get(group_id)
    if assigning is not None and assigning.is_over and assigning.assignor == assignor and assigning.spec == spec:
        if assigning.assignment is None:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)  # R4.7
        return assigning.assignment
    is_tried = assigning is not None and assigning.tries >= MOST_TRIES
    if may_wait and m.works_apart and not is_tried and is_large(spec):
        raise NotYet(assignor, spec)
    return Assignment(finished(ASSIGNORS[assignor](spec)), {})


def last(change: Change, member: Member) -> Target:
    """The target of the member of a request in what was computed last. Static members are looked up by their instance
    ids as they were before: who comes with a new one has nothing in there (R2.18).
    """
    return NOTHING if change.has_new_instance else change.state.targets.get(member.member_id, NOTHING)


def votes_of(state: State) -> dict[str, int]:
    """How many members ask for each assignor."""
    votes: dict[str, int] = {}
    for member in state.members.values():
        if member.server_assignor is not None:
            votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
    return votes


def _spec_of(change: Change) -> GroupSpec:
    """A group as its assignor sees it."""
    state, topics = change.state, change.m.topics
    topic_ids: dict[tuple[tuple[str, ...], str], Sequence[UUID]] = {}
    partition_counts: dict[UUID, int] = {}
    members = []
    for member in state.members.values():
        subscription = member.names, member.regex
        ids = topic_ids.get(subscription)
        if ids is None:
            existing = topics.existing(state.topics_of(member))
            partition_counts.update((topic.topic_id, topic.partition_count) for topic in existing)
            ids = topic_ids[subscription] = [topic.topic_id for topic in existing]
        target = state.targets.get(member.member_id, NOTHING)
        members.append(MemberSpec(member.member_id, member.instance_id, ids, target))
    return GroupSpec(members, partition_counts, change.is_homogeneous, change.newcomer, change.most_members)
