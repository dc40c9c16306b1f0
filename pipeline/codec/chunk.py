"""The records that a walk over a log's bytes finds, as columns of numbers over one buffer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

PADDING = 32
"""Zero bytes behind the data of a chunk: a number can be read at the end of anything."""
_PER_RECORD = ("offsets", "timestamps", "append_time", "key_at", "key_size", "value_at", "value_size")


class Aborted(NamedTuple):
    """A transaction of a producer in one partition that was aborted (KIP-98).

    Fetch names the first two; without ``last_offset``, that of the marker, it ends at the producer's next marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int | None = None


class Damage(NamedTuple):
    """Bytes of a log that cannot be read.

    Attributes:
        offset: where: the base offset that the batch claims, never below the offset that the walk began at.
        reason: what is wrong, in words.
        next_offset: where reading goes on behind it; None if it cannot, since nobody knows where the next batch begins
            (or because the format is older than Kafka 0.11's).
    """

    offset: int
    reason: str
    next_offset: int | None

    @property
    def is_fatal(self) -> bool:
        """Nothing behind it can be reached by walking on."""
        return self.next_offset is None


class Headers(NamedTuple):
    """Headers of all records of a chunk, in order. Sizes are in bytes; -1 is a value of null."""

    counts: Longs
    """The number of headers of each record."""
    key_at: Longs
    key_size: Longs
    value_at: Longs
    value_size: Longs


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records of one partition, in the order of their offsets, which may have holes.

    Attributes:
        data: the bytes that the columns point into, with `PADDING` behind; its own copy.
        offsets: absolute.
        timestamps: Unix milliseconds as in the log: of the producer, or of the broker where ``append_time``. -1: none.
        append_time: whether each record's time is LogAppendTime (KIP-32).
        key_at, key_size, value_at, value_size: where keys and values lie in ``data``; a size of -1 is null.
        headers: None if no record of the chunk has any.
        next_offset: where the next walk has to start: behind the last whole batch, at least ``start_offset``. It may
            lie behind ``end_offset``.
        consumed: bytes of the buffer that were walked over: the next batch begins there.
        partial_size: how large the batch is that the buffer ends within, as its header says; 0 if it ends between two
            batches or within a header. What is behind ``consumed`` has to be read again with more bytes behind it.
        damage: what could not be read, in order. After a fatal one the walk ended, and ``next_offset`` is its offset.
        aborted: transactions of those given to the walk that have not ended in it: for the next walk in the same bytes.
    """

    topic: str
    partition: int
    data: Bytes
    offsets: Longs
    timestamps: Longs
    append_time: Mask
    key_at: Longs
    key_size: Longs
    value_at: Longs
    value_size: Longs
    headers: Headers | None
    next_offset: int
    consumed: int
    partial_size: int = 0
    damage: tuple[Damage, ...] = ()
    aborted: tuple[Aborted, ...] = ()

    def __len__(self) -> int:
        return len(self.offsets)

    def key(self, row: int) -> bytes | None:
        """The key of one record."""
        return self._field(self.key_at, self.key_size, row)

    def value(self, row: int) -> bytes | None:
        """The value of one record."""
        return self._field(self.value_at, self.value_size, row)

    def _field(self, at: Longs, sizes: Longs, row: int) -> bytes | None:
        size, start = int(sizes[row]), int(at[row])
        return None if size < 0 else self.data[start : start + size].tobytes()

    def take(self, rows: Any) -> Chunk:
        """The same with some records only, and without headers and damage; ``rows`` is a mask or their numbers."""
        places = {name: getattr(self, name)[rows] for name in _PER_RECORD}
        return replace(self, headers=None, damage=(), aborted=(), **places)

    def only(self, mask: Mask) -> Chunk:
        """The same with the records of a mask; itself if these are all."""
        return self if mask.all() else self.take(mask)
