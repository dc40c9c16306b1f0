"""What the log must be able to rebuild of a live coordinator."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.state import State
from ottla.broker.core.groups.classic.group import ClassicGroup, Recorded
from ottla.broker.core.groups.classic.state import EMPTY, STABLE
from ottla.broker.core.groups.group import Group
from ottla.broker.core.groups.machine import Machine
from ottla.broker.core.groups.offsets.committed import CommittedOffset
from ottla.broker.core.groups.records import group_record
from ottla.broker.core.transactions.coordinator import TransactionCoordinator
from ottla.broker.core.transactions.transaction import Snapshot
from ottla.protocol.offsets_topic import GroupValue, decode_value
from ottla.protocol.transaction_log import NO_PRODUCER_EPOCH


@dataclass(slots=True)
class GroupFacts:
    """The durable state of a group.

    Attributes:
        generation: the record of a classic group, None if there is none. The time at which a generation with members
            was formed is left out: memory has a later one, and nothing depends on it. Of a consumer group all that its
            records say.
        is_settled: whether memory claims to have what the log has. While a rebalance runs, or after a failed write,
            memory is ahead of the log and ``generation`` means nothing.
        offsets: topic and partition → offset.
        pending: producer id, topic and partition → the offset of an open transaction; None if it was overtaken.
    """

    generation: GroupValue | dict[str, Any] | None
    is_settled: bool
    offsets: dict[tuple[str, int], CommittedOffset]
    pending: dict[tuple[int, str, int], CommittedOffset | None] = field(default_factory=dict)


def _facts(group: Group) -> GroupFacts:
    """The durable state of one group."""
    value: GroupValue | dict[str, Any] | None = None
    is_settled = True
    if isinstance(group, ConsumerGroup):
        value = state_facts(group.durable) if group.durable.exists else None
    elif isinstance(group, ClassicGroup):
        value, is_settled = _record(group)
    return GroupFacts(
        generation=value,
        is_settled=is_settled,
        offsets={(topic, partition): committed for topic, partition, committed in group.offsets.items()},
        pending={
            (producer_id, topic, partition): pending.committed
            for producer_id, table in group.offsets.pending.items()
            for (topic, partition), pending in table.items()
        },
    )


def state_facts(state: State) -> dict[str, Any]:
    """All that there is to a state of a consumer group, in a form in which order does not matter."""
    counts = state.subscriptions
    return {
        "epoch": state.epoch,
        "metadata_hash": state.metadata_hash,
        "assignment_epoch": state.assignment_epoch,
        "assignment_timestamp_ms": state.assignment_timestamp_ms,
        "members": state.members,
        "static_members": state.static_members,
        "targets": {
            member_id: {topic_id: list(partitions) for topic_id, partitions in target.items()}
            for member_id, target in state.targets.items()
        },
        "owner_epochs": state.owner_epochs,
        "resolved": state.resolved,
        "has_old_metadata": state.has_old_metadata,
        "subscriptions": (counts.by_name, counts.regexes, counts.by_regex),
        "group_state": state.group_state,
        "held_bytes": state.held_bytes,
    }


def _record(group: ClassicGroup) -> tuple[GroupValue | None, bool]:
    """The record of a classic group, and whether memory claims to have what the log has."""
    value = None
    if group.recorded is not Recorded.NOTHING:
        value = decode_value(GroupValue, group_record(group).value or b"")
        if group.members:
            value = replace(value, current_state_timestamp=-1)
    return value, _is_settled(group) or (group.recorded is Recorded.NOTHING and not group.group_writes)


def _is_settled(group: ClassicGroup) -> bool:
    """Tell whether the log must say of the group exactly what memory says."""
    return group.state in (STABLE, EMPTY) and group.recorded is Recorded.CURRENT and not group.group_writes


def durable_state(m: Machine) -> dict[str, GroupFacts]:
    """The state that a coordinator must arrive at when it replays the log.

    Groups that have neither a record nor an offset are left out: nothing of them is durable.
    """
    facts = {group_id: _facts(group) for group_id, group in m.groups.items()}
    return {
        group_id: fact
        for group_id, fact in facts.items()
        if fact.offsets or fact.pending or fact.generation is not None or not fact.is_settled
    }


def differences(live: dict[str, GroupFacts], replayed: dict[str, GroupFacts]) -> list[str]:
    """Where a replayed coordinator has not arrived at what the live one says is durable.

    Unsettled groups are held to their offsets only. Empty if all is well.
    """
    found = []
    nothing = GroupFacts(None, True, {})
    for group_id in dict.fromkeys([*live, *replayed]):
        ours, theirs = live.get(group_id, nothing), replayed.get(group_id, nothing)
        if ours.offsets != theirs.offsets:
            found.append(f"{group_id}: offsets {ours.offsets} but the log says {theirs.offsets}")
        if ours.pending != theirs.pending:
            found.append(f"{group_id}: pending {ours.pending} but the log says {theirs.pending}")
        if ours.is_settled and ours.generation != theirs.generation:
            found.append(f"{group_id}: {ours.generation} but the log says {theirs.generation}")
    return found


def durable_transactions(coordinator: TransactionCoordinator) -> dict[str, Snapshot]:
    """The state that a coordinator must arrive at when it replays the log, but for ``last_producer_epoch``."""
    return {
        entry.transactional_id: entry.current
        for shard in coordinator.shards
        for entry in shard.entries.values()
        if entry.current.producer_epoch != NO_PRODUCER_EPOCH
    }
