"""How classic groups come back from the log, and how they are given up."""

from __future__ import annotations

from ottla.broker.core.events.reasons import Began, Reason
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.rebalance import prepare
from ottla.broker.core.groups.classic.replies import join_error, sync_error
from ottla.broker.core.groups.classic.state import DEAD
from ottla.broker.core.groups.machine import Machine
from ottla.protocol.errors import ErrorCode


def resume(m: Machine, group: ClassicGroup) -> None:
    """Begin to serve a group that was replayed.

    Every member gets a fresh session, so that a fail-over by itself evicts nobody.
    """
    for member in group.members.values():
        m.start_session(group, member)
    if len(group.members) > m.config.group_max_size:
        members, most = len(group.members), m.config.group_max_size
        prepare(m, group, Reason(Began.OVER_CAPACITY, group=group.group_id, members=members, most=most))
    elif m.config.group_generation_persist == "join" and _is_unassigned(group):
        prepare(m, group, Reason(Began.UNASSIGNED, generation=group.generation))


def _is_unassigned(group: ClassicGroup) -> bool:
    """Whether the generation was logged when it was formed, and its assignments never were."""
    return bool(group.members) and not any(member.assignment for member in group.members.values())


def dismiss(m: Machine, group: ClassicGroup) -> None:
    """Answer all parked requests of a group that is given up with NOT_COORDINATOR."""
    m.move(group, DEAD)
    for member in group.members.values():
        if (ctx := group.unpark_join(member)) is not None:
            response = join_error(ctx, ErrorCode.NOT_COORDINATOR, member.member_id)
            m.reply(ctx, response, group.group_id, member.member_id)
        if (ctx := member.parked_sync) is not None:
            member.parked_sync = None
            m.reply(ctx, sync_error(ErrorCode.NOT_COORDINATOR), group.group_id, member.member_id)
