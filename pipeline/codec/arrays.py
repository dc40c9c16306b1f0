"""Keys and values that are Arrow columns already, as a chunk: for functions over columns of somebody else's."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ottla.pipeline.codec.chunk import PADDING, Bytes, Chunk, Longs


def chunk_of(keys: pa.Array | None, values: pa.Array) -> Chunk:
    """The records with these keys and values; their offsets are their numbers, and their times are not known.

    Args:
        keys: binary, as long as ``values``; None for keys of null.
        values: binary.
    """
    count = len(values)
    pieces: list[Bytes] = []
    value_at, value_size, behind = _places(values, 0, pieces)
    if keys is None:
        key_at, key_size = np.zeros(count, np.int64), np.full(count, -1, np.int64)
    else:
        key_at, key_size, behind = _places(keys, behind, pieces)
    return Chunk(
        topic="",
        partition=0,
        data=np.concatenate([*pieces, np.zeros(PADDING, np.uint8)]),
        offsets=np.arange(count),
        timestamps=np.full(count, -1, np.int64),
        append_time=np.zeros(count, np.bool_),
        key_at=key_at,
        key_size=key_size,
        value_at=value_at,
        value_size=value_size,
        headers=None,
        next_offset=count,
        consumed=behind,
    )


def _places(column: pa.Array, base: int, pieces: list[Bytes]) -> tuple[Longs, Longs, int]:
    """Places and sizes of a column's values once its bytes stand at ``base``, and the end of these bytes."""
    column = column.cast(pa.binary())
    if not len(column):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), base
    _, ends, content = column.buffers()
    bounds = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    first, last = int(bounds[0]), int(bounds[-1])
    if last > first:
        pieces.append(np.frombuffer(content, np.uint8)[first:last])
    size = np.diff(bounds)
    if column.null_count:
        size[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return bounds[:-1] - first + base, size, base + last - first
