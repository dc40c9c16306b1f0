"""Heartbeats that are not plainly good, leaving, and sessions that end."""

from __future__ import annotations

from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.effects import Asker
from ottla.broker.core.events import MemberLeft, PendingMemberExpired, SessionExpired
from ottla.broker.core.events.reasons import NOT_PROVIDED, Began, Reason
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.rebalance import drop_parked_join, finish_if_all_joined, rebalance_or_finish
from ottla.broker.core.groups.classic.state import COMPLETING_REBALANCE, DEAD, EMPTY, STABLE
from ottla.broker.core.groups.machine import GroupWrite, Machine, held_until
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse

LEAVES_IN_BATCHES = 3
"""From this version on LeaveGroup names several members, by instance id too (KIP-345)."""


def refuse_heartbeat(m: Machine, request: HeartbeatRequest) -> ErrorCode:
    """Why a heartbeat is not accepted, in the order in which Kafka looks."""
    group = m.groups.get(request.group_id)
    if not isinstance(group, ClassicGroup):
        return ErrorCode.UNKNOWN_MEMBER_ID  # a consumer group says so itself
    if group.state is DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error := group.fence(request.member_id, request.group_instance_id):
        return error
    return ErrorCode.ILLEGAL_GENERATION


def leaving_entries(request: LeaveGroupRequest, ctx: Asker) -> list[MemberIdentity]:
    """Whom a LeaveGroup is about, in the form that it has now."""
    if ctx.api_version < LEAVES_IN_BATCHES and not request.members:
        return [MemberIdentity(member_id=request.member_id)]
    return request.members


def leave(m: Machine, request: LeaveGroupRequest, ctx: Asker) -> LeaveGroupResponse | None:
    """Remove members and issued ids from a group; None if the answer waits for a record."""
    entries = leaving_entries(request, ctx)
    group = m.groups.get(request.group_id)
    assert group is None or isinstance(group, ClassicGroup), "consumer groups remove their members themselves"
    write: GroupWrite | None = None
    if group is not None and group.state is DEAD:
        return LeaveGroupResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if group is None:
        errors = [ErrorCode.UNKNOWN_MEMBER_ID for _ in entries]
    else:
        removed: list[str] = []
        errors = [_leave_one(m, group, entry, removed) for entry in entries]
        if removed and group.state is not EMPTY:
            write = rebalance_or_finish(m, group, Reason(Began.LEFT, ", ".join(removed)))
    response = LeaveGroupResponse(
        members=[
            MemberResponse(member_id=entry.member_id, group_instance_id=entry.group_instance_id, error_code=error)
            for entry, error in zip(entries, errors, strict=True)
        ]
    )
    if ctx.api_version < LEAVES_IN_BATCHES:
        response.error_code = errors[0] if errors else ErrorCode.NONE
    if write is None:
        return response
    return held_until([write], ctx, request.group_id, response)


def _leave_one(m: Machine, group: ClassicGroup, entry: MemberIdentity, removed: list[str]) -> ErrorCode:
    """Remove one entry; its id is added to ``removed`` if there was somebody to remove."""
    member_id = entry.member_id
    if not member_id:
        owner = group.static_members.get(entry.group_instance_id) if entry.group_instance_id is not None else None
        if owner is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = owner
    elif member_id not in group.pending_members and (error := group.fence(member_id, entry.group_instance_id)):
        return error
    member = group.members.get(member_id)
    m.emit(
        MemberLeft(
            group_id=group.group_id,
            member_id=member_id,
            group_instance_id=member.group_instance_id if member is not None else None,
            was_pending=member is None,
            reason=entry.reason or NOT_PROVIDED,
        )
    )
    if member is not None:
        drop_parked_join(m, group, member)
    m.remove_member(group, member_id, "the leader left")
    removed.append(member_id)
    return ErrorCode.NONE


def void(m: Machine, key: TimerKey) -> None:
    """An issued id did not come back in time, or there are too many of them: whoever has it must begin anew."""
    group, member_id = m.groups[str(key.subject)], key.member_id
    assert isinstance(group, ClassicGroup), "only classic groups issue ids"
    m.emit(PendingMemberExpired(group_id=group.group_id, member_id=member_id))
    m.remove_member(group, member_id, "the issued id expired")
    finish_if_all_joined(m, group)


def session_over(m: Machine, group: ClassicGroup, key: TimerKey) -> None:
    """The deadline of a member or issued id passed.

    Members that wait for a barrier are safe: the request that is parked proves that they were there, and their
    deadline starts afresh when it is answered. New members are not, see `NEW_MEMBER_JOIN_TIMEOUT_MS`.
    """
    member_id = key.member_id
    if member_id in group.pending_members:
        void(m, key)
        return
    member = group.members[member_id]
    if not member.is_new and (member.parked_join is not None or member.parked_sync is not None):
        return
    m.emit(
        SessionExpired(
            group_id=group.group_id,
            member_id=member_id,
            last_heard_ms=m.last_heard_ms(member),
            session_timeout_ms=member.session_timeout_ms,
            is_new=member.is_new,
        )
    )
    drop_parked_join(m, group, member)
    m.remove_member(group, member_id, "the leader's session expired")
    if group.state is STABLE or group.state is COMPLETING_REBALANCE:
        rebalance_or_finish(m, group, Reason(Began.EXPIRED, member_id))
    else:
        finish_if_all_joined(m, group)
