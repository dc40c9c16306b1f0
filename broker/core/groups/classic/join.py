"""JoinGroup, once it is known that this broker coordinates the group."""

from __future__ import annotations

from ottla.broker.core.consumer_groups import classic_members
from ottla.broker.core.consumer_groups.facts import DELETION
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.records import record_of
from ottla.broker.core.consumer_groups.writes import ConversionWrite
from ottla.broker.core.coordination.machine import TimerKey
from ottla.broker.core.coordination.shard import append_error
from ottla.broker.core.effects import Asker
from ottla.broker.core.events import (
    GroupConverted,
    GroupCreated,
    MemberAdded,
    MemberIdIssued,
    MemberRejected,
    MemberReplaced,
    ReplacementReverted,
    RequestParked,
)
from ottla.broker.core.events.reasons import NOT_PROVIDED, Began, Reason
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.member import (
    Member,
    Protocols,
    protocols_bytes,
    protocols_of,
    rebalance_timeout_of,
)
from ottla.broker.core.groups.classic.membership import void
from ottla.broker.core.groups.classic.rebalance import prepare, rebalance_or_finish, try_finish
from ottla.broker.core.groups.classic.replies import (
    REQUIRES_KNOWN_MEMBER,
    SKIPS_ASSIGNMENT,
    join_error,
    join_success,
    sync_error,
)
from ottla.broker.core.groups.classic.state import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, STABLE
from ottla.broker.core.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.broker.core.groups.group import MEMBER_BYTES, group_bytes, text_bytes
from ottla.broker.core.groups.machine import GroupWrite, Machine, Timer
from ottla.broker.core.groups.offsets.committed import CommittedOffsets
from ottla.broker.core.groups.records import group_record, new_group_record
from ottla.broker.core.groups.shard import GroupShard
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.primitives import MAX_TEXT_BYTES

_UUID_CHARACTERS = 36


def join(m: Machine, shard: GroupShard, request: JoinGroupRequest, ctx: Asker) -> JoinGroupResponse | None:
    """Let somebody join; None if the request was parked."""
    known = m.groups.get(request.group_id)
    if isinstance(known, ConsumerGroup) and not known.is_empty:
        return classic_members.join(m, known, request, ctx)
    if not request.member_id and not _can_be_named(request, ctx):
        # Kafka answers the same, as it cannot write the answer that it has.
        return join_error(ctx, ErrorCode.UNKNOWN_SERVER_ERROR, "")
    if isinstance(known, ClassicGroup):
        return _join_group(m, known, request, ctx)
    if request.member_id:
        return join_error(ctx, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
    if not m.has_room(None, group_bytes(request.group_id) + _growth(None, request, ctx)):
        return join_error(ctx, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    replaced = known if isinstance(known, ConsumerGroup) else None
    group = _new_group(m, shard, request.group_id, replaced)
    answer = _join_group(m, group, request, ctx)
    if not group.group_writes:
        record = new_group_record(group, m.wall_ms)
        if replaced is None:
            m.append(NewGroupWrite(group), [record])
        else:
            deletion = DELETION if replaced.state.exists else ()
            for fact in deletion:
                replaced.add(fact)
            write = ConversionWrite(group, replaced)
            replaced.written(write, deletion)
            m.append(write, [*(record_of(group.group_id, fact) for fact in deletion), record])
    return answer


def _new_group(m: Machine, shard: GroupShard, group_id: str, replaced: ConsumerGroup | None) -> ClassicGroup:
    """A group that comes to be, or takes the place of a consumer group without members and has its offsets (R8.10)."""
    if replaced is None:
        group = ClassicGroup(group_id, shard, CommittedOffsets(), m.wall_ms)
        m.add_group(group)
        m.emit(GroupCreated(group_id=group_id, simple=False))
    else:
        group = ClassicGroup(group_id, shard, replaced.offsets, m.wall_ms)
        m.replace_group(replaced, group)
        m.emit(GroupConverted(group_id=group_id, before=replaced.kind, after=group.kind, generation=group.generation))
    return group


def _join_group(m: Machine, group: ClassicGroup, request: JoinGroupRequest, ctx: Asker) -> JoinGroupResponse | None:
    member_id = request.member_id
    if not _admits(m, group, member_id):
        m.emit(MemberRejected(group_id=group.group_id, member_id=member_id, members=len(group.members)))
        m.remove_member(group, member_id, "the group is full")
        return join_error(ctx, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    if group.state is DEAD:
        return join_error(ctx, ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id)
    member = group.members.get(member_id or group.static_members.get(request.group_instance_id or "", ""))
    protocols = protocols_of(request)
    unchanged = member is not None and member.protocols == protocols
    if not unchanged and not m.has_room(group, _growth(member, request, ctx)):
        m.emit(MemberRejected(group_id=group.group_id, member_id=member_id, members=len(group.members)))
        if member is None:
            m.remove_member(group, member_id, "the group keeps too much")
        return join_error(ctx, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    if not group.supports(request.protocol_type, protocols):
        return join_error(ctx, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
    if member_id:
        return _join_known(m, group, request, ctx, protocols, unchanged=unchanged)
    if request.group_instance_id is not None:
        return _join_static(m, group, request, ctx, request.group_instance_id)
    return _join_dynamic(m, group, request, ctx)


def _can_be_named(request: JoinGroupRequest, ctx: Asker) -> bool:
    """Whether the id that a new member gets fits into answers, its own and those of others."""
    begin = ctx.client_id if request.group_instance_id is None else request.group_instance_id
    return len(begin.encode()) + len("-") + _UUID_CHARACTERS <= MAX_TEXT_BYTES


def _admits(m: Machine, group: ClassicGroup, member_id: str) -> bool:
    """Whether ``group.max.size`` lets somebody in. Issued ids do not count."""
    limit = m.config.group_max_size
    member = group.members.get(member_id)
    if group.state is EMPTY or group.state is DEAD:
        return True
    if group.state is PREPARING_REBALANCE:
        return (member is not None and member.parked_join is not None) or group.parked_joins < limit
    return member is not None or len(group.members) < limit


def _growth(member: Member | None, request: JoinGroupRequest, ctx: Asker) -> int:
    """The bytes by which a group grows once somebody has joined; None for somebody new."""
    protocols = sum(128 + text_bytes(protocol.name) + len(protocol.metadata) for protocol in request.protocols)
    if member is not None:
        return protocols - protocols_bytes(member.protocols)
    texts = text_bytes(request.protocol_type) + 2 * (text_bytes(ctx.client_id) + text_bytes(request.group_instance_id))
    return MEMBER_BYTES + texts + protocols


def _join_dynamic(m: Machine, group: ClassicGroup, request: JoinGroupRequest, ctx: Asker) -> JoinGroupResponse | None:
    member_id = f"{ctx.client_id}-{m.new_id()}"
    if ctx.api_version < REQUIRES_KNOWN_MEMBER:
        _add(m, group, request, ctx, member_id)
        return None
    m.issue(group, member_id, request.session_timeout_ms)
    m.emit(MemberIdIssued(group_id=group.group_id, member_id=member_id, state=group.state))
    while (key := m.surplus(group)) is not None:
        void(m, key)
    return join_error(ctx, ErrorCode.MEMBER_ID_REQUIRED, member_id)


def _join_static(
    m: Machine, group: ClassicGroup, request: JoinGroupRequest, ctx: Asker, group_instance_id: str
) -> JoinGroupResponse | None:
    member_id = f"{group_instance_id}-{m.new_id()}"
    old_id = group.static_members.get(group_instance_id)
    if old_id is None:
        _add(m, group, request, ctx, member_id)
    else:
        _replace(m, group, request, ctx, group.members[old_id], member_id)
    return None


def _join_known(
    m: Machine,
    group: ClassicGroup,
    request: JoinGroupRequest,
    ctx: Asker,
    protocols: Protocols,
    *,
    unchanged: bool,
) -> JoinGroupResponse | None:
    member_id = request.member_id
    if member_id in group.pending_members:
        if request.group_instance_id is not None:
            # Ids are issued to dynamic members only, so nobody can hold this one with an instance id. To Kafka it is an
            # internal error, whose answer has no member id.
            return join_error(ctx, ErrorCode.UNKNOWN_SERVER_ERROR, "")
        _add(m, group, request, ctx, member_id, was_pending=True)
        return None
    if error := group.fence(member_id, request.group_instance_id):
        return join_error(ctx, error, member_id)
    member = group.members[member_id]
    if group.state is PREPARING_REBALANCE:
        _update(m, group, member, request, ctx, protocols)
        _park(m, group, member, ctx)
        try_finish(m, group)
        return None
    if group.state is COMPLETING_REBALANCE and unchanged:
        if group.unannounced:
            _park(m, group, member, ctx)
            return None
        return join_success(ctx, group, member)
    reason = request.reason or NOT_PROVIDED
    if group.state is STABLE and group.leader_id == member_id:
        why = Reason(Began.LEADER_REJOINED, member_id, reason, state=group.state)
        return _rejoin(m, group, member, request, ctx, protocols, why)
    if group.state is STABLE and unchanged:
        return join_success(ctx, group, member)
    why = Reason(Began.UPDATED, member_id, reason, state=group.state)
    return _rejoin(m, group, member, request, ctx, protocols, why)


def _park(m: Machine, group: ClassicGroup, member: Member, ctx: Asker) -> None:
    replaced = group.park_join(member, ctx)
    m.emit(RequestParked(group_id=group.group_id, api="JoinGroup", member_id=member.member_id, replaced=replaced))


def _rejoin(
    m: Machine,
    group: ClassicGroup,
    member: Member,
    request: JoinGroupRequest,
    ctx: Asker,
    protocols: Protocols,
    reason: Reason,
) -> JoinGroupResponse | None:
    _update(m, group, member, request, ctx, protocols)
    _park(m, group, member, ctx)
    rebalance_or_finish(m, group, reason)
    return None


def _update(
    m: Machine,
    group: ClassicGroup,
    member: Member,
    request: JoinGroupRequest,
    ctx: Asker,
    protocols: Protocols,
) -> None:
    is_shorter = request.session_timeout_ms < member.session_timeout_ms
    group.update(member, protocols, rebalance_timeout_of(request, ctx), request.session_timeout_ms)
    m.weigh(group)
    if is_shorter:
        m.shorten_session(group, member)


def _add(
    m: Machine,
    group: ClassicGroup,
    request: JoinGroupRequest,
    ctx: Asker,
    member_id: str,
    *,
    was_pending: bool = False,
) -> None:
    """Add a member, park its request, and rebalance."""
    member = Member(
        member_id,
        group_instance_id=request.group_instance_id,
        client_id=ctx.client_id,
        client_host=ctx.client_host,
        rebalance_timeout_ms=rebalance_timeout_of(request, ctx),
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=protocols_of(request),
    )
    member.is_new = True
    if group.state is PREPARING_REBALANCE and group.previous_state is EMPTY:
        group.new_member_added = True
    m.emit(
        MemberAdded(
            group_id=group.group_id,
            member_id=member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            state=group.state,
            was_pending=was_pending,
        )
    )
    leader_id = group.leader_id
    group.add(member)
    m.came_back(TimerKey(Timer.SESSION, group.group_id, member_id))
    m.weigh(group)
    m.note_leader(group, leader_id, "it is the first member")
    _park(m, group, member, ctx)
    m.start_session(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS)
    began = Began.STATIC_ADDED if member.is_static else Began.ADDED
    said, instance = request.reason or NOT_PROVIDED, request.group_instance_id or ""
    rebalance_or_finish(m, group, Reason(began, member_id, said, instance))


def _replace(
    m: Machine, group: ClassicGroup, request: JoinGroupRequest, ctx: Asker, old: Member, member_id: str
) -> None:
    """A static member came back without its member id (KIP-345): its successor takes its place.

    The requests that its predecessor left behind are fenced. In a Stable group that would choose the same protocol
    again nobody else notices: the new id is logged, and then the successor is told of the current generation.
    """
    assert old.group_instance_id is not None
    m.emit(
        MemberReplaced(
            group_id=group.group_id,
            member_id=member_id,
            old_member_id=old.member_id,
            group_instance_id=old.group_instance_id,
            state=group.state,
        )
    )
    if (parked := group.unpark_join(old)) is not None:
        fenced = join_error(parked, ErrorCode.FENCED_INSTANCE_ID, old.member_id)
        m.reply(parked, fenced, group.group_id, old.member_id)
    if (parked := old.parked_sync) is not None:
        old.parked_sync = None
        m.reply(parked, sync_error(ErrorCode.FENCED_INSTANCE_ID), group.group_id, old.member_id)
    leader_id = group.leader_id
    member = group.replace_static(old, member_id)
    m.cancel_session(group, old.member_id)
    m.note_leader(group, leader_id, "its member id was replaced")
    m.start_session(group, member)
    _update(m, group, member, request, ctx, protocols_of(request))
    _park(m, group, member, ctx)
    said = request.reason or NOT_PROVIDED
    if group.state is PREPARING_REBALANCE:
        try_finish(m, group)
    elif group.state is COMPLETING_REBALANCE:
        # The leader may have been shown the old id, and would assign to it.
        prepare(m, group, Reason(Began.STATIC_REPLACED, member_id, said, old.group_instance_id))
    elif group.select_protocol() == group.protocol_name:
        m.append(ReplacementWrite(group, member, old, ctx, leader_id), [group_record(group)])
    else:
        prepare(m, group, Reason(Began.PROTOCOL_CHANGED, member_id, said, old.group_instance_id))


class NewGroupWrite(GroupWrite):
    """The empty record of a group that was just created.

    If it fails, the group is taken back: requests that are still parked hear the error, and ids that were issued are
    unknown from then on.
    """

    __slots__ = ()
    what = "new group"

    def done(self, m: Machine, error: ErrorCode) -> None:
        group = self.group
        GroupWrite.done(self, m, error)
        if not error or group.generation or m.groups.get(group.group_id) is not group:
            return
        for member in group.members.values():
            if (ctx := group.unpark_join(member)) is not None:
                m.reply(ctx, join_error(ctx, append_error(error), ""), group.group_id, member.member_id)
        m.forget_group(group, "its first record could not be written")
        group.move(DEAD, m.wall_ms)
        if group.offsets:
            # Somebody stores offsets under this id: what stays is a group that does only that.
            m.add_group(ClassicGroup(group.group_id, group.shard, group.offsets, m.wall_ms))


class ReplacementWrite(GroupWrite):
    """The record of a Stable generation with the new id of a static member in it.

    The answer differs by version: from 9 on a replaced leader learns that it leads, is shown the members, and is told
    to leave their assignments alone; before, it is shown the leader's old id and so follows.
    """

    __slots__ = ("ctx", "leader_id", "member", "old")
    what = "static member replacement"

    def __init__(self, group: ClassicGroup, member: Member, old: Member, ctx: Asker, leader_id: str | None) -> None:
        super().__init__(group)
        self.member = member
        self.old = old
        self.ctx = ctx
        self.leader_id = leader_id

    def done(self, m: Machine, error: ErrorCode) -> None:
        group, member, ctx = self.group, self.member, self.ctx
        GroupWrite.done(self, m, error)
        if member.parked_join is not ctx or group.members.get(member.member_id) is not member:
            return
        if group.unannounced:
            return  # the generation that is being logged has the successor in it, and answers it
        group.unpark_join(member)
        if error:
            self._revert(m, error)
            return
        response = join_success(ctx, group, member)
        if ctx.api_version >= SKIPS_ASSIGNMENT:
            response.skip_assignment = group.leader_id == member.member_id
        else:
            response.leader = self.leader_id or ""
            response.members = []
        m.reply(ctx, response, group.group_id, member.member_id)
        m.ensure_session(group, member)

    def _revert(self, m: Machine, error: ErrorCode) -> None:
        group, member, old = self.group, self.member, self.old
        assert old.group_instance_id is not None
        m.emit(
            ReplacementReverted(
                group_id=group.group_id,
                member_id=member.member_id,
                old_member_id=old.member_id,
                group_instance_id=old.group_instance_id,
                error=error.name,
            )
        )
        group.update(member, old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
        leader_id = group.leader_id
        restored = group.replace_static(member, old.member_id)
        m.weigh(group)
        m.note_leader(group, leader_id, "the replacement was taken back")
        m.cancel_session(group, member.member_id)
        m.start_session(group, restored)
        response = join_error(self.ctx, append_error(error), "")
        response.generation_id = group.generation
        response.protocol_type = group.protocol_type
        response.protocol_name = group.protocol_name or response.protocol_name
        response.leader = self.leader_id or ""
        m.reply(self.ctx, response, group.group_id, member.member_id)
