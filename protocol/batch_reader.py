"""Reading the records of a batch, and checking those that a producer sends.

Nothing here trusts a length: counts are held against the bytes that are there before anything is allocated, varints end
after five or ten bytes, and decompression stops at a limit.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.protocol.batch import (
    HEADER_SIZE,
    BatchHeader,
    BatchTooLarge,
    CorruptBatch,
    Record,
    TimestampType,
    check_crc,
    parse_header,
)
from ottla.protocol.compression import (
    MAX_DECOMPRESSED_BYTES,
    Buffer,
    CompressionError,
    DecompressedTooLarge,
    decompress,
)
from ottla.protocol.varints import read_varint, read_varlong

# Length, attributes, timestamp delta, offset delta, key length, value length and header count, a byte each.
_MIN_RECORD_SIZE: Final = 7
_MIN_HEADER_SIZE: Final = 2
_MAX_TIMESTAMP: Final = (1 << 63) - 1


class RecordsSummary(NamedTuple):
    """What a walk over a batch's records found, without keeping them."""

    max_timestamp_ms: int
    keyless: list[int]
    """The positions of records without a key."""
    out_of_order: int | None
    """The first position whose offset delta is not its position."""
    outside_times: list[int]
    """The positions whose timestamps lie outside the range asked for."""


def decode_batch(
    data: Buffer, *, verify_crc: bool = True, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
) -> list[Record]:
    """The records of the batch that begins ``data``; what follows it is not looked at.

    Offsets are absolute, and with ``LOG_APPEND_TIME`` every timestamp is the batch's. Raises ``CorruptBatch``, or
    ``BatchTooLarge`` when the records would be larger than ``max_decompressed_bytes`` once decompressed.
    """
    header, batch = whole_batch(data)
    if verify_crc:
        check_crc(header, batch)
    body = decompressed_records(header, batch, limit=max_decompressed_bytes)
    try:
        return _decode_records(header, body)
    except (IndexError, ValueError) as error:
        raise _malformed(error) from None


def whole_batch(data: Buffer) -> tuple[BatchHeader, memoryview]:
    """The header of the batch that begins ``data``, and a view of exactly that batch."""
    header = parse_header(data)
    if header.size > len(data):
        raise CorruptBatch(f"a batch of {header.size} bytes of which {len(data)} are there")
    return header, memoryview(data)[: header.size]


def decompressed_records(header: BatchHeader, batch: Buffer, *, limit: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """The records section of ``batch``, which is exactly one batch, decompressed."""
    body = memoryview(batch)[HEADER_SIZE:]
    try:
        records = decompress(header.codec, body, limit=limit)
    except DecompressedTooLarge as error:
        raise BatchTooLarge(str(error)) from None
    except CompressionError as error:
        raise CorruptBatch(str(error)) from None
    if header.record_count * _MIN_RECORD_SIZE > len(records):
        raise CorruptBatch(f"{header.record_count} records in {len(records)} bytes")
    return records


def summarize_records(
    header: BatchHeader, body: bytes, oldest_ms: int | None = None, newest_ms: int | None = None
) -> RecordsSummary:
    """Walk over all records of ``body``, the decompressed records section, without copying any.

    Timestamps are held against ``oldest_ms`` and ``newest_ms`` when these are given. Raises ``CorruptBatch``.
    """
    try:
        return _summarize(header, body, oldest_ms, newest_ms)
    except (IndexError, ValueError) as error:
        raise _malformed(error) from None


def _malformed(error: Exception) -> CorruptBatch:
    reason = "the records end too early" if isinstance(error, IndexError) else str(error)
    return CorruptBatch(f"malformed records: {reason}")


# The two loops below are the price of every record read or produced. Nearly every varint is one byte long, so that case
# stands in the loop, and only longer ones are worth a call.


def _decode_records(header: BatchHeader, body: bytes) -> list[Record]:
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    records: list[Record] = []
    position = 0
    for _ in range(header.record_count):
        byte = body[position]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            length, position = read_varint(body, position)
        end = position + length
        position += 1  # The record's attributes: no bit of them has a meaning yet.
        byte = body[position]
        if byte < 0x80:
            timestamp_delta = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            timestamp_delta, position = read_varlong(body, position)
        byte = body[position]
        if byte < 0x80:
            offset_delta = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            offset_delta, position = read_varint(body, position)
        key, position = _read_bytes(body, position, end)
        value, position = _read_bytes(body, position, end)
        if body[position] == 0:
            headers: Sequence[tuple[str, bytes | None]] = ()
            position += 1
        else:
            headers, position = _read_headers(body, position, end)
        if position != end:
            raise ValueError(f"a record of {length} bytes ends {position - end:+d} bytes from there")
        timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
        records.append(Record(base_offset + offset_delta, timestamp, key, value, headers))
    if position != len(body):
        raise ValueError(f"{len(body) - position} bytes after the last record")
    return records


def _read_bytes(body: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    byte = body[position]
    if byte < 0x80:
        size = (byte >> 1) ^ -(byte & 1)
        position += 1
    else:
        size, position = read_varint(body, position)
    if size < 0:
        return None, position
    stop = position + size
    if stop > end:
        raise ValueError(f"a field of {size} bytes where {end - position} are left")
    return body[position:stop], stop


def _read_headers(body: bytes, position: int, end: int) -> tuple[list[tuple[str, bytes | None]], int]:
    count, position = read_varint(body, position)
    if count < 0 or count * _MIN_HEADER_SIZE > end - position:
        raise ValueError(f"{count} record headers where {end - position} bytes are left")
    headers = []
    for _ in range(count):
        name, position = _read_bytes(body, position, end)
        if name is None:
            raise ValueError("a record header without a name")
        content, position = _read_bytes(body, position, end)
        # UnicodeDecodeError is a ValueError.
        headers.append((name.decode(), content))
    return headers, position


def _summarize(header: BatchHeader, body: bytes, oldest_ms: int | None, newest_ms: int | None) -> RecordsSummary:
    # Outside what an int64 can hold no timestamp lies.
    oldest_delta = -(1 << 65) if oldest_ms is None else oldest_ms - header.base_timestamp
    newest_delta = 1 << 65 if newest_ms is None else newest_ms - header.base_timestamp
    largest = -(1 << 65)
    keyless: list[int] = []
    outside: list[int] = []
    out_of_order = None
    position = 0
    for index in range(header.record_count):
        byte = body[position]
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            length, position = read_varint(body, position)
        end = position + length
        position += 1
        byte = body[position]
        if byte < 0x80:
            timestamp_delta = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            timestamp_delta, position = read_varlong(body, position)
        if timestamp_delta > largest:
            largest = timestamp_delta
        if not oldest_delta <= timestamp_delta <= newest_delta:
            outside.append(index)
        byte = body[position]
        if byte < 0x80:
            offset_delta = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            offset_delta, position = read_varint(body, position)
        if offset_delta != index and out_of_order is None:
            out_of_order = index
        if body[position] & 1:  # The sign of a zigzag varint is the lowest bit of its first byte.
            keyless.append(index)
        position = _skip_bytes(body, position, end)
        position = _skip_bytes(body, position, end)
        if body[position] == 0:
            position += 1
        else:
            position = _read_headers(body, position, end)[1]
        if position != end:
            raise ValueError(f"a record of {length} bytes ends {position - end:+d} bytes from there")
    if position != len(body):
        raise ValueError(f"{len(body) - position} bytes after the last record")
    if header.base_timestamp + largest > _MAX_TIMESTAMP:
        raise ValueError("a timestamp larger than 64 bits")
    return RecordsSummary(header.base_timestamp + largest, keyless, out_of_order, outside)


def _skip_bytes(body: bytes, position: int, end: int) -> int:
    byte = body[position]
    if byte < 0x80:
        size = (byte >> 1) ^ -(byte & 1)
        position += 1
    else:
        size, position = read_varint(body, position)
    if size > 0:
        position += size
    if position > end:
        raise ValueError(f"a field of {size} bytes that does not fit into its record")
    return position
