"""What the records of a consumer group say, and what that does to its state (6.2).

`apply` is the one way in which a state changes: for a record that is on its way to the log as for one that was read
from it. So what a start finds is what there was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from ottla.broker.core.consumer_groups.assignors.spec import Target
from ottla.broker.core.consumer_groups.regexes import ResolvedRegex
from ottla.broker.core.consumer_groups.state import (
    PARTITION_BYTES,
    STABLE,
    Member,
    MemberState,
    Owned,
    State,
)
from ottla.protocol.errors import MalformedFrame

NO_EPOCH = -1
"""The epoch of a member without a current assignment, and of targets that were deleted."""


class Contradiction(MalformedFrame):
    """A record that cannot come after those before it."""


class GroupEpoch(NamedTuple):
    """Key 3: the group, its epoch, and the hash of the topics that it subscribes to."""

    epoch: int
    metadata_hash: int


class GroupGone(NamedTuple):
    """The tombstone of key 3."""


class OldMetadata(NamedTuple):
    """Key 4, of which only its tombstone is written: Kafka 4.0 kept the topics there (6.2)."""

    is_there: bool


class MemberSaid(NamedTuple):
    """Key 5: what a member says of itself. Epochs, state and partitions of ``member`` do not count."""

    member: Member


class MemberGone(NamedTuple):
    """The tombstone of key 5."""

    member_id: str


class TargetEpoch(NamedTuple):
    """Key 6: the group epoch that the targets are for, and when they were computed; `NO_EPOCH` is its tombstone."""

    epoch: int
    timestamp_ms: int


class MemberTarget(NamedTuple):
    """Key 7: what a member shall have; None is its tombstone."""

    member_id: str
    target: Target | None


class MemberCurrent(NamedTuple):
    """Key 8: how far a member is, and what it has; `NO_EPOCH` without partitions is its tombstone."""

    member_id: str
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Owned
    pending: Owned

    @classmethod
    def of(cls, member: Member) -> MemberCurrent:
        """As a member is."""
        return cls(member.member_id, member.epoch, member.previous_epoch, member.state, member.assigned, member.pending)

    @classmethod
    def gone(cls, member_id: str) -> MemberCurrent:
        """The tombstone."""
        return cls(member_id, NO_EPOCH, NO_EPOCH, STABLE, {}, {})


class RegexResolved(NamedTuple):
    """Key 16: the topics of a regex; None is its tombstone."""

    regex: str
    resolved: ResolvedRegex | None


Fact: TypeAlias = (
    GroupEpoch
    | GroupGone
    | OldMetadata
    | MemberSaid
    | MemberGone
    | TargetEpoch
    | MemberTarget
    | MemberCurrent
    | RegexResolved
)


DELETION: tuple[Fact, ...] = (TargetEpoch(NO_EPOCH, 0), OldMetadata(False), GroupGone())
"""The records that delete a group without members (6.3)."""


def apply(state: State, fact: Fact) -> None:
    """Let a state be as a record says.

    Raises:
        Contradiction: the record contradicts those before it.
    """
    _APPLY[fact.__class__](state, fact)


def is_tombstone(fact: Fact) -> bool:
    """Whether a fact is that something is no more: it makes no group, where there is none."""
    if isinstance(fact, (MemberTarget, RegexResolved)):
        return fact[1] is None
    if isinstance(fact, (TargetEpoch, MemberCurrent)):
        return fact.epoch == NO_EPOCH
    return isinstance(fact, (GroupGone, MemberGone)) or fact == OldMetadata(False)


def _group_epoch(state: State, fact: GroupEpoch) -> None:
    state.exists = True
    state.epoch, state.metadata_hash = fact


def _group_gone(state: State, fact: GroupGone) -> None:
    if not state.exists:
        return
    if state.members or state.targets or state.assignment_epoch != NO_EPOCH:
        raise Contradiction("a group is deleted that has members or targets")
    state.clear()


def _old_metadata(state: State, fact: OldMetadata) -> None:
    state.exists = state.exists or fact.is_there
    state.has_old_metadata = fact.is_there


def _member_said(state: State, fact: MemberSaid) -> None:
    state.exists = True
    said = fact.member
    before = state.members.get(said.member_id)
    if before is None:
        said = replace(said, epoch=0, previous_epoch=NO_EPOCH, state=STABLE, assigned={}, pending={})
    else:
        said = replace(
            said,
            epoch=before.epoch,
            previous_epoch=before.previous_epoch,
            state=before.state,
            assigned=before.assigned,
            pending=before.pending,
        )
    state.put(said)
    if said.instance_id is not None:
        state.static_members[said.instance_id] = said.member_id


def _member_gone(state: State, fact: MemberGone) -> None:
    member = state.members.get(fact.member_id)
    if member is None:
        return
    if member.epoch != NO_EPOCH or fact.member_id in state.targets:
        raise Contradiction(f"member {fact.member_id} is deleted and still has an epoch or a target")
    state.remove(member)


def _target_epoch(state: State, fact: TargetEpoch) -> None:
    if fact.epoch == NO_EPOCH:
        if not state.exists:
            return
        if state.targets:
            raise Contradiction("the epoch of targets is deleted and there are targets")
    state.exists = True
    state.assignment_epoch, state.assignment_timestamp_ms = fact


def _member_target(state: State, fact: MemberTarget) -> None:
    member_id, target = fact
    state.held_bytes -= _bytes_of(state.targets.pop(member_id, None))
    if target is not None:
        state.exists = True
        state.targets[member_id] = target
        state.held_bytes += _bytes_of(target)


def _bytes_of(target: Target | None) -> int:
    return PARTITION_BYTES * sum(map(len, target.values())) if target else 0


def _member_current(state: State, fact: MemberCurrent) -> None:
    member_id = fact.member_id
    before = state.members.get(member_id)
    if before is None:
        if is_tombstone(fact):
            return
        before = Member(member_id)
    state.exists = True
    _, epoch, previous_epoch, standing, assigned, pending = fact
    _give_up(state, before.assigned, before.epoch)
    _give_up(state, before.pending, before.epoch)
    _take(state, assigned, epoch)
    _take(state, pending, epoch)
    state.put(
        replace(before, epoch=epoch, previous_epoch=previous_epoch, state=standing, assigned=assigned, pending=pending),
        is_step=True,
    )


def _give_up(state: State, owned: Owned, epoch: int) -> None:
    """A member does not have partitions any more.

    A log that was compacted may lack that it gave some up before another took them. The epoch tells (R5.7).
    """
    for topic_id, partitions in owned.items():
        epochs = state.owner_epochs.get(topic_id)
        if epochs is None:
            continue
        for partition in partitions:
            if epochs.get(partition) == epoch:
                del epochs[partition]
        if not epochs:
            del state.owner_epochs[topic_id]


def _take(state: State, owned: Owned, epoch: int) -> None:
    for topic_id, partitions in owned.items():
        epochs = state.owner_epochs.setdefault(topic_id, {})
        for partition in partitions:
            known = epochs.get(partition)
            if known is not None and known >= epoch:
                raise Contradiction(f"{topic_id}-{partition} is taken at epoch {epoch} and owned at epoch {known}")
            epochs[partition] = epoch


def _regex_resolved(state: State, fact: RegexResolved) -> None:
    regex, resolved = fact
    before = state.resolved.pop(regex, None)
    if before is not None:
        state.subscriptions.remove_resolved(before.topics)
    if resolved is not None:
        state.exists = True
        state.resolved[regex] = resolved
        state.subscriptions.add_resolved(resolved.topics)


_APPLY: dict[type[Any], Callable[[State, Any], None]] = {
    GroupEpoch: _group_epoch,
    GroupGone: _group_gone,
    OldMetadata: _old_metadata,
    MemberSaid: _member_said,
    MemberGone: _member_gone,
    TargetEpoch: _target_epoch,
    MemberTarget: _member_target,
    MemberCurrent: _member_current,
    RegexResolved: _regex_resolved,
}


def facts_of(state: State) -> list[Fact]:
    """What records say a state again, and nothing more."""
    facts: list[Fact] = [GroupEpoch(state.epoch, state.metadata_hash)]
    if state.has_old_metadata:
        facts.append(OldMetadata(True))
    facts.extend(map(MemberSaid, state.members.values()))
    facts.append(TargetEpoch(state.assignment_epoch, state.assignment_timestamp_ms))
    facts.extend(MemberTarget(member_id, target) for member_id, target in state.targets.items())
    facts.extend(map(MemberCurrent.of, state.members.values()))
    facts.extend(RegexResolved(regex, resolved) for regex, resolved in state.resolved.items())
    return facts
