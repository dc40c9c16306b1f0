"""How members leave a consumer group, or are removed from it, and how static ones go away for a while (2.9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from ottla.broker.core.consumer_groups import downgrade, resolution
from ottla.broker.core.consumer_groups.changes import Change, Refused, answer
from ottla.broker.core.consumer_groups.facts import MemberCurrent, MemberGone, MemberTarget
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.sessions import AGAIN_MS
from ottla.broker.core.consumer_groups.state import IS_AWAY, Member
from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.effects import Asker
from ottla.broker.core.events import Event, MemberFenced, SessionExpired, StaticMemberAway
from ottla.broker.core.events.reasons import Began
from ottla.broker.core.groups.classic.membership import LEAVES_IN_BATCHES, leaving_entries
from ottla.broker.core.groups.machine import Machine, Timer
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse


def leave(
    m: Machine, request: ConsumerGroupHeartbeatRequest, ctx: Asker, announce: Callable[[], None]
) -> ConsumerGroupHeartbeatResponse | None:
    """Let a member leave for good, or a static one for a while, as its member epoch says; None if parked.

    Args:
        announce: as in `Change`.

    Raises:
        Refused: there is no such member.
    """
    group = m.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup) or group.is_gone:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"There is no consumer group {request.group_id}")
    member = _member(group, request.member_id, request.instance_id)
    if request.member_epoch == IS_AWAY:
        with Change(m, group, announce) as change:
            _go_away(change, member)
    else:
        fence(m, group, [member], "left", announce=announce)
    response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    return answer(group, ctx, response)


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    state = group.state
    if instance_id is None:
        member = state.members.get(member_id)
        if member is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not in group {group.group_id}")
        return member
    member = state.static_member(instance_id)
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance {instance_id} is not in group {group.group_id}")
    return own(member, member_id, instance_id)


def own(member: Member, member_id: str, instance_id: str) -> Member:
    """The member that an instance id stands for, if that is who asks."""
    if member.member_id != member_id:
        text = f"Instance {instance_id} is member {member.member_id} now, and not {member_id} any more"
        raise Refused(ErrorCode.FENCED_INSTANCE_ID, text)
    return member


def _go_away(change: Change, member: Member) -> None:
    """A static member goes and means to come back: nobody gets what it has, until its session ends (R2.31)."""
    since = {topic_id: dict.fromkeys(partitions, 0) for topic_id, partitions in member.assigned.items()}
    away = replace(member, epoch=IS_AWAY, assigned=since, pending={})
    change.add(MemberCurrent.of(away))
    change.events.append(
        StaticMemberAway(
            group_id=change.group.group_id,
            member_id=member.member_id,
            group_instance_id=member.instance_id or "",
            partitions=change.m.topics.told(since),
        )
    )


def fence(
    m: Machine,
    group: ConsumerGroup,
    members: Sequence[Member],
    reason: str,
    *,
    announce: Callable[[], None] | None = None,
    told: Sequence[Event] = (),
) -> None:
    """Remove members. What they had is free; who gets it is decided when somebody sends a heartbeat (R2.33, R2.34).

    If only members of the classic protocol stay, their group may become a classic one.

    Args:
        announce: as in `Change`.
        told: events that come first.

    Raises:
        Refused: it cannot be written; nothing is changed.
    """
    if not members:
        return
    with Change(m, group, announce) as change:
        becomes_classic = downgrade.applies(change, members)
        change.events.extend(told)
        for member in members:
            change.removed.append(member.member_id)
            change.events.append(MemberFenced(group_id=group.group_id, member_id=member.member_id, reason=reason))
        if becomes_classic:
            downgrade.convert(change, members)
        else:
            _remove(change, members, reason)
    if change.successor is not None:
        downgrade.begin(m, change.successor, Began.DOWNGRADED)


def _remove(change: Change, members: Sequence[Member], reason: str) -> None:
    for member in members:
        change.add(MemberCurrent.gone(member.member_id))
        change.add(MemberTarget(member.member_id, None))
        change.add(MemberGone(member.member_id))
    resolution.forget_unused(change, [member.regex for member in members])
    change.bump(change.m.topics.hash_of(change.state.subscriptions.topics()), [reason])


# Time


def session_over(m: Machine, group: ConsumerGroup, member_id: str) -> None:
    """Nothing was heard of a member for its session timeout."""
    session, member = group.sessions[member_id], group.state.members.get(member_id)
    if member is None:
        m.forget_session(group, member_id)  # it is gone, or another one took its place
        return
    del group.sessions[member_id]
    expired = SessionExpired(
        group_id=group.group_id,
        member_id=member_id,
        last_heard_ms=m.last_heard_ms(session),
        session_timeout_ms=session.session_timeout_ms,
        is_new=False,
    )
    _fence_late(m, group, member, "session expired", [expired])


LATE = {
    Timer.REBALANCE: "revocation timed out",
    Timer.JOIN: "did not join again in time",
    Timer.SYNC: "did not sync in time",
}
"""Why a member is removed that did not do something within its rebalance timeout, by the deadline that passed."""


def step_overdue(m: Machine, group: ConsumerGroup, key: TimerKey) -> None:
    """A member was to give partitions up, to join again or to sync, and did not within its rebalance timeout.

    For the last two it is removed even if it is of the consumer protocol by now (R2.41).
    """
    session, member = group.sessions.get(key.member_id), group.state.members.get(key.member_id)
    if session is None or member is None:
        return
    if key.timer is not Timer.REBALANCE or member.epoch == session.rebalance_epoch:
        _fence_late(m, group, member, LATE[Timer(key.timer)])


def _fence_late(m: Machine, group: ConsumerGroup, member: Member, reason: str, told: Sequence[Event] = ()) -> None:
    try:
        fence(m, group, [member], reason, told=told)
    except Refused:
        m.new_session(group, member.member_id, AGAIN_MS)


# LeaveGroup


def remove(m: Machine, group: ConsumerGroup, request: LeaveGroupRequest, ctx: Asker) -> LeaveGroupResponse | None:
    """LeaveGroup: remove members of either protocol, all in one change (7.6); None if parked."""
    entries = leaving_entries(request, ctx)
    found: dict[str, Member] = {}
    response = LeaveGroupResponse()
    for entry in entries:
        error = ErrorCode.NONE
        try:
            member = _leaving(group, entry)
            found[member.member_id] = member
        except Refused as refused:
            error = refused.error_code
        response.members.append(
            MemberResponse(member_id=entry.member_id, group_instance_id=entry.group_instance_id, error_code=error)
        )
    if ctx.api_version < LEAVES_IN_BATCHES:
        response.error_code = response.members[0].error_code
    try:
        fence(m, group, list(found.values()), "removed by LeaveGroup")
    except Refused as refused:
        return LeaveGroupResponse(error_code=refused.error_code)
    return answer(group, ctx, response)


def _leaving(group: ConsumerGroup, entry: MemberIdentity) -> Member:
    instance_id = entry.group_instance_id
    if instance_id is not None and not entry.member_id:
        member = group.state.static_member(instance_id)
        if member is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return member
    return _member(group, entry.member_id, instance_id)
