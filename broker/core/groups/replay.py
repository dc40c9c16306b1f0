"""Rebuilding a shard from its log.

What is lost on purpose: issued ids, parked requests, a phase in progress, and every protocol of a member but the
chosen one. A group that was rebalancing comes back with its last logged generation, as Stable or Empty.

Nearly all records are offsets, and there may be millions: `replay_plain` reads these where they lie in a batch, and
leaves all others, and whatever is wrong, to `replay`.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

from ottla.broker.core.consumer_groups.facts import Contradiction, apply, is_tombstone
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.consumer_groups.records import fact_of
from ottla.broker.core.groups.classic.group import ClassicGroup, Recorded
from ottla.broker.core.groups.classic.member import Member, shared
from ottla.broker.core.groups.group import Group
from ottla.broker.core.groups.offsets.committed import CommittedOffset, CommittedOffsets
from ottla.broker.core.groups.shard import GroupShard
from ottla.protocol.consumer_group_records import decode_consumer_group_key
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.offsets_topic import (
    CoordinatorRecord,
    GroupKey,
    GroupValue,
    OffsetValue,
    RecordType,
    decode_key,
    decode_value,
)
from ottla.protocol.primitives import same_text, uuid_of
from ottla.protocol.varints import read_varint

MOST_TABLES = 16_384
"""Of so many topics of groups the tables are at hand while a partition is loaded."""

# What follows the name of the topic in a record of the usual form: the partition, the length and the version of the
# value, its fields, and the number of headers. Metadata are empty, and version 4 has the topic's id.
_OF_3, _OF_4 = Struct(">i3xqihqB"), Struct(">i3xqiBq3s16sB")
_read_3, _read_4, _BYTES_3, _BYTES_4 = _OF_3.unpack_from, _OF_4.unpack_from, _OF_3.size, _OF_4.size
_VERSION_3, _VERSION_4, _ID_ALONE = b"\x30\x00\x03", b"\x54\x00\x04", b"\x01\x00\x10"
_read_sizes, _read_size, _read_partition = Struct(">hh").unpack_from, Struct(">h").unpack_from, Struct(">i").unpack_from


def replay(shard: GroupShard, record: CoordinatorRecord, producer_id: int = -1) -> bool:
    """Apply one record of the log; False if its type is not one that is known here and it was skipped.

    Args:
        producer_id: of the transaction that the record belongs to, -1 if it counts at once.

    Raises:
        MalformedFrame: a record of a known type cannot be read.
    """
    key = decode_key(record.key)
    if key is None:
        return _replay_consumer_group(shard, record)
    if isinstance(key, GroupKey):
        _replay_group(shard, key.group_id, record.value)
    elif record.value is None:
        if (group := shard.groups.get(key.group_id)) is not None:
            group.offsets.discard(key.topic, key.partition)
    else:
        value = decode_value(OffsetValue, record.value)
        group = _group(shard, key.group_id)
        committed = _committed(value)
        if producer_id >= 0:
            shard.hold(group, producer_id, key.topic, key.partition, committed)
        else:
            group.offsets.store(key.topic, key.partition, committed)
    return True


def _committed(value: OffsetValue) -> CommittedOffset:
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        same_text(value.metadata),
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
    )


def _group(shard: GroupShard, group_id: str) -> Group:
    """A group; it comes to be where only offsets of it are known."""
    group = shard.groups.get(group_id)
    if group is None:
        group = shard.groups[group_id] = ClassicGroup(group_id, shard, CommittedOffsets(), None)
    return group


def replay_plain(shard: GroupShard, body: bytes, position: int, count: int) -> tuple[int, int]:
    """Apply the offsets that come next among the records of a batch.

    Args:
        body: the decompressed records; from the position on there are so many.

    Returns:
        The position of the first record that is something else, and how many there are from there on.
    """
    if shard.transactions:
        return position, count  # what is stored may overtake what is pending
    tables = shard.tables
    try:
        while count:
            # Length, attributes, time, place and length of the key: all but the attributes as varints, mostly short.
            length, at = body[position], position + 1
            if length > 0x7F:
                length += (body[at] - 1) << 7
                at += 1
            end = at + (length >> 1)
            at = times_at = at + 1
            while body[at] > 0x7F:
                at += 1
            if body[at + 1] > 0x7F:
                at += 1
            size, key_at = body[at + 2], at + 3
            if size > 0x7F:
                size += (body[key_at] - 1) << 7
                key_at += 1
            tail = key_at + (size >> 1) - 4
            if (length | size) & 1 or length > 0x7FFF or size > 0x7FFF or at - times_at > 5 or body[at + 1] > 0x7F:
                break  # negative, or longer than this
            rest = end - tail
            if rest == _BYTES_4 and body[tail + 4 : tail + 7] == _VERSION_4:
                partition, offset, epoch, metadata, time_ms, tag, topic_id, headers = _read_4(body, tail)
                if metadata != 1 or tag != _ID_ALONE or headers:
                    break
                committed = CommittedOffset(offset, epoch, "", time_ms, -1, uuid_of(topic_id))
            elif rest == _BYTES_3 and body[tail + 4 : tail + 7] == _VERSION_3:
                partition, offset, epoch, metadata, time_ms, headers = _read_3(body, tail)
                if metadata or headers:
                    break
                committed = CommittedOffset(offset, epoch, "", time_ms)
            else:
                (partition,) = _read_partition(body, tail)
                other = _other(body, tail + 4, end)
                if other is None:
                    break
                committed = other
            name = body[key_at:tail]
            table = tables.get(name) or _table(shard, name)  # an empty one may be given up
            if table is None:
                break
            table[partition] = committed
            position = end
            count -= 1
    except (IndexError, ValueError, StructError):
        pass  # whoever reads it next says what is wrong
    return position, count


def _other(body: bytes, position: int, end: int) -> CommittedOffset | None:
    """The offset in what follows a key, whatever its version; None if it is none."""
    size, at = read_varint(body, position)
    if size < 0 or at + size + 1 != end or body[at + size]:
        return None  # a tombstone, or a record with headers
    try:
        return _committed(decode_value(OffsetValue, body[at : at + size]))
    except MalformedFrame:
        return None


def _table(shard: GroupShard, name: bytes) -> dict[int, CommittedOffset] | None:
    """The offsets of a topic of a group, by the key of one of them without the partition; None if it is another key."""
    try:
        kind, size = _read_sizes(name, 0)
        (topic_size,) = _read_size(name, 4 + size)
        if kind != RecordType.OFFSET or size < 0 or len(name) != 6 + size + topic_size:
            return None
        group_id, topic = name[4 : 4 + size].decode(), name[6 + size :].decode()
    except (StructError, UnicodeDecodeError):
        return None
    if len(shard.tables) >= MOST_TABLES:
        shard.tables.clear()
    table = shard.tables[name] = _group(shard, group_id).offsets.table(topic)
    return table


def _replay_consumer_group(shard: GroupShard, record: CoordinatorRecord) -> bool:
    key = decode_consumer_group_key(record.key)
    if key is None:
        return False
    fact = fact_of(key, record.value)
    group = shard.groups.get(key.group_id)
    if not isinstance(group, ConsumerGroup):
        if is_tombstone(fact):
            return True
        if isinstance(group, ClassicGroup) and not group.is_simple:
            raise Contradiction(f"group {key.group_id} is a classic group and was not deleted")
        offsets = CommittedOffsets() if group is None else group.offsets
        group = shard.groups[key.group_id] = ConsumerGroup(key.group_id, shard, offsets)
    apply(group.state, fact)
    if not group.state.exists:
        del shard.groups[key.group_id]
        if group.offsets:
            _group(shard, key.group_id).offsets = group.offsets
    return True


def _replay_group(shard: GroupShard, group_id: str, value: bytes | None) -> None:
    before = shard.groups.get(group_id)
    if value is None:
        shard.groups.pop(group_id, None)
        if before is not None and before.offsets:
            # What is left of a deletion that half failed. Compaction may have dropped the tombstone, so it must not
            # matter whether it is read.
            shard.groups[group_id] = ClassicGroup(group_id, shard, before.offsets, None)
        return
    offsets = CommittedOffsets() if before is None else before.offsets
    shard.groups[group_id] = restore(shard, group_id, decode_value(GroupValue, value), offsets)


def restore(shard: GroupShard, group_id: str, value: GroupValue, offsets: CommittedOffsets) -> ClassicGroup:
    """The group that a record describes."""
    timestamp = value.current_state_timestamp
    group = ClassicGroup(group_id, shard, offsets, None if timestamp == -1 else timestamp)
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
                protocols=shared([(value.protocol or "", bytes(stored.subscription))]),
                assignment=bytes(stored.assignment),
            )
        )
    group.begin_with(value.generation, value.protocol_type or None, value.protocol)
    group.leader_id = value.leader
    group.recorded = Recorded.CURRENT
    return group
