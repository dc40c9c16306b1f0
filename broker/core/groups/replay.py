"""Rebuilding a shard from its log.

What is lost on purpose: issued ids, parked requests, a phase in progress, and every protocol of a member but the
chosen one. A group that was rebalancing comes back with its last logged generation, as Stable or Empty.
"""

from __future__ import annotations

from ottla.broker.core.groups.classic.group import Group, Recorded
from ottla.broker.core.groups.classic.member import Member
from ottla.broker.core.groups.classic.state import EMPTY, HEARTBEAT_ANSWER, STABLE
from ottla.broker.core.groups.offsets.committed import CommittedOffset, CommittedOffsets
from ottla.broker.core.groups.shard import GroupShard
from ottla.protocol.offsets_topic import CoordinatorRecord, GroupKey, GroupValue, OffsetValue, decode_key, decode_value


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
        value = decode_value(OffsetValue, record.value)
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
    shard.groups[group_id] = restore(shard, group_id, decode_value(GroupValue, value), offsets)


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
