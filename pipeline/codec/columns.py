"""Arrow columns out of numbers and of places in a buffer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ottla.pipeline.codec.chunk import Bytes, Chunk, Longs, Mask
from ottla.pipeline.codec.numbers import little

TIMESTAMP = pa.timestamp("us", tz="UTC")
EARLIEST_MS, LATEST_MS = -62_135_596_800_000, 253_402_300_799_999
"""The years 1 to 9999, which Spark and Python can both say."""

_INLINE_BYTES = 12
_MASKS_4 = np.array([(1 << 8 * size) - 1 for size in range(5)], np.uint32)
_MASKS_8 = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)


class NotText(ValueError):
    """Some values of a column are not UTF-8; ``rows`` are their numbers."""

    def __init__(self, rows: Longs) -> None:
        super().__init__(f"{len(rows)} values are not UTF-8")
        self.rows = rows


def bits(mask: Mask | None) -> pa.Buffer | None:
    """A bitmap of Arrow's: of what is valid, or of booleans."""
    return None if mask is None else pa.py_buffer(np.packbits(mask, bitorder="little"))


def _nulls(valid: Mask | None) -> Mask | None:
    return None if valid is None or valid.all() else valid


def binary(data: Bytes, at: Longs, size: Longs) -> pa.Array:
    """The bytes at places in ``data``; a negative size is null.

    They are put together as views, which are numbers, and Arrow copies what they show.
    """
    count = len(at)
    valid = _nulls(size >= 0)
    if valid is not None:
        at, size = np.where(valid, at, 0), np.where(valid, size, 0)
    views = np.empty((count, 4), np.uint32)
    views[:, 0] = size
    views[:, 1] = little(data, "u4", at) & _MASKS_4[np.minimum(size, 4)]
    # The other half is the rest of a short value, or the number of a buffer, 0, and the place in it.
    inline = little(data, "u8", at + 4 * (size > 0)) & _MASKS_8[np.clip(size - 4, 0, 8)]
    views.view(np.uint64)[:, 1] = np.where(size <= _INLINE_BYTES, inline, at.astype(np.uint64) << np.uint64(32))
    buffers = [bits(valid), pa.py_buffer(views), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary_view(), count, buffers).cast(pa.binary())


def strings(data: Bytes, at: Longs, size: Longs) -> pa.Array:
    """The same as text.

    Raises:
        NotText: some of it is not UTF-8.
    """
    raw = binary(data, at, size)
    content = raw.buffers()[2]
    if content is None or not (np.frombuffer(content, np.uint8) & 0x80).any():
        return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        raise NotText(np.array([row for row, one in enumerate(raw) if not _is_text(one.as_py())], np.int64)) from None


def _is_text(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def numbers(kind: pa.DataType, values: Longs, valid: Mask | None = None) -> pa.Array:
    """Integers of a type of Arrow's, null where they are not valid."""
    content = np.ascontiguousarray(values, kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(content), [bits(_nulls(valid)), pa.py_buffer(content)])


def times(ms: Longs, valid: Mask | None = None, *, unknown: bool = True) -> pa.Array:
    """Timestamps from Unix milliseconds, null where they are not valid or in no year from 1 to 9999.

    Args:
        ms: Unix milliseconds.
        valid: those that are.
        unknown: -1 is the absence of a time, so null. Spark's own Kafka connector takes it for a time.
    """
    known = (ms >= EARLIEST_MS) & (ms <= LATEST_MS)
    if unknown:
        known &= ms != -1
    if valid is not None:
        known &= valid
    buffers = [bits(_nulls(known)), pa.py_buffer(ms * 1000)]
    return pa.Array.from_buffers(TIMESTAMP, len(ms), buffers)


def log_place(chunk: Chunk) -> list[pa.Array]:
    """``log_partition``, ``log_offset`` and ``log_ts`` of the records of a chunk."""
    return [
        pa.repeat(pa.scalar(chunk.partition, pa.int32()), len(chunk)),
        numbers(pa.int64(), chunk.offsets),
        times(chunk.timestamps),
    ]
