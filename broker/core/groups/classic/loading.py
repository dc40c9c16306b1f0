"""How classic groups come back from the log, and how they are given up."""

from __future__ import annotations

from ottla.broker.core.events.reasons import Began, Reason
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.rebalance import answer_parked, prepare, wait_for_joins
from ottla.broker.core.groups.classic.state import COMPLETING_REBALANCE, DEAD, PREPARING_REBALANCE
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


def go_on(m: Machine, group: ClassicGroup) -> None:
    """Go on with a group after all, whose members were told to join again (R8.18)."""
    for member in group.members.values():
        m.start_session(group, member)
    group.assigning = group.unannounced = False
    if group.state is COMPLETING_REBALANCE:
        prepare(m, group, Reason(Began.NOT_UPGRADED, group=group.group_id))
    elif group.state is PREPARING_REBALANCE:
        wait_for_joins(m, group)


def dismiss(m: Machine, group: ClassicGroup, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
    """Answer all parked requests of a group that is given up with an error."""
    if group.is_gone:
        return
    m.move(group, DEAD)
    answer_parked(m, group, error)
