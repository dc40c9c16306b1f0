"""ConsumerGroupHeartbeat of somebody who joins or stays (2.5-2.8), once it is known that this broker coordinates the
group.

One request takes a member through all that there is: it says what it wants, the group takes note and may need another
target, which is computed, and the member comes a step closer to its own.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from msgspec.structs import replace

from ottla.broker.core.consumer_groups import target, upgrade
from ottla.broker.core.consumer_groups.changes import Change, Refused, answer
from ottla.broker.core.consumer_groups.facts import MemberCurrent
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.leaving import leave, own
from ottla.broker.core.consumer_groups.progress import (
    change_regex,
    check_size,
    known_instance,
    refresh,
    say,
    step,
    take_place,
)
from ottla.broker.core.consumer_groups.reconcile import Reported
from ottla.broker.core.consumer_groups.sessions import give_time
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
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.machine import Machine, Timer
from ottla.broker.core.groups.offsets.committed import CommittedOffsets
from ottla.broker.core.groups.shard import GroupShard
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
        announce: called before anything is told of what comes of it, and not at all if nothing does; maybe again.

    Raises:
        Refused: it is not granted.
        NotYet: it has to wait for an assignment, and nothing was done.
    """
    if request.member_epoch in (LEAVES, IS_AWAY):
        return leave(m, request, ctx, announce)
    group, replaced = _group(m, shard, request)
    reported = _reported(request)
    with Change(m, group, announce, replaced) as change:
        if replaced is not None:
            upgrade.convert(change, replaced)
        change.asked_by(request.member_id, request.instance_id)
        check_size(m, group, request.member_id, request.instance_id)
        before = _find(change, request, reported)
        said = _say(change, before, request, ctx)
        regex_changed, is_resolved = change_regex(change, before, said, ctx)
        names_changed = said.names != before.names
        refresh(change, names_changed=names_changed, regex_changed=is_resolved)
        goal = target.update(change, before, said, may_wait=replaced is None)
        after = step(change, said, goal, reported, subscription_changed=names_changed or regex_changed)
    if replaced is not None:
        upgrade.look_after(m, group)
    _look_after(m, group, said, after)
    if group.in_flight:
        announce()  # there will be an answer to tell of
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


def _group(
    m: Machine, shard: GroupShard, request: ConsumerGroupHeartbeatRequest
) -> tuple[ConsumerGroup, ClassicGroup | None]:
    """The group, and the classic group that it is to take the place of, if it is."""
    group = m.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup) and (request.member_epoch == 0 or not group.is_gone):
        return group, None
    if request.member_epoch:
        if isinstance(group, ClassicGroup):
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is a {group.kind} group")
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no consumer group {request.group_id}")
    if isinstance(group, ClassicGroup):
        return ConsumerGroup(request.group_id, shard, group.offsets), group
    return ConsumerGroup(request.group_id, shard, CommittedOffsets()), None


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
        member = known_instance(change, instance_id)
        if member is not None:
            return _come_back(change, request, instance_id, member)
        member = state.members.get(request.member_id)
    if member is None:
        return Member(request.member_id)
    if epoch:
        _check_epoch(member, epoch, reported)
    return member


def _come_back(change: Change, request: ConsumerGroupHeartbeatRequest, instance_id: str, old: Member) -> Member:
    """A static member joins whose instance id somebody has (2.6)."""
    if old.classic is None and old.epoch != IS_AWAY:
        text = f"Instance {instance_id} is member {old.member_id}, which has not left; {request.member_id} has to wait"
        raise Refused(ErrorCode.UNRELEASED_INSTANCE_ID, text)
    return take_place(change, old, request.member_id)


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
    return say(change, before, said)


def _look_after(m: Machine, group: ConsumerGroup, said: Member, after: Member) -> None:
    """Let the session begin anew, and see to it that what has to be given up is given up in time (2.10)."""
    session = m.new_session(group, after.member_id)
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
