"""Reading the records of a batch, and checking those that a producer sends.

Nothing here trusts a length: counts are held against the bytes that are there before anything is allocated, varints end
after five or ten bytes, and decompression stops at a limit.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ottla.protocol.batch import (
    HEADER_SIZE,
    MOST_TIMESTAMP,
    NO_TIMESTAMP,
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
from ottla.protocol.steps import Steps
from ottla.protocol.varints import read_varint, read_varlong

MIN_RECORD_SIZE: Final = 7
"""Length, attributes, timestamp delta, offset delta, key length, value length and header count, a byte each."""
_MIN_HEADER_SIZE: Final = 2
_LONGEST_BEGIN: Final = 5 + 1 + 10 + 5
"""Length, attributes, timestamp delta and offset delta at their longest."""
STEP: Final = 2_000
"""Records, or their headers, that are looked at between two pauses: about two milliseconds."""
MOST_NAMED: Final = 1_000
"""Of so many records at most it is said that they have no key, or a time out of range."""


class RecordsSummary(NamedTuple):
    """The findings of a walk over a batch's records, which keeps none of them."""

    max_timestamp_ms: int
    keyless: list[int]
    """The positions of records without a key, of the first ``MOST_NAMED``."""
    out_of_order: int | None
    """The first position whose offset delta is not its position."""
    outside_times: list[int]
    """The positions whose timestamps lie outside the range asked for, of the first ``MOST_NAMED``."""
    looked_at: int
    """Records and headers of records."""


def decode_batch(
    data: Buffer, *, verify_crc: bool = True, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
) -> list[Record]:
    """The records of the batch that begins ``data``; what follows it is not looked at.

    Offsets are absolute, and with ``LOG_APPEND_TIME`` every timestamp is the batch's. Raises ``CorruptBatch``, or
    ``BatchTooLarge`` when the records would be larger than ``max_decompressed_bytes`` once decompressed.
    """
    return list(iter_records(data, verify_crc=verify_crc, max_decompressed_bytes=max_decompressed_bytes))


def iter_records(
    data: Buffer, *, verify_crc: bool = True, max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
) -> Iterator[Record]:
    """The records that `decode_batch` returns, made one by one as they are taken.

    Raises at once where the batch cannot be opened, and in the middle of it where a record does not parse.
    """
    header, batch = whole_batch(data)
    if verify_crc:
        check_crc(header, batch)
    body = decompressed_records(header, batch, limit=max_decompressed_bytes)
    return _well_formed(_decode_records(header, body))


def _well_formed(records: Iterator[Record]) -> Iterator[Record]:
    try:
        yield from records
    except (IndexError, ValueError) as error:
        raise malformed(error) from None


def record_at(header: BatchHeader, body: bytes, position: int) -> tuple[Record, int]:
    """One of the records that `decode_batch` returns, by its place in ``body``; and the place behind it.

    Raises ``CorruptBatch`` where it does not parse.
    """
    record = next(_well_formed(_decode_records(header, body, position)))
    length, at = read_varint(body, position)
    return record, at + length


def whole_batch(data: Buffer) -> tuple[BatchHeader, memoryview]:
    """The header of the batch that begins ``data``, and a view of exactly that batch."""
    header = parse_header(data)
    if header.size > len(data):
        raise CorruptBatch(f"a batch of {header.size} bytes of which {len(data)} are there")
    return header, memoryview(data)[: header.size]


def decompressed_records(header: BatchHeader, batch: Buffer, *, limit: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """The records section of ``batch``, which is exactly one batch, decompressed."""
    body = memoryview(batch)[HEADER_SIZE:]
    if header.record_count * MIN_RECORD_SIZE > limit:
        raise BatchTooLarge(f"{header.record_count} records, more than {limit} bytes can hold")
    try:
        records = decompress(header.codec, body, limit=limit)
    except DecompressedTooLarge as error:
        raise BatchTooLarge(str(error)) from None
    except CompressionError as error:
        raise CorruptBatch(str(error)) from None
    if header.record_count * MIN_RECORD_SIZE > len(records):
        raise CorruptBatch(f"{header.record_count} records in {len(records)} bytes")
    return records


class TimeScan:
    """A search for the first record of a batch at an offset or later with a time or a later one.

    The decompressed records section is given piece by piece; what was searched is not kept.
    """

    __slots__ = ("_base_offset", "_base_timestamp", "_from_offset", "_left", "_rest", "_skip", "_timestamp_ms")

    def __init__(self, header: BatchHeader, timestamp_ms: int, from_offset: int) -> None:
        self._base_offset, self._base_timestamp = header.base_offset, header.base_timestamp
        self._timestamp_ms, self._from_offset = timestamp_ms, from_offset
        self._left = header.record_count
        self._rest = b""
        self._skip = 0

    def take(self, piece: bytes) -> tuple[int, int] | None:
        """Search the next piece; offset and timestamp of the record if that is found. Raises ``CorruptBatch``."""
        if self._skip >= len(piece):
            self._skip -= len(piece)
            return None
        return self._search(self._rest + piece[self._skip :], _LONGEST_BEGIN)

    def end(self) -> tuple[int, int] | None:
        """Search what is left after the last piece. Raises ``CorruptBatch``, also where records are missing."""
        found = None if self._skip else self._search(self._rest, 0)
        if found is None and (self._left or self._skip or self._rest):
            raise self._misfit()
        return found

    def _misfit(self) -> CorruptBatch:
        return CorruptBatch(f"malformed records: {self._left} are missing at the end, or do not end there")

    def _search(self, data: bytes, ahead: int) -> tuple[int, int] | None:
        position, left, last = 0, self._left, len(data) - ahead
        try:
            while left and position < last:
                byte = data[position]
                if byte < 0x80:
                    length, at = (byte >> 1) ^ -(byte & 1), position + 1
                else:
                    length, at = read_varint(data, position)
                if length < MIN_RECORD_SIZE - 1:
                    raise ValueError(f"a record of {length} bytes")
                end = at + length
                byte = data[at + 1]
                if byte < 0x80:
                    timestamp_delta, at = (byte >> 1) ^ -(byte & 1), at + 2
                else:
                    timestamp_delta, at = read_varlong(data, at + 1)
                byte = data[at]
                offset_delta = (byte >> 1) ^ -(byte & 1) if byte < 0x80 else read_varint(data, at)[0]
                timestamp_ms = self._base_timestamp + timestamp_delta
                # One of more than 64 bits is for other readers a time long ago.
                is_late = self._timestamp_ms <= timestamp_ms <= MOST_TIMESTAMP
                if is_late and self._base_offset + offset_delta >= self._from_offset:
                    return self._base_offset + offset_delta, timestamp_ms
                position = end
                left -= 1
        except (IndexError, ValueError) as error:
            raise malformed(error) from None
        self._left = left
        if not left and position < len(data):
            raise self._misfit()  # here: the rest would be copied with every piece that comes
        self._rest = data[position:]
        self._skip = max(position - len(data), 0)
        return None


def malformed(error: Exception) -> CorruptBatch:
    """The fault of a batch whose records could not be walked over."""
    reason = "the records end too early" if isinstance(error, IndexError) else str(error)
    return CorruptBatch(f"malformed records: {reason}")


# The loops above and below are the price of every record looked for, read or produced. Nearly every varint is one byte
# long, so that case stands in the loop, and only longer ones are worth a call.


def _decode_records(header: BatchHeader, body: bytes, position: int = 0) -> Iterator[Record]:
    base_offset = header.base_offset
    base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
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
            count, position = _header_count(body, position, end)
            headers, position = _read_headers(body, position, end, count)
        if position != end:
            raise ValueError(f"a record of {length} bytes ends {position - end:+d} bytes from there")
        timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
        yield Record(base_offset + offset_delta, timestamp, key, value, headers)
    if position != len(body):
        raise ValueError(f"{len(body) - position} bytes after the last record")


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


def _header_count(body: bytes, position: int, end: int) -> tuple[int, int]:
    count, position = read_varint(body, position)
    if count < 0 or count * _MIN_HEADER_SIZE > end - position:
        raise ValueError(f"{count} record headers where {end - position} bytes are left")
    return count, position


def _read_headers(body: bytes, position: int, end: int, count: int) -> tuple[list[tuple[str, bytes | None]], int]:
    headers = []
    for _ in range(count):
        name, position = _read_bytes(body, position, end)
        if name is None:
            raise ValueError("a record header without a name")
        content, position = _read_bytes(body, position, end)
        # UnicodeDecodeError is a ValueError.
        headers.append((name.decode(), content))
    return headers, position


def summarizing(
    header: BatchHeader, body: bytes, oldest_ms: int, newest_ms: int, most: int | None
) -> Steps[RecordsSummary]:
    """Walk over all records of ``body``, decompressed, and copy none.

    Raises ``BatchTooLarge`` beyond ``most`` records and their headers, else what `malformed` puts into words."""
    oldest_delta, newest_delta = oldest_ms - header.base_timestamp, newest_ms - header.base_timestamp
    largest = delta_of_none = NO_TIMESTAMP - header.base_timestamp
    keyless: list[int] = []
    outside: list[int] = []
    out_of_order = None
    position = header_count = 0
    pause_at = STEP
    for index in range(header.record_count):
        if index >= pause_at:
            yield None
            pause_at = index + STEP
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
        is_outside = not oldest_delta <= timestamp_delta <= newest_delta and timestamp_delta != delta_of_none
        if is_outside and len(outside) < MOST_NAMED:
            outside.append(index)
        byte = body[position]
        if byte < 0x80:
            offset_delta = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            offset_delta, position = read_varint(body, position)
        if offset_delta != index and out_of_order is None:
            out_of_order = index
        # The sign of a zigzag varint is the lowest bit of its first byte.
        if body[position] & 1 and len(keyless) < MOST_NAMED:
            keyless.append(index)
        position = _skip_bytes(body, position, end)
        position = _skip_bytes(body, position, end)
        if body[position] == 0:
            position += 1
        else:
            count, position = _header_count(body, position, end)
            header_count += count
            if most is not None and header.record_count + header_count > most:
                raise BatchTooLarge(f"more than the {most} records and headers of records that are allowed")
            pause_at -= count
            for first in range(0, count, STEP):
                if first:
                    yield None
                position = _read_headers(body, position, end, min(STEP, count - first))[1]
        if position != end:
            raise ValueError(f"a record of {length} bytes ends {position - end:+d} bytes from there")
    if position != len(body):
        raise ValueError(f"{len(body) - position} bytes after the last record")
    largest += header.base_timestamp
    return RecordsSummary(largest, keyless, out_of_order, outside, header.record_count + header_count)


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
