"""Rebuilding a shard from its log, and what of a live one the log must be able to rebuild.

What is lost on purpose: issued ids, parked requests, a phase in progress, and every protocol of a member but the
chosen one. A group that was rebalancing comes back with its last logged generation, as Stable or Empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ottla.broker.core.groups.classic.group import Group, Recorded
from ottla.broker.core.groups.classic.member import Member
from ottla.broker.core.groups.classic.state import EMPTY, HEARTBEAT_ANSWER, STABLE
from ottla.broker.core.groups.committed import CommittedOffset, CommittedOffsets
from ottla.broker.core.groups.machine import Machine
from ottla.broker.core.groups.records import group_value
from ottla.broker.core.groups.shard import GroupShard
from ottla.protocol.offsets_topic import (
    CoordinatorRecord,
    GroupKey,
    GroupValue,
    decode_group_value,
    decode_key,
    decode_offset_value,
)


def replay(shard: GroupShard, record: CoordinatorRecord, producer_id: int = -1) -> bool:
    """Apply one record of the log; False if its type is not one of classic groups and it was skipped.

    Args:
        producer_id: of the transaction that the record belongs to, -1 if it counts at once.

    Raises:
        MalformedFrame: a record of a known type cannot be read.
    """
    key = decode_key(record.key)
    if key is None:
        return False
    if isinstance(key, GroupKey):
        _replay_group(shard, key.group_id, record.value)
    elif record.value is None:
        if (group := shard.groups.get(key.group_id)) is not None:
            group.offsets.discard(key.topic, key.partition)
    else:
        value = decode_offset_value(record.value)
        group = shard.groups.get(key.group_id)
        if group is None:
            group = shard.groups[key.group_id] = Group(key.group_id, shard, CommittedOffsets(), None)
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )
        if producer_id >= 0:
            shard.hold(group, producer_id, key.topic, key.partition, committed)
        else:
            group.offsets.store(key.topic, key.partition, committed)
    return True


def _replay_group(shard: GroupShard, group_id: str, value: bytes | None) -> None:
    before = shard.groups.get(group_id)
    if value is None:
        shard.groups.pop(group_id, None)
        if before is not None and before.offsets:
            # What is left of a deletion that half failed. Compaction may have dropped the tombstone, so it must not
            # matter whether it is read.
            shard.groups[group_id] = Group(group_id, shard, before.offsets, None)
        return
    offsets = CommittedOffsets() if before is None else before.offsets
    shard.groups[group_id] = restore(shard, group_id, decode_group_value(value), offsets)


def restore(shard: GroupShard, group_id: str, value: GroupValue, offsets: CommittedOffsets) -> Group:
    """The group that a record describes."""
    timestamp = value.current_state_timestamp
    group = Group(group_id, shard, offsets, None if timestamp == -1 else timestamp)
    for stored in value.members:
        rebalance_timeout = stored.rebalance_timeout
        group.add(
            Member(
                stored.member_id,
                group_instance_id=stored.group_instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                rebalance_timeout_ms=stored.session_timeout if rebalance_timeout == -1 else rebalance_timeout,
                session_timeout_ms=stored.session_timeout,
                protocol_type=value.protocol_type or "",
                protocols=[(value.protocol or "", bytes(stored.subscription))],
                assignment=bytes(stored.assignment),
            )
        )
    group.state = STABLE if group.members else EMPTY
    group.heartbeat_answer = HEARTBEAT_ANSWER[group.state]
    group.generation = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.leader_id = value.leader
    group.recorded = Recorded.CURRENT
    group.recompute_topics()
    return group


@dataclass(slots=True)
class GroupFacts:
    """The durable state of a group.

    Attributes:
        generation: the group's record, None if there is none. The time at which a generation with members was formed
            is left out: memory has a later one, and nothing depends on it.
        is_settled: whether memory claims to have what the log has. While a rebalance runs, or after a failed write,
            memory is ahead of the log and ``generation`` means nothing.
        offsets: topic and partition → offset.
        pending: producer id, topic and partition → the offset of an open transaction; None if it was overtaken.
    """

    generation: GroupValue | None
    is_settled: bool
    offsets: dict[tuple[str, int], CommittedOffset]
    pending: dict[tuple[int, str, int], CommittedOffset | None] = field(default_factory=dict)


def group_facts(group: Group) -> GroupFacts:
    """The durable state of one group."""
    value = None
    if group.recorded is not Recorded.NOTHING:
        value = group_value(group)
        if group.members:
            value = replace(value, current_state_timestamp=-1)
    return GroupFacts(
        generation=value,
        is_settled=group.is_settled or (group.recorded is Recorded.NOTHING and not group.group_writes),
        offsets={(topic, partition): committed for topic, partition, committed in group.offsets.items()},
        pending={
            (producer_id, topic, partition): pending.committed
            for producer_id, table in group.offsets.pending.items()
            for (topic, partition), pending in table.items()
        },
    )


def durable_state(m: Machine) -> dict[str, GroupFacts]:
    """The state that a coordinator must arrive at when it replays the log.

    Groups that have neither a record nor an offset are left out: nothing of them is durable.
    """
    facts = {group_id: group_facts(group) for group_id, group in m.groups.items()}
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
