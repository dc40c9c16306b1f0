"""A consumer group becomes a classic group, because its last member of the consumer protocol goes (8.6)."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.core.consumer_groups.changes import Change, Refused
from ottla.broker.core.consumer_groups.facts import (
    DELETION,
    MemberCurrent,
    MemberGone,
    MemberTarget,
    RegexResolved,
)
from ottla.broker.core.consumer_groups.partitions import encoded
from ottla.broker.core.consumer_groups.state import Member
from ottla.broker.core.consumer_groups.target import NOTHING
from ottla.broker.core.events import ConversionRefused
from ottla.broker.core.events.reasons import Began, Reason
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.member import Member as ClassicMember
from ottla.broker.core.groups.classic.rebalance import prepare
from ottla.broker.core.groups.machine import Machine
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE
from ottla.protocol.errors import ErrorCode, MalformedFrame


def applies(change: Change, gone: Sequence[Member], joining: int = 0) -> bool:
    """Whether a group becomes a classic one when members go (R8.20).

    Args:
        joining: how many of the classic protocol come in their place.
    """
    m, group, state = change.m, change.group, change.state
    left = len(state.members) - len(gone)
    classic = state.classic_members - sum(member.classic is not None for member in gone)
    if classic != left or not left + joining:
        return False
    if not m.config.may_convert("downgrade"):
        problem = "group.consumer.migration.policy does not allow it"
    elif left + joining > m.config.group_max_size:
        problem = f"it has more members than group.max.size={m.config.group_max_size}"
    else:
        return True
    change.announce_now()
    m.emit(ConversionRefused(group_id=group.group_id, kind=group.kind, reason=problem))
    return False


def convert(change: Change, gone: Sequence[Member], joining: Member | None = None) -> ClassicGroup:
    """Let a classic group take the place of a consumer group, with its members that stay and their targets (R8.22).

    Args:
        joining: a member that is one already, and comes last.

    Raises:
        Refused: a member's subscription cannot be read; nothing is changed.
    """
    m, group, state = change.m, change.group, change.state
    last = [] if joining is None else [joining]
    left_out = {member.member_id for member in (*gone, *last)}
    staying = [member for member in state.members.values() if member.member_id not in left_out]
    classic = ClassicGroup(group.group_id, group.shard, group.offsets, m.wall_ms)
    for member in staying + last:
        classic.add(_member(member))
    classic.begin_with(change.epoch, PROTOCOL_TYPE, classic.select_protocol())
    assignments = {}
    for member_id, one in classic.members.items():
        target = state.targets.get(member_id, NOTHING)
        try:
            assignments[member_id] = encoded(m.topics, target, one.metadata(classic.protocol_name))
        except MalformedFrame as error:
            text = f"Group {group.group_id} cannot become a classic group: member {member_id} said {error}"
            raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, text) from None
    classic.assign(assignments)
    _delete_all(change)
    change.successor = classic
    return classic


def _member(member: Member) -> ClassicMember:
    assert member.classic is not None, "members of the consumer protocol are in no classic group"
    return ClassicMember(
        member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocol_type=PROTOCOL_TYPE,
        protocols=member.classic.protocols,
    )


def _delete_all(change: Change) -> None:
    """Write all the tombstones of a group and its members, those of a kind together (6.3)."""
    state = change.state
    members, regexes = list(state.members), list(state.resolved)
    for member_id in members:
        change.add(MemberCurrent.gone(member_id))
    for member_id in members:
        change.add(MemberTarget(member_id, None))
    targets_gone, *group_gone = DELETION
    change.add(targets_gone)
    for member_id in members:
        change.add(MemberGone(member_id))
    for regex in regexes:
        change.add(RegexResolved(regex, None))
    for fact in group_gone:
        change.add(fact)


def begin(m: Machine, classic: ClassicGroup, began: Began | None) -> None:
    """Serve the group that a consumer group has become (R8.23).

    Args:
        began: why its members have to join again; None if they need not.
    """
    for member in classic.members.values():
        m.start_session(classic, member)
    if began is not None:
        prepare(m, classic, Reason(began, group=classic.group_id))
