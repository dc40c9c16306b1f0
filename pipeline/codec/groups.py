"""Generations of classic groups, key 2 and values 0 to 4.

They are one in hundreds of records, so they are read one at a time; what becomes of them is put together in columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ottla.pipeline import tables
from ottla.pipeline.codec import columns
from ottla.pipeline.codec.chunk import Chunk
from ottla.pipeline.codec.scalar import Unreadable, key_of, whole_value
from ottla.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    ConsumerTopicPartitions,
    decode_assignment,
    decode_subscription,
    embedded_version,
)
from ottla.protocol.errors import MalformedFrame
from ottla.protocol.offsets_topic import GroupKey, GroupMemberValue, GroupValue

_REBALANCE_TIMEOUT_SINCE = 1
_MEMBERS = tables.arrow_type(tables.MEMBERS)
_OWNED = tables.arrow_type(tables.OWNED)
_TOPICS = tables.arrow_type("ARRAY<STRING>")


class Generation(NamedTuple):
    """A record that can be read; without a value it is a tombstone."""

    group_id: str
    version: int | None
    value: GroupValue | None


def read(chunk: Chunk) -> tuple[list[int], list[Generation]]:
    """Read records whose keys begin with 2: the numbers of those that can be read, and what they say."""
    rows, found = [], []
    for row in range(len(chunk)):
        try:
            key, value = key_of(chunk.key(row)), chunk.value(row)
            if not isinstance(key, GroupKey):
                continue
            decoded = None if value is None else whole_value(GroupValue, value)
        except Unreadable:
            continue
        version = None if value is None else int.from_bytes(value[:2], "big")
        rows.append(row)
        found.append(Generation(key.group_id, version, decoded))
    return rows, found


def rows(chunk: Chunk) -> pa.RecordBatch:
    """The rows of ``group_generations`` of records as `read` wants them; those that cannot be read are left out."""
    good, found = read(chunk)
    chunk = chunk.take(np.array(good, np.int64))
    return pa.RecordBatch.from_arrays(
        [*columns.log_place(chunk), *payload(found)], schema=tables.GROUP_GENERATIONS.arrow(whole=False)
    )


def payload(found: Sequence[Generation]) -> list[pa.Array]:
    """The columns of ``group_generations`` but for the first three."""
    values = [one.value for one in found]
    times = np.array([-1 if value is None else value.current_state_timestamp for value in values], np.int64)
    return [
        pa.array([one.group_id for one in found], pa.string()),
        pa.array([one.version for one in found], pa.int16()),
        pa.array([value and value.protocol_type for value in values], pa.string()),
        pa.array([None if value is None else value.generation for value in values], pa.int32()),
        pa.array([value and value.protocol for value in values], pa.string()),
        pa.array([value and value.leader for value in values], pa.string()),
        columns.times(times),
        pa.array([value is None for value in values], pa.bool_()),
        pa.array([None if value is None else len(value.members) for value in values], pa.int32()),
        _members(found),
    ]


def _members(found: Sequence[Generation]) -> pa.Array:
    members = [(one, member) for one in found if one.value for member in one.value.members]
    subscriptions = [_subscription(one, member) for one, member in members]
    only = [member for _, member in members]
    parts = [
        pa.array([member.member_id for member in only], pa.string()),
        pa.array([member.group_instance_id for member in only], pa.string()),
        pa.array([member.client_id for member in only], pa.string()),
        pa.array([member.client_host for member in only], pa.string()),
        pa.array([_rebalance_timeout(one, member) for one, member in members], pa.int32()),
        pa.array([member.session_timeout for member in only], pa.int32()),
        pa.array([one.version for one in subscriptions], pa.int16()),
        pa.array([one.topics for one in subscriptions], _TOPICS),
        _partitions([one.owned for one in subscriptions]),
        _partitions([_assigned(one, member) for one, member in members]),
    ]
    ends = np.cumsum([0, *(len(one.value.members) if one.value else 0 for one in found)], dtype=np.int32)
    valid = np.array([one.value is not None for one in found], np.bool_)
    buffers = [None if valid.all() else columns.bits(valid), pa.py_buffer(ends)]
    flat = pa.StructArray.from_arrays(parts, fields=list(_MEMBERS.value_type))
    return pa.Array.from_buffers(_MEMBERS, len(found), buffers, children=[flat])


class _Subscription(NamedTuple):
    """The subscription of a member; all None if it cannot be read."""

    version: int | None = None
    topics: list[str] | None = None
    owned: list[ConsumerTopicPartitions] | None = None


def _subscription(generation: Generation, member: GroupMemberValue) -> _Subscription:
    if not _is_consumer(generation):
        return _Subscription()
    try:
        decoded = decode_subscription(member.subscription)
        return _Subscription(embedded_version(member.subscription), decoded.topics, decoded.owned_partitions)
    except MalformedFrame:
        return _Subscription()


def _assigned(generation: Generation, member: GroupMemberValue) -> list[ConsumerTopicPartitions] | None:
    if not _is_consumer(generation):
        return None
    if not member.assignment:
        return []
    try:
        return decode_assignment(member.assignment).assigned_partitions
    except MalformedFrame:
        return None


def _is_consumer(generation: Generation) -> bool:
    return generation.value is not None and generation.value.protocol_type == PROTOCOL_TYPE


def _rebalance_timeout(generation: Generation, member: GroupMemberValue) -> int | None:
    return None if (generation.version or 0) < _REBALANCE_TIMEOUT_SINCE else member.rebalance_timeout


def _partitions(lists: Sequence[list[ConsumerTopicPartitions] | None]) -> pa.Array:
    pairs = (
        None if topics is None else [(one.topic, number) for one in topics for number in one.partitions]
        for topics in lists
    )
    return pa.array(pairs, _OWNED)
