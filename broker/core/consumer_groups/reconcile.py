"""One step of one member towards its target (section 5)."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple, TypeAlias
from uuid import UUID

from msgspec.structs import replace

from ottla.broker.core.consumer_groups.assignors.spec import Target
from ottla.broker.core.consumer_groups.state import (
    NOBODY,
    STABLE,
    UNRELEASED,
    UNREVOKED,
    Member,
    MemberState,
    Owned,
    State,
)

Reported: TypeAlias = Mapping[UUID, Mapping[int, None]] | None
"""The partitions that a member says it has; None if it does not say. Then it is taken to have all that it had."""


class Unreconcilable(Exception):
    """A member whose record has a state that is not known, and that has not given up everything."""


class Step(NamedTuple):
    """What a member is to be, and the partitions of its target that others have not given up yet."""

    member: Member
    blocked: Mapping[UUID, list[int]]


def reconcile(
    state: State,
    member: Member,
    target: Target,
    reported: Reported,
    subscribed: Container[UUID] | None,
    *,
    subscription_changed: bool,
    displaced: Member | None = None,
) -> Step:
    """Take a member one step further.

    Args:
        target: of the member.
        reported: as of this request.
        subscribed: the topics that the member subscribes to and that exist; None if it names none at all.
        subscription_changed: by this request.
        displaced: the member that had this one's id before this request. What it had is free from the next one on.

    Raises:
        Unreconcilable: the member has to give up everything and join anew.
    """
    if member.state is MemberState.UNKNOWN:
        if reported is None or reported:
            raise Unreconcilable(member.member_id)
        return _next(state, member, target, reported, subscribed or (), state.assignment_epoch, displaced)
    waits_for_itself = member.state is UNREVOKED and _has_any(member.pending, reported)
    if not waits_for_itself and not (member.state is STABLE and member.epoch == state.assignment_epoch):
        return _next(state, member, target, reported, subscribed or (), member.epoch, displaced)
    return Step(_without_others(member, reported, subscribed) if subscription_changed else member, {})


def _next(
    state: State,
    member: Member,
    target: Target,
    reported: Reported,
    subscribed: Container[UUID],
    epoch: int,
    displaced: Member | None,
) -> Step:
    """Compare what the member has with its target.

    Args:
        epoch: of the member, as long as it has to give something up.
    """
    others: tuple[Owned, ...] = () if displaced is None else (displaced.assigned, displaced.pending)
    keep: dict[UUID, dict[int, int]] = {}
    revoke: dict[UUID, dict[int, int]] = {}
    for topic_id, partitions in member.assigned.items():
        wanted = frozenset(target.get(topic_id, ()) if topic_id in subscribed else ())
        for partition, since in partitions.items():
            where = keep if partition in wanted else revoke
            where.setdefault(topic_id, {})[partition] = since
    if revoke and _has_any(revoke, reported):
        step = replace(member, epoch=epoch, previous_epoch=member.epoch, state=UNREVOKED, assigned=keep, pending=revoke)
        return Step(step, {})
    blocked: dict[UUID, list[int]] = {}
    for topic_id, numbers in target.items():
        if topic_id not in subscribed:
            continue
        kept, own = keep.get(topic_id, {}), member.pending.get(topic_id, {})
        added = {}
        for partition in numbers:
            if partition in kept:
                continue
            is_free = state.owner_epoch(topic_id, partition) == NOBODY
            if partition in own or (is_free and not any(partition in owned.get(topic_id, ()) for owned in others)):
                added[partition] = state.assignment_epoch
            else:
                blocked.setdefault(topic_id, []).append(partition)
        if added:
            keep[topic_id] = {**kept, **added}
    return Step(
        replace(
            member,
            epoch=state.assignment_epoch,
            previous_epoch=member.epoch,
            state=UNRELEASED if blocked else STABLE,
            assigned=keep,
            pending={},
        ),
        blocked,
    )


def _without_others(member: Member, reported: Reported, subscribed: Container[UUID] | None) -> Member:
    """Take topics away that the member does not subscribe to any more, ahead of its next target.

    Kafka does not look whether there are any where the member names no topic and has nothing to give up.
    """
    wanted = subscribed or ()
    keep = {topic_id: partitions for topic_id, partitions in member.assigned.items() if topic_id in wanted}
    if len(keep) == len(member.assigned) and (subscribed is not None or member.pending):
        return member
    pending = {topic_id: dict(partitions) for topic_id, partitions in member.pending.items()}
    for topic_id, partitions in member.assigned.items():
        if topic_id not in keep:
            pending.setdefault(topic_id, {}).update(partitions)
    if pending and _has_any(pending, reported):
        return replace(member, previous_epoch=member.epoch, state=UNREVOKED, assigned=keep, pending=pending)
    return replace(member, previous_epoch=member.epoch, assigned=keep)


def _has_any(partitions: Owned, reported: Reported) -> bool:
    """Whether the member still has some of these partitions, as far as it says."""
    if reported is None:
        return True
    return any(
        partition in reported[topic_id]
        for topic_id, of_topic in partitions.items()
        if topic_id in reported
        for partition in of_topic
    )
