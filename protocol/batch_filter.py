"""Taking records out of a batch that is stored: what compaction does to it (KIP-58, KIP-98, KIP-534).

What stays keeps its offset, its timestamp and its bytes, and the batch its base offset, its last offset, its sequence
number and its codec, whatever is taken out: readers find gaps, and nothing else has changed.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ottla.protocol.batch import (
    CODEC_MASK,
    LEAST_TIMESTAMP,
    MOST_TIMESTAMP,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
    TimestampType,
)
from ottla.protocol.batch_builder import sealed
from ottla.protocol.batch_reader import malformed
from ottla.protocol.compression import compress
from ottla.protocol.varints import encode_varint, read_varint, read_varlong

DELETE_HORIZON_BIT: Final = 0x40
"""Set where the base timestamp tells from when on tombstones and markers may go (KIP-534)."""


class StoredRecord(NamedTuple):
    """A record, its place in the records section that `stored_records` walks over, and what decides on it."""

    start: int
    rest: int
    """The position behind its timestamp."""
    end: int
    offset: int
    timestamp_ms: int
    """Its own, also where the broker's counts."""
    key: bytes | None
    is_tombstone: bool
    """It has no value."""


def delete_horizon(header: BatchHeader) -> int | None:
    """From when on (Unix ms) tombstones and markers of a batch may go; None while nobody has decided that."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON_BIT else None


def stored_records(header: BatchHeader, body: bytes) -> Iterator[StoredRecord]:
    """Walk over ``body``, the decompressed records section.

    Raises ``CorruptBatch`` in the middle of it where a record does not parse.
    """
    try:
        yield from _walk(header, body)
    except (IndexError, ValueError) as error:
        raise malformed(error) from None


def _walk(header: BatchHeader, body: bytes) -> Iterator[StoredRecord]:
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    position = 0
    for _ in range(header.record_count):
        start = position
        length, position = read_varint(body, position)
        end = position + length
        timestamp_delta, rest = read_varlong(body, position + 1)
        offset_delta, position = read_varint(body, rest)
        size, position = read_varint(body, position)
        key = None
        if size >= 0:
            key = body[position : position + size]
            position += size
        size, position = read_varint(body, position)
        if end > len(body) or position + max(size, 0) > end:
            raise ValueError(f"a record of {length} bytes has fields that do not fit into it")
        yield StoredRecord(
            start, rest, end, base_offset + offset_delta, base_timestamp + timestamp_delta, key, size < 0
        )
        position = end
    if position != len(body):
        raise ValueError(f"{len(body) - position} bytes after the last record")


def with_records(header: BatchHeader, body: bytes, kept: Sequence[StoredRecord], *, horizon_ms: int | None) -> bytes:
    """The batch of ``header`` with those of its records that are kept, at least one.

    Args:
        horizon_ms: from when on its tombstones or marker may go; None leaves that as it is. It is earlier for records
            so long before year 0 that 64 bits cannot tell how long.

    Raises:
        CorruptBatch: a record has a timestamp of more than 64 bits.
    """
    if not kept:
        raise ValueError("a batch without records is made by without_records")
    attributes, base_timestamp = header.attributes, header.base_timestamp
    times = [record.timestamp_ms for record in kept]
    oldest_ms, newest_ms = min(times), max(times)
    if not LEAST_TIMESTAMP <= oldest_ms <= newest_ms <= MOST_TIMESTAMP:
        raise CorruptBatch("a timestamp of more than 64 bits")
    if horizon_ms is None:
        records = b"".join([body[record.start : record.end] for record in kept])
    else:
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = min(horizon_ms, oldest_ms + MOST_TIMESTAMP)
        records = b"".join([_shifted(body, record, base_timestamp) for record in kept])
    max_timestamp = header.max_timestamp
    if header.timestamp_type is TimestampType.CREATE_TIME:
        max_timestamp = max(newest_ms, NO_TIMESTAMP)
    header = header._replace(
        attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=len(kept)
    )
    return sealed(header, compress(header.codec, records))


def without_records(header: BatchHeader) -> bytes:
    """The batch of ``header`` with nothing in it: it still tells its producer's last sequence number."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)
    return sealed(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")


def _shifted(body: bytes, record: StoredRecord, base_timestamp: int) -> bytes:
    """The bytes of a record whose batch has another base timestamp."""
    content = b"".join((b"\x00", encode_varint(record.timestamp_ms - base_timestamp), body[record.rest : record.end]))
    return encode_varint(len(content)) + content
