"""Members of the classic protocol in consumer groups: JoinGroup, SyncGroup and Heartbeat (8.2, 8.3).

There are no barriers. Such a member takes a step towards its target with each JoinGroup, and hears of what it has by
SyncGroup. Heartbeats tell it to join again as long as there is something to do.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ottla.broker.core.consumer_groups import downgrade, target
from ottla.broker.core.consumer_groups.changes import Change, Refused, answer
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.leaving import own
from ottla.broker.core.consumer_groups.partitions import by_id, encoded
from ottla.broker.core.consumer_groups.progress import (
    change_regex,
    check_size,
    known_instance,
    new_member_id,
    refresh,
    say,
    step,
    take_place,
)
from ottla.broker.core.consumer_groups.sessions import await_join, await_sync, has_synced
from ottla.broker.core.consumer_groups.state import (
    NOBODY,
    UNRELEASED,
    UNREVOKED,
    ClassicProtocols,
    Member,
    State,
    names_of,
)
from ottla.broker.core.consumer_groups.target import NOTHING
from ottla.broker.core.coordination.shard import Waiter, append_error
from ottla.broker.core.effects import Asker
from ottla.broker.core.events import MemberIdIssued, MemberMustRejoin, MemberMustSync, MemberSynced
from ottla.broker.core.events.reasons import Began
from ottla.broker.core.groups.classic.member import Protocols, protocols_of, rebalance_timeout_of
from ottla.broker.core.groups.classic.replies import REQUIRES_KNOWN_MEMBER, join_error, sync_error
from ottla.broker.core.groups.machine import Machine
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, Subscription, decode_subscription
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

# JoinGroup


def join(m: Machine, group: ConsumerGroup, request: JoinGroupRequest, ctx: Asker) -> JoinGroupResponse | None:
    """Let somebody of the classic protocol into a group with members, or a step further; None if the answer waits."""
    member_id = request.member_id or new_member_id(m)
    protocols = protocols_of(request)
    try:
        _check(m, group, request, member_id, protocols)
        if not request.member_id and request.group_instance_id is None and ctx.api_version >= REQUIRES_KNOWN_MEMBER:
            # Nobody waits for it: it may come back under this id, or under any other.
            m.emit(MemberIdIssued(group_id=group.group_id, member_id=member_id, state=group.state.group_state))
            return join_error(ctx, ErrorCode.MEMBER_ID_REQUIRED, member_id)
        member = _join(m, group, request, ctx, member_id, protocols)
    except Refused as refused:
        return join_error(ctx, refused.error_code, "")
    joined = Joined(group, member, ctx)
    last = next(reversed(group.in_flight), None)
    if last is None:
        return joined.answer(m)
    last.waiters.append(joined)
    return None


def _check(m: Machine, group: ConsumerGroup, request: JoinGroupRequest, member_id: str, protocols: Protocols) -> None:
    if m.config.group_consumer_migration_policy.lower() == "disabled":
        text = f"group.consumer.migration.policy lets no member of the classic protocol into group {group.group_id}"
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
    check_size(m, group, member_id, request.group_instance_id)
    state = group.state
    if request.protocol_type != PROTOCOL_TYPE or not any(
        state.classic_protocols.get(name, 0) == state.classic_members for name, _ in protocols
    ):
        text = f"None of the protocols of {member_id} is one that all classic members of {group.group_id} have"
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)


def _join(
    m: Machine,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    ctx: Asker,
    member_id: str,
    protocols: Protocols,
) -> Member:
    began = None
    with Change(m, group) as change:
        instance_id = request.group_instance_id
        change.asked_by(member_id, instance_id)
        owner = None if instance_id is None else known_instance(change, instance_id)
        becomes_classic = owner is not None and owner.classic is None and downgrade.applies(change, [owner], joining=1)
        before = _find(change, request, member_id, owner)
        subscription = _subscription(protocols)
        said = say(change, before, _said(before, request, ctx, subscription, protocols))
        names_changed = said.names != before.names
        regex_changed, _ = change_regex(change, before, said, ctx)
        refresh(change, names_changed=names_changed, regex_changed=regex_changed)
        has_changed = names_changed or regex_changed
        reported = by_id(m.topics, subscription.owned_partitions)
        if not becomes_classic:
            goal = target.update(change, before, said)
            after = step(change, said, goal, reported, subscription_changed=has_changed)
        elif change.state.epoch > change.state.assignment_epoch:
            after, began = said, Began.DOWNGRADED_LATE
        else:
            after = step(change, said, target.last(change, said), reported, subscription_changed=has_changed)
        if becomes_classic:
            downgrade.convert(change, [], after)
    if change.successor is not None:
        downgrade.begin(m, change.successor, began)
    else:
        m.new_session(group, after.member_id, own_timeout_ms=request.session_timeout_ms)
    return after


def _find(change: Change, request: JoinGroupRequest, member_id: str, owner: Member | None) -> Member:
    """The member as it was before the request, whatever its epoch."""
    instance_id = request.group_instance_id
    if owner is None:
        if instance_id is not None and request.member_id:
            text = f"Instance {instance_id} is not in group {request.group_id}"
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, text)
        return change.state.members.get(member_id) or Member(member_id)
    if not request.member_id:
        return take_place(change, owner, member_id)
    return own(owner, member_id, instance_id or "")


def _subscription(protocols: Protocols) -> Subscription:
    """What a member subscribes to, by its favourite protocol."""
    name, metadata = protocols[0]
    try:
        return decode_subscription(metadata)
    except MalformedFrame as error:
        text = f"The metadata of protocol {name} are no subscription: {error}"
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text) from None


def _said(
    before: Member, request: JoinGroupRequest, ctx: Asker, subscription: Subscription, protocols: Protocols
) -> Member:
    """The member with all that a JoinGroup says of it (R8.1)."""
    timeout_ms = rebalance_timeout_of(request, ctx)
    instance_id = request.group_instance_id
    return replace(
        before,
        instance_id=before.instance_id if instance_id is None else instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        client_id=ctx.client_id,
        client_host=ctx.client_host,
        names=names_of(subscription.topics),
        regex="",
        rebalance_timeout_ms=before.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        classic=ClassicProtocols(request.session_timeout_ms, protocols),
    )


class Joined(Waiter[Machine]):
    """The answer to a JoinGroup, and what begins with it (R8.4, R8.5).

    Args:
        group: which it joined; it may be a classic group by now.
    """

    __slots__ = ("ctx", "group", "member")

    def __init__(self, group: ConsumerGroup, member: Member, ctx: Asker) -> None:
        self.group = group
        self.member = member
        self.ctx = ctx

    def done(self, m: Machine, error: ErrorCode) -> None:
        member_id = self.member.member_id
        if error:
            m.reply(self.ctx, join_error(self.ctx, append_error(error), ""), self.group.group_id, member_id)
        else:
            m.grant(self.ctx, self.answer(m), self.group.group_id, member_id)

    def answer(self, m: Machine) -> JoinGroupResponse:
        """The answer, from which on the time runs in which the member has to sync."""
        group, member = self.group, self.member
        classic = member.classic
        assert classic is not None, "who sends JoinGroup is of the classic protocol"
        if m.groups.get(group.group_id) is group and member.member_id in group.state.members:
            m.new_session(group, member.member_id, own_timeout_ms=classic.session_timeout_ms)
            m.emit(
                MemberMustSync(
                    group_id=group.group_id,
                    member_id=member.member_id,
                    epoch=member.epoch,
                    deadline_ms=await_sync(m, group, member),
                )
            )
        return JoinGroupResponse(
            generation_id=member.epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=classic.protocols[0][0],
            leader="",
            member_id=member.member_id,
        )


# SyncGroup


def sync(m: Machine, group: ConsumerGroup, request: SyncGroupRequest, ctx: Asker) -> SyncGroupResponse | None:
    """Tell a member what it has; None if the answer waits for what is on its way."""
    try:
        member = _member(group, request.member_id, request.group_instance_id, request.generation_id)
        _check_protocol(member, request)
    except Refused as refused:
        return sync_error(refused.error_code)
    if group.state.assignment_epoch > member.epoch and member.state is not UNREVOKED:
        _tell_to_rejoin(m, group, member)
        return sync_error(ErrorCode.REBALANCE_IN_PROGRESS)
    classic = _classic(member)
    has_synced(m, group, member)
    m.new_session(group, member.member_id, own_timeout_ms=classic.session_timeout_ms)
    m.emit(MemberSynced(group_id=group.group_id, member_id=member.member_id, epoch=member.epoch))
    response = SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=encoded(m.topics, member.assigned, classic.protocols[0][1]),
    )
    return answer(group, ctx, response)


def _check_protocol(member: Member, request: SyncGroupRequest) -> None:
    told = _classic(member).protocols[0][0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, told):
        text = f"Member {member.member_id} was told protocol {told} of type {PROTOCOL_TYPE}"
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)


# Heartbeat


def heartbeat(m: Machine, group: ConsumerGroup, request: HeartbeatRequest, announce: Callable[[], None]) -> ErrorCode:
    """Keep a member's session alive, and tell whether it has to join again, with REBALANCE_IN_PROGRESS (R8.8).

    Args:
        announce: called before anything is told of what comes of it; from then on it is an entry.

    Raises:
        Refused: it is no such member.
    """
    state = group.state
    member = _member(group, request.member_id, request.group_instance_id, request.generation_id)
    session = group.sessions[member.member_id]
    session.session_timeout_ms = _classic(member).session_timeout_ms
    session.session_deadline_ms = m.now_ms + session.session_timeout_ms
    m.shorten_session(group, session)
    if (
        member.epoch < state.assignment_epoch
        or member.state is UNREVOKED
        or (member.state is UNRELEASED and not _waits_for_others(state, member))
    ):
        _tell_to_rejoin(m, group, member, announce)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _waits_for_others(state: State, member: Member) -> bool:
    """Whether another member has something of this one's target."""
    return any(
        state.owner_epoch(topic_id, partition) != NOBODY
        for topic_id, partitions in state.targets.get(member.member_id, NOTHING).items()
        for partition in partitions
        if partition not in member.assigned.get(topic_id, ())
    )


def _tell_to_rejoin(
    m: Machine, group: ConsumerGroup, member: Member, announce: Callable[[], None] | None = None
) -> None:
    deadline_ms = await_join(m, group, member)
    if deadline_ms is not None:
        if announce is not None:
            m.begin(m.now_ms)
            announce()
        event = MemberMustRejoin(
            group_id=group.group_id, member_id=member.member_id, epoch=member.epoch, deadline_ms=deadline_ms
        )
        m.emit(event)


# Both


def _member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> Member:
    """The member that a request is of, if it is of the classic protocol and at this epoch."""
    state = group.state
    member = state.members.get(member_id) if instance_id is None else state.static_member(instance_id)
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    if instance_id is not None:
        own(member, member_id, instance_id)
    if member.classic is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation != member.epoch:
        raise Refused(ErrorCode.ILLEGAL_GENERATION)
    return member


def _classic(member: Member) -> ClassicProtocols:
    assert member.classic is not None, "the member was looked up as one of the classic protocol"
    return member.classic
