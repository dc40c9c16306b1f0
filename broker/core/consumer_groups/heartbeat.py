"""ConsumerGroupHeartbeat of somebody who joins or stays (2.5-2.8), once it is known that this broker coordinates the
group.

One request takes a member through all that there is: it says what it wants, the group takes note and may need another
target, which is computed, and the member comes a step closer to its own.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from msgspec.structs import replace

from ottla.broker.core.consumer_groups import notes, resolution, target
from ottla.broker.core.consumer_groups.assignors.spec import Target
from ottla.broker.core.consumer_groups.changes import Change, Refused, answer, give_time
from ottla.broker.core.consumer_groups.facts import MemberCurrent, MemberGone, MemberSaid, MemberTarget, OldMetadata
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.leaving import leave, own
from ottla.broker.core.consumer_groups.reconcile import Reported, Unreconcilable, reconcile
from ottla.broker.core.consumer_groups.state import (
    IS_AWAY,
    LEAVES,
    STABLE,
    UNREVOKED,
    Member,
    Owned,
    names_of,
)
from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.effects import Asker
from ottla.broker.core.events import MemberReplaced
from ottla.broker.core.groups.group import group_bytes
from ottla.broker.core.groups.machine import Machine, Timer
from ottla.broker.core.groups.offsets.committed import CommittedOffsets
from ottla.broker.core.groups.shard import GroupShard
from ottla.broker.core.pattern import BadPattern, Pattern
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    HeartbeatTopicPartitions,
)


def heartbeat(
    m: Machine,
    shard: GroupShard,
    request: ConsumerGroupHeartbeatRequest,
    ctx: Asker,
    announce: Callable[[], None],
) -> ConsumerGroupHeartbeatResponse | None:
    """Serve a heartbeat; None if the answer waits for records.

    Args:
        announce: called before anything is told of what comes of it, and not at all if nothing does.

    Raises:
        Refused: it is not granted.
    """
    if request.member_epoch in (LEAVES, IS_AWAY):
        return leave(m, request, ctx, announce)
    group = _group(m, shard, request)
    _check_size(m, group, request)
    reported = _reported(request)
    with Change(m, group, announce) as change:
        change.asked_by(request.member_id, request.instance_id)
        before = _find(change, request, reported)
        said = _say(change, before, request, ctx)
        regex_changed, is_resolved = _change_regex(change, before, said)
        names_changed = said.names != before.names
        _refresh(change, names_changed=names_changed, regex_changed=is_resolved)
        goal = target.update(change, before, said)
        after = _reconcile(change, said, goal, reported, subscription_changed=names_changed or regex_changed)
    _look_after(m, group, before, said, after)
    response = ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=m.times_of(group.group_id).heartbeat_interval_ms,
    )
    if not request.member_epoch or _is_full(request) or _differs(before.assigned, after.assigned):
        response.assignment = _assignment(after.assigned)
    elif after.state is STABLE and not group.in_flight and not group.state.subscriptions.regexes:
        group.sessions[after.member_id].answer = response
    return answer(group, ctx, response)


# The group and the member


def _group(m: Machine, shard: GroupShard, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroup:
    group = m.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup) and (request.member_epoch == 0 or not group.is_gone):
        return group
    if group is not None and not isinstance(group, ConsumerGroup):
        # The place where a classic group is converted.
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is a {group.kind} group")
    if request.member_epoch:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no consumer group {request.group_id}")
    return ConsumerGroup(request.group_id, shard, CommittedOffsets())


def _check_size(m: Machine, group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> None:
    """R1.4. It comes before everything that is known of the member, whatever its epoch."""
    state, most = group.state, m.config.group_consumer_max_size
    if (
        len(state.members) >= most
        and request.member_id not in state.members
        and (request.instance_id or "") not in state.static_members
    ):
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"Group {group.group_id} has {most} members, the most it may")


def _find(change: Change, request: ConsumerGroupHeartbeatRequest, reported: Reported) -> Member:
    """The member as it was before the request: one that is known, one that takes another's place, or a new one."""
    state, epoch = change.state, request.member_epoch
    if (instance_id := request.instance_id) is None:
        member = state.members.get(request.member_id)
        if member is None and epoch:
            text = f"Member {request.member_id} is not in group {request.group_id}"
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, text)
    elif epoch:
        member = state.static_member(instance_id)
        if member is None:
            text = f"Instance {instance_id} is not in group {request.group_id}"
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, text)
        own(member, request.member_id, instance_id)
    else:
        return _find_static(change, request, instance_id)
    if member is None:
        return Member(request.member_id)
    if epoch:
        _check_epoch(member, epoch, reported)
    return member


def _find_static(change: Change, request: ConsumerGroupHeartbeatRequest, instance_id: str) -> Member:
    """A static member that joins (2.6)."""
    state = change.state
    if instance_id not in state.static_members:
        return state.members.get(request.member_id) or Member(request.member_id)
    old = state.static_member(instance_id)
    if old is None:
        # The instance id was given up for another one, and then its member went (R2.18).
        text = f"Instance {instance_id} is not in group {request.group_id}"
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, text)
    if old.classic is None and old.epoch != IS_AWAY:
        text = f"Instance {instance_id} is member {old.member_id}, which has not left; {request.member_id} has to wait"
        raise Refused(ErrorCode.UNRELEASED_INSTANCE_ID, text)
    return _replace(change, old, request.member_id)


def _replace(change: Change, old: Member, member_id: str) -> Member:
    """A static member is back, maybe under another id: it has what its predecessor had (R2.15)."""
    old_target = change.state.targets.get(old.member_id, {})
    change.add(MemberCurrent.gone(old.member_id))
    change.add(MemberTarget(old.member_id, None))
    change.add(MemberGone(old.member_id))
    new = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
    change.add(MemberSaid(new))
    change.add(MemberTarget(member_id, old_target))
    change.add(MemberCurrent.of(new))
    session = change.group.sessions.get(old.member_id)
    if session is not None:
        session.answer = None
    change.events.append(
        MemberReplaced(
            group_id=change.group.group_id,
            member_id=member_id,
            old_member_id=old.member_id,
            group_instance_id=old.instance_id or "",
            state=change.state.group_state,
        )
    )
    return new


def _check_epoch(member: Member, epoch: int, reported: Reported) -> None:
    """Refuse a member whose epoch is not the known one, unless it can only have missed its last answer (2.5)."""
    if epoch == member.epoch:
        return
    if epoch == member.previous_epoch and epoch < member.epoch and _has_no_more(reported, member.assigned):
        return
    which = "above" if epoch > member.epoch else "below"
    text = (
        f"Member {member.member_id} is at epoch {epoch}, which is {which} the known {member.epoch}: "
        "it has to give up its partitions and join again"
    )
    raise Refused(ErrorCode.FENCED_MEMBER_EPOCH, text)


def _has_no_more(reported: Reported, assigned: Owned) -> bool:
    """Whether a member says what it has, and that is no more than what it was given (R2.9)."""
    return reported is not None and all(
        partition in assigned.get(topic_id, ()) for topic_id, partitions in reported.items() for partition in partitions
    )


def _reported(request: ConsumerGroupHeartbeatRequest) -> Reported:
    if request.topic_partitions is None:
        return None
    found: dict[UUID, dict[int, None]] = {}
    for topic in request.topic_partitions:
        if topic.partitions:
            found.setdefault(topic.topic_id, {}).update(dict.fromkeys(topic.partitions))
    return found


# What the member says


def _say(change: Change, before: Member, request: ConsumerGroupHeartbeatRequest, ctx: Asker) -> Member:
    """Take over what a request says of its member; what it leaves out stays."""
    given = {
        name: value
        for name, value in (
            ("instance_id", request.instance_id),
            ("rack_id", request.rack_id),
            ("regex", request.subscribed_topic_regex),
            ("server_assignor", request.server_assignor),
        )
        if value is not None
    }
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    said = replace(
        before,
        **given,
        names=before.names if names is None else names_of(names),
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        client_id=ctx.client_id,
        client_host=ctx.client_host,
        classic=None,
    )
    if said == before:
        return before
    m, group = change.m, change.group
    is_new = before.member_id not in change.state.members
    more_bytes = said.held_bytes - (0 if is_new else before.held_bytes)
    known = m.groups.get(group.group_id)
    if not m.has_room(known, more_bytes if known is not None else more_bytes + group_bytes(group.group_id)):
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, f"Group {group.group_id} keeps as much as it may")
    change.add(MemberSaid(said))
    change.events.append(notes.subscribed(group, said, is_new=is_new))
    return said


def _change_regex(change: Change, before: Member, said: Member) -> tuple[bool, bool]:
    """Keep account of the regexes, and have them resolved if it is time (3.3).

    Returns:
        Whether the member's regex changed; and whether that is a change of the group's topics by itself.
    """
    state = change.state
    resolved = state.resolved
    changed, is_resolved, is_new = said.regex != before.regex, False, False
    if changed:
        users = state.subscriptions.regexes
        if said.regex and users[said.regex] == 1:
            is_new = True
            try:
                Pattern(said.regex)
            except BadPattern as error:
                text = f"{said.regex!r} is no regular expression: {error}"
                raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, text) from None
        else:
            is_resolved = not said.regex or said.regex in resolved
        resolved = dict(resolved)
        resolution.forget_unused(change, [before.regex])
    resolution.start_if_due(change, resolved, brings_new=is_new)
    return changed, is_resolved


def _refresh(change: Change, *, names_changed: bool, regex_changed: bool) -> None:
    """Hold the group against its topics, if it subscribes to others now or something happened to any (2.7 step 4)."""
    topics, group, state = change.m.topics, change.group, change.state
    reasons = ["subscription changed"] if names_changed else []
    if regex_changed:
        reasons.append("regex changed")
    if not reasons and group.checked_version == topics.version:
        return
    change.is_homogeneous = state.subscriptions.is_homogeneous(len(state.members))
    metadata_hash = topics.hash_of(state.subscriptions.topics())
    if metadata_hash != state.metadata_hash:
        reasons.append("topics changed")
    if reasons:
        change.bump(metadata_hash, reasons)
        if change.state.has_old_metadata:
            change.add(OldMetadata(False))
    change.checked_version = topics.version


# The step towards the target


def _reconcile(change: Change, said: Member, goal: Target, reported: Reported, *, subscription_changed: bool) -> Member:
    state = change.state
    member = state.members[said.member_id]
    if not subscription_changed and member.state is STABLE and member.epoch == state.assignment_epoch:
        return member
    names = list(state.topics_of(member))
    subscribed = {topic.topic_id: None for topic in change.m.topics.existing(names)} if names else None
    try:
        step = reconcile(state, member, goal, reported, subscribed, subscription_changed=subscription_changed)
    except Unreconcilable:
        text = f"The state of member {member.member_id} is not known: it has to give up its partitions and join again"
        raise Refused(ErrorCode.FENCED_MEMBER_EPOCH, text) from None
    if step.member != member:
        change.add(MemberCurrent.of(step.member))
        deadline_ms = change.m.now_ms + step.member.rebalance_timeout_ms if step.member.state is UNREVOKED else 0
        change.events.append(notes.reconciled(change.group, step.member, step.blocked, deadline_ms))
    return step.member


def _look_after(m: Machine, group: ConsumerGroup, before: Member, said: Member, after: Member) -> None:
    """Let the session begin anew, and see to it that what has to be given up is given up in time (2.10)."""
    session = m.new_session(group, after.member_id)
    session.answer = None  # until it is known that the next heartbeat finds nothing to do
    if MemberCurrent.of(after) != MemberCurrent.of(said):
        if after.state is UNREVOKED:
            give_time(m, group, session, after)
        else:
            m.cancel_deadline(TimerKey(Timer.REBALANCE, group.group_id, after.member_id))


# The answer


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether a request says everything, as after a lost connection: then it wants to hear everything, too."""
    return (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def _differs(before: Owned, after: Owned) -> bool:
    """Whether the partitions differ; since when they are the member's does not matter (R2.27)."""
    return before.keys() != after.keys() or any(
        before[topic_id].keys() != partitions.keys() for topic_id, partitions in after.items()
    )


def _assignment(owned: Owned) -> HeartbeatAssignment:
    return HeartbeatAssignment(
        topic_partitions=[
            HeartbeatTopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in owned.items()
        ]
    )
