"""Finding the batches in the bytes of a log: their headers as columns, and which of them are damaged."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
from crc32c import crc32c

from ottla.pipeline.codec.chunk import PADDING, Bytes, Damage, Longs
from ottla.pipeline.codec.numbers import integers
from ottla.protocol.batch import CODEC_MASK
from ottla.protocol.compression import Codec
from ottla.protocol.records import (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    BATCH_LENGTH_AT,
    HEADER_SIZE,
    LAST_OFFSET_DELTA_AT,
    LOG_OVERHEAD,
    MAGIC,
    MAX_TIMESTAMP_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
)

MAX_BUFFER_BYTES = 1 << 30
"""More of a buffer is not looked at: places in a chunk have to fit 31 bits, as Arrow wants them."""
MAX_BATCH_RECORDS = 1 << 22
"""Nobody writes so many into a batch, and seven bytes of each, compressed away, become columns of some two hundred."""
NO_END = (1 << 63) - 1

_FRAME = struct.Struct(">qi4xbI").unpack_from  # base offset, length, magic, CRC


@dataclass(slots=True)
class Frames:
    """The places of batches, the fields of their headers, and how far they go.

    Attributes:
        data: a copy of the batches, with padding.
        next_offset: behind the last of them, at least the offset that was asked for.
        reasons: what is wrong with some of them, by their number.
        fatal: what stands behind them and is no batch, if it is so.
    """

    data: Bytes
    start_offset: int
    at: Longs
    end: Longs
    base_offset: Longs
    last_offset: Longs
    count: Longs
    attributes: Longs
    base_timestamp: Longs
    max_timestamp: Longs
    producer_id: Longs
    next_offset: int
    consumed: int
    partial_size: int
    reasons: dict[int, str] = field(default_factory=dict)
    fatal: Damage | None = None

    def __len__(self) -> int:
        return len(self.at)

    def cut(self, count: int) -> None:
        """Keep the first ones only, as if the buffer ended behind them."""
        self.consumed, self.partial_size, self.fatal = int(self.at[count]), 0, None
        for name in ("at", "end", "base_offset", "last_offset", "count", "attributes", "base_timestamp"):
            setattr(self, name, getattr(self, name)[:count])
        self.max_timestamp, self.producer_id = self.max_timestamp[:count], self.producer_id[:count]
        self.reasons = {index: reason for index, reason in self.reasons.items() if index < count}
        self.next_offset = self._behind(count - 1) if count else self.start_offset

    def _behind(self, index: int) -> int:
        """The offset to go on at behind a batch.

        If that is damaged it may lie in the header, which then counts for something only if it agrees with itself;
        otherwise what follows tells, or it goes on one offset later.
        """
        base, last = int(self.base_offset[index]), int(self.last_offset[index])
        if index in self.reasons and self.count[index] != last - base + 1:
            follows = index + 1 < len(self) and index + 1 not in self.reasons
            last = int(self.base_offset[index + 1]) - 1 if follows else base
            return max(last, self.start_offset) + 1
        return max(last + 1, self.start_offset)

    def damage(self) -> tuple[Damage, ...]:
        """The damage in batches that reach to the offset asked for, and behind them."""
        found = []
        for index in sorted(self.reasons):
            behind = self._behind(index)
            if behind > self.start_offset:
                offset = max(int(self.base_offset[index]), self.start_offset)
                found.append(Damage(offset, self.reasons[index], behind))
        return (*found, self.fatal) if self.fatal else tuple(found)


@dataclass(slots=True)
class _Hop:
    """The result of hopping from batch to batch."""

    at: list[int] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)
    bad_crcs: list[int] = field(default_factory=list)
    consumed: int = 0
    partial_size: int = 0
    beyond: bool = False
    """There is a batch that begins at the end asked for or later."""
    wrong: str = ""


def _hop(view: memoryview, end_offset: int, check_crcs: bool) -> _Hop:
    found = _Hop()
    places, bases = found.at, found.bases
    at, size = 0, len(view)
    last = size - HEADER_SIZE
    while at <= last:
        base, length, magic, crc = _FRAME(view, at)
        end = at + LOG_OVERHEAD + length
        if magic != MAGIC or length < HEADER_SIZE - LOG_OVERHEAD or base < 0:
            found.wrong = _what_is_wrong(view[at : at + HEADER_SIZE], base, length, magic)
            break
        if base >= end_offset:
            found.beyond = True
            break
        if end > size:
            found.partial_size = end - at
            if found.partial_size > MAX_BUFFER_BYTES:
                found.wrong = f"a batch of {found.partial_size} bytes; more than {MAX_BUFFER_BYTES} are not read"
            break
        if check_crcs and crc32c(view[at + ATTRIBUTES_AT : end]) != crc:
            found.bad_crcs.append(len(places))
        places.append(at)
        bases.append(base)
        at = end
    found.consumed = at
    return found


def _what_is_wrong(header: memoryview, base: int, length: int, magic: int) -> str:
    """The fault in words; empty for zeros, which stand behind the last batch of a preallocated segment."""
    if not any(header):
        return ""
    if magic in (0, 1):
        return f"messages of magic {magic}, the format before Kafka 0.11, are not read"
    if magic != MAGIC:
        return f"no record batch: magic {magic}, not {MAGIC}"
    if base < 0:
        return f"a batch with the base offset {base}"
    return f"a batch length of {length}, less than a header's"


def frames(view: memoryview, start_offset: int, end_offset: int, check_crcs: bool) -> Frames:
    """The batches that ``view`` begins with and that begin before ``end_offset``."""
    hop = _hop(view, end_offset, check_crcs)
    data = np.empty(hop.consumed + PADDING, np.uint8)
    data[: hop.consumed] = np.frombuffer(view[: hop.consumed], np.uint8)
    data[hop.consumed :] = 0
    at = np.array(hop.at, np.int64)
    base_offset = np.array(hop.bases, np.int64)
    delta = integers(data, "i4", at + LAST_OFFSET_DELTA_AT)
    found = Frames(
        data=data,
        start_offset=start_offset,
        at=at,
        end=at + LOG_OVERHEAD + integers(data, "i4", at + BATCH_LENGTH_AT),
        base_offset=base_offset,
        last_offset=base_offset + delta,
        count=integers(data, "i4", at + RECORD_COUNT_AT),
        attributes=integers(data, "i2", at + ATTRIBUTES_AT),
        base_timestamp=integers(data, "i8", at + BASE_TIMESTAMP_AT),
        max_timestamp=integers(data, "i8", at + MAX_TIMESTAMP_AT),
        producer_id=integers(data, "i8", at + PRODUCER_ID_AT),
        next_offset=start_offset,
        consumed=hop.consumed,
        partial_size=hop.partial_size,
    )
    found.reasons = _reasons(found, hop)
    if len(found):
        found.next_offset = found._behind(len(found) - 1)
    if hop.beyond:
        found.next_offset = max(found.next_offset, end_offset)
    if hop.wrong:
        found.fatal = Damage(found.next_offset, hop.wrong, None)
    return found


def _reasons(found: Frames, hop: _Hop) -> dict[int, str]:
    reasons = {}
    delta = found.last_offset - found.base_offset
    impossible = (delta < 0) | (found.count < 0) | (found.count > delta + 1) | (found.last_offset < found.base_offset)
    for index in np.flatnonzero(impossible).tolist():
        reasons[index] = f"{found.count[index]} records with last offset delta {delta[index]}"
    for index in np.flatnonzero(found.count > MAX_BATCH_RECORDS).tolist():
        reasons[index] = f"{found.count[index]} records in a batch; more than {MAX_BATCH_RECORDS} are not read"
    for index in np.flatnonzero(found.attributes & CODEC_MASK > Codec.ZSTD).tolist():
        reasons[index] = f"unknown compression codec {found.attributes[index] & CODEC_MASK}"
    for index in hop.bad_crcs:
        reasons[index] = "the CRC-32C does not fit"
    # What a damaged header says of its last offset counts for nothing.
    last = found.last_offset.copy()
    last[list(reasons)] = found.base_offset[list(reasons)]
    for index in (np.flatnonzero(found.base_offset[1:] <= np.maximum.accumulate(last)[:-1]) + 1).tolist():
        reasons[index] = f"base offset {found.base_offset[index]} behind a batch that reaches further"
    return reasons
