"""SyncGroup, once it is known that this broker coordinates the group."""

from __future__ import annotations

from ottla.broker.core.consumer_groups import classic_members
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.coordination.shard import append_error
from ottla.broker.core.effects import Asker
from ottla.broker.core.events import AssignmentReceived, AssignmentsPublished, NamedBytes, RequestParked
from ottla.broker.core.events.reasons import Began, Reason
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.member import Member
from ottla.broker.core.groups.classic.rebalance import answer_syncs, has_synced, prepare
from ottla.broker.core.groups.classic.replies import sync_error, sync_success
from ottla.broker.core.groups.classic.state import COMPLETING_REBALANCE, DEAD, EMPTY, PREPARING_REBALANCE, STABLE
from ottla.broker.core.groups.machine import GroupWrite, Machine
from ottla.broker.core.groups.records import group_record
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

NAMES_PROTOCOL = 5
"""From this version on a member must name the protocol that it believes to be chosen (KIP-559)."""


def sync(m: Machine, request: SyncGroupRequest, ctx: Asker) -> SyncGroupResponse | None:
    """Hand a member its assignment; None if the request was parked until the leader's is durable."""
    group = m.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        return classic_members.sync(m, group, request, ctx)
    if not isinstance(group, ClassicGroup):
        return sync_error(ErrorCode.UNKNOWN_MEMBER_ID)
    if error := _validate(group, request):
        return sync_error(error)
    member = group.members[request.member_id]
    if group.state is PREPARING_REBALANCE:
        return sync_error(ErrorCode.REBALANCE_IN_PROGRESS)
    leads = group.state is not STABLE and group.leader_id == member.member_id and not group.assigning
    if leads and not m.has_room(group, sum(len(item.assignment) for item in request.assignments)):
        # The log has a limit for a group, too, and a lower one; this one is for all groups together. The leader still
        # owes its SyncGroup, so the others do not wait for ever.
        return sync_error(ErrorCode.GROUP_MAX_SIZE_REACHED)
    has_synced(m, group, member.member_id)
    if group.state is STABLE:
        return sync_success(group, member)
    _park(m, group, member, ctx)
    if leads:
        _assign(m, group, request)
    return None


def _validate(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    if group.state is EMPTY:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error := group.fence(request.member_id, request.group_instance_id):
        return error
    # A generation that its members have not been told of is nobody's yet.
    if request.generation_id != group.generation or group.unannounced:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _differs(asked: str | None, actual: str | None) -> bool:
    return asked is not None and actual is not None and asked != actual


def _park(m: Machine, group: ClassicGroup, member: Member, ctx: Asker) -> None:
    replaced = member.parked_sync is not None
    member.parked_sync = ctx
    m.emit(RequestParked(group_id=group.group_id, api="SyncGroup", member_id=member.member_id, replaced=replaced))


def _assign(m: Machine, group: ClassicGroup, request: SyncGroupRequest) -> None:
    """The leader's assignments came: log them. Members that it left out get none; strangers are ignored.

    While they are being logged another SyncGroup of the leader only waits: the first one counts, and a second record
    would leave the log with assignments that nobody was given.
    """
    assignments = {item.member_id: bytes(item.assignment) for item in request.assignments}
    group.assigning = True
    m.emit(
        AssignmentReceived(
            group_id=group.group_id,
            leader_id=request.member_id,
            generation=group.generation,
            members=len(group.members),
            static_members=len(group.static_members),
        )
    )
    record = group_record(group, assignments)
    m.append(AssignmentWrite(group, assignments, request.member_id), [record])


class AssignmentWrite(GroupWrite):
    """The record of a generation with its assignments."""

    __slots__ = ("assignments", "leader_id")
    what = "assignments"

    def __init__(self, group: ClassicGroup, assignments: dict[str, bytes], leader_id: str) -> None:
        super().__init__(group)
        self.assignments = assignments
        self.leader_id = leader_id

    def done(self, m: Machine, error: ErrorCode) -> None:
        """Publish the assignments, or take the generation back, unless something else moved the group on."""
        group = self.group
        in_time = group.state is COMPLETING_REBALANCE and group.generation == self.generation and self.is_current(m)
        GroupWrite.done(self, m, error)
        if not in_time:
            return
        group.assigning = False
        if error:
            shown = append_error(error)
            answer_syncs(m, group, shown)
            prepare(m, group, Reason(Began.ASSIGNMENT_FAILED, self.leader_id, error=shown.name))
            return
        group.assign(self.assignments)
        m.weigh(group)
        answer_syncs(m, group, ErrorCode.NONE)
        m.move(group, STABLE)
        m.emit(
            AssignmentsPublished(
                group_id=group.group_id,
                generation=group.generation,
                members=len(group.members),
                empty=[member.member_id for member in group.members.values() if not member.assignment],
                assignments=[NamedBytes(member.member_id, member.assignment) for member in group.members.values()],
            )
        )
