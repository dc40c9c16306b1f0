"""Quarantine: records of an unknown type or version, or damaged, kept with the reason so that nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from ottla.pipeline import tables
from ottla.pipeline.codec import columns, commits, consumer_groups, events, groups
from ottla.pipeline.codec.chunk import Chunk, Longs, Mask
from ottla.pipeline.codec.numbers import integers
from ottla.pipeline.codec.scalar import Unreadable, key_of, whole_value
from ottla.protocol.internal_topics import GROUP_EVENTS_TOPIC
from ottla.protocol.offsets_topic import GroupKey, GroupValue, OffsetValue

_OFFSET_TYPES = (0, 1)
_GROUP_TYPE = 2
_CONSUMER_GROUP_TYPES = (*range(3, 9), 16)


def _types(chunk: Chunk) -> Longs:
    """The type that each key begins with; -1 without one."""
    return np.where(chunk.key_size >= 2, integers(chunk.data, "i2", chunk.key_at), -1)


def is_offset(chunk: Chunk) -> Mask:
    """Tell which records are of committed offsets, by their keys."""
    types = _types(chunk)
    mask: Mask = (types == _OFFSET_TYPES[0]) | (types == _OFFSET_TYPES[1])
    return mask


def is_group(chunk: Chunk) -> Mask:
    """Tell which records are of classic groups, by their keys."""
    mask: Mask = _types(chunk) == _GROUP_TYPE
    return mask


def is_consumer_group(chunk: Chunk) -> Mask:
    """Tell which records are of groups of the ``consumer`` protocol, by their keys."""
    return np.isin(_types(chunk), _CONSUMER_GROUP_TYPES)


def rows(chunk: Chunk) -> pa.RecordBatch:
    """The rows of ``quarantine``: records that no table takes, and batches that cannot be read."""
    if chunk.topic == GROUP_EVENTS_TOPIC:
        bad = np.ones(len(chunk), np.bool_)
        bad[events.read(chunk)[0]] = False
        why: Callable[[Chunk, int], str | None] = reason_of_event
    else:
        bad, why = _left_over(chunk), reason
    numbers = np.flatnonzero(bad)
    some = chunk.take(numbers)
    errors = [why(some, row) or "not readable" for row in range(len(some))]
    batch = pa.RecordBatch.from_arrays(
        [
            *columns.log_place(some),
            pa.array(errors, pa.string()),
            columns.binary(some.data, some.key_at, some.key_size),
            columns.binary(some.data, some.value_at, some.value_size),
        ],
        schema=tables.QUARANTINE.arrow(whole=False),
    )
    return _with_damage(batch, chunk)


def _left_over(chunk: Chunk) -> Mask:
    left = np.ones(len(chunk), np.bool_)
    offsets = np.flatnonzero(is_offset(chunk))
    left[offsets[commits.read(chunk.take(offsets)).rows]] = False
    generations = np.flatnonzero(is_group(chunk))
    left[generations[groups.read(chunk.take(generations))[0]]] = False
    changes = np.flatnonzero(is_consumer_group(chunk))
    left[changes[consumer_groups.read(chunk.take(changes))[0]]] = False
    return left


def reason(chunk: Chunk, row: int) -> str | None:
    """Why a record of ``__consumer_offsets`` cannot be read; None if it can."""
    try:
        if is_consumer_group(chunk.take(np.array([row])))[0]:
            consumer_groups.change(chunk.key(row), chunk.value(row))
            return None
        key, value = key_of(chunk.key(row)), chunk.value(row)
        if value is not None:
            whole_value(GroupValue if isinstance(key, GroupKey) else OffsetValue, value)
    except Unreadable as error:
        return str(error)
    return None


def reason_of_event(chunk: Chunk, row: int) -> str | None:
    """Why an event cannot be read; None if it can."""
    try:
        events.event(chunk.value(row))
    except Unreadable as error:
        return str(error)
    return None


def _with_damage(batch: pa.RecordBatch, chunk: Chunk) -> pa.RecordBatch:
    """Add rows for damaged batches, in the order of offsets."""
    if not chunk.damage:
        return batch
    damaged = [
        {"log_partition": chunk.partition, "log_offset": one.offset, "error": f"damaged batch: {one.reason}"}
        for one in chunk.damage
    ]
    both = pa.concat_batches([batch, pa.RecordBatch.from_pylist(damaged, schema=batch.schema)])
    return both.sort_by("log_offset")
