"""Writing record batches: built record by record, or rewritten from a batch that is there."""

import struct
from collections.abc import Sequence
from typing import Final

from ottla.protocol.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    parse_header,
)
from ottla.protocol.batch_reader import decompressed_records
from ottla.protocol.compression import MAX_DECOMPRESSED_BYTES, Buffer, Codec, compress
from ottla.protocol.crc import crc32c
from ottla.protocol.varints import encode_varint

_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
_FIRST_AFTER_CRC: Final = BatchHeader._fields.index("attributes")
_BEFORE_COVERED: Final = struct.Struct(">qiibI")
_MAGIC: Final = 2


class BatchBuilder:
    """A batch that grows record by record, as a producer needs it; it knows its size at any moment.

    ``compression_ratio`` is the caller's guess of compressed to plain size (1.0 = incompressible), only used for
    ``estimated_size``; ``achieved_ratio`` tells what it came to be.
    """

    __slots__ = (
        "_attributes",
        "_base_timestamp",
        "_codec",
        "_compressed",
        "_ratio",
        "_records",
        "count",
        "max_timestamp_ms",
    )

    def __init__(
        self,
        *,
        codec: Codec = Codec.NONE,
        is_transactional: bool = False,
        is_control: bool = False,
        compression_ratio: float = 1.0,
    ) -> None:
        self.count = 0
        self.max_timestamp_ms = NO_TIMESTAMP
        self._codec = codec
        self._attributes = codec | (TRANSACTIONAL_BIT if is_transactional else 0) | (CONTROL_BIT if is_control else 0)
        self._ratio = compression_ratio if codec else 1.0
        self._base_timestamp = NO_TIMESTAMP
        self._records = bytearray()
        self._compressed: bytes | None = None

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> int:
        """Add a record; return its offset delta. A built batch may go on growing and be built again."""
        return self.append_body(record_body(key, value, headers), timestamp_ms)

    def append_body(self, body: bytes, timestamp_ms: int) -> int:
        """Add a record of which `record_body` has made what does not depend on its place."""
        delta = self.count
        if delta == 0:
            self._base_timestamp = timestamp_ms
        place = b"\x00" + encode_varint(timestamp_ms - self._base_timestamp) + encode_varint(delta)
        self._records += encode_varint(len(place) + len(body)) + place + body
        self.count = delta + 1
        if timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
        self._compressed = None
        return delta

    @property
    def estimated_size(self) -> int:
        """The size in bytes that ``build`` would return now: exact without compression, else by the ratio."""
        return HEADER_SIZE + int(len(self._records) * self._ratio)

    @property
    def achieved_ratio(self) -> float:
        """Compressed to plain size of the last build; the constructor's guess before one."""
        if self._compressed is None or not self._records:
            return self._ratio
        return len(self._compressed) / len(self._records)

    def build(
        self,
        *,
        base_offset: int = 0,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        leader_epoch: int = NO_LEADER_EPOCH,
    ) -> bytes:
        """The batch. Records are compressed once, however often it is built. ``ValueError`` without any record."""
        if not self.count:
            raise ValueError("a batch needs at least one record")
        if self._compressed is None:
            records = bytes(self._records)
            self._compressed = compress(self._codec, records) if self._codec else records
        after_crc = _AFTER_CRC.pack(
            self._attributes,
            self.count - 1,
            self._base_timestamp,
            self.max_timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            self.count,
        )
        return _seal(base_offset, leader_epoch, b"".join((after_crc, self._compressed)))


def record_body(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> bytes:
    """A record from its key on: what is the same wherever in a batch it stands."""
    return b"".join(
        (
            b"\x01" if key is None else encode_varint(len(key)) + key,
            b"\x01" if value is None else encode_varint(len(value)) + value,
            _encode_headers(headers) if headers else b"\x00",
        )
    )


def plain_batch(bodies: Sequence[bytes], timestamp_ms: int) -> bytes:
    """The batch that a `BatchBuilder` makes of records of one time, as `record_body` gives them; in fewer steps."""
    count = len(bodies)
    producer = NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE
    pieces = [_AFTER_CRC.pack(0, count - 1, timestamp_ms, timestamp_ms, *producer, count)]
    for delta, body in enumerate(bodies):
        place = encode_varint(delta)
        pieces += encode_varint(len(body) + len(place) + 2), b"\0\0", place, body
    return _seal(0, NO_LEADER_EPOCH, b"".join(pieces))


def record_size_bound(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]] = ()) -> int:
    """The most bytes that one more record of this content takes in a batch, before compression."""
    # Length, attributes, timestamp delta, offset delta, two lengths and the header count at their longest.
    size = 5 + 1 + 10 + 5 + 5 + 5 + 5 + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += 10 + 4 * len(name) + len(content or b"")
    return size


def with_log_append_time(batch: Buffer, timestamp_ms: int) -> bytes:
    """A copy of the one batch in ``batch`` whose records all have the broker's time (KIP-32); its CRC is new."""
    header = parse_header(batch)
    return _rewritten(header, batch, header.attributes | TIMESTAMP_TYPE_BIT, timestamp_ms)


def with_create_time(batch: Buffer) -> bytes:
    """A copy of the one batch in ``batch`` that does not claim that a broker has set its time; its CRC is new."""
    header = parse_header(batch)
    return _rewritten(header, batch, header.attributes & ~TIMESTAMP_TYPE_BIT, header.max_timestamp)


def with_max_timestamp(batch: Buffer, timestamp_ms: int) -> bytes:
    """A copy of the one batch in ``batch`` with another max timestamp, for producers that wrote a wrong one."""
    header = parse_header(batch)
    return _rewritten(header, batch, header.attributes, timestamp_ms)


def with_codec(batch: Buffer, codec: Codec, *, level: int | None = None, limit: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """A copy of the one batch in ``batch`` compressed otherwise (``compression.type`` of a topic); its CRC is new."""
    header = parse_header(batch)
    records = compress(codec, decompressed_records(header, batch, limit=limit), level)
    return sealed(header._replace(attributes=header.attributes & ~CODEC_MASK | codec), records)


def _rewritten(header: BatchHeader, batch: Buffer, attributes: int, max_timestamp: int) -> bytes:
    changed = header._replace(attributes=attributes, max_timestamp=max_timestamp)
    return sealed(changed, memoryview(batch)[HEADER_SIZE:])


def sealed(header: BatchHeader, records: Buffer) -> bytes:
    """The batch of ``header`` with this records section; length, magic and CRC are made new."""
    after_crc = _AFTER_CRC.pack(*header[_FIRST_AFTER_CRC:])
    return _seal(header.base_offset, header.partition_leader_epoch, b"".join((after_crc, records)))


def _seal(base_offset: int, leader_epoch: int, covered: bytes) -> bytes:
    """The batch of which the checksum covers these bytes: attributes and all that follows."""
    size = len(covered) + ATTRIBUTES_AT - LOG_OVERHEAD
    return _BEFORE_COVERED.pack(base_offset, size, leader_epoch, _MAGIC, crc32c(covered)) + covered


def _encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, content in headers:
        encoded = name.encode()
        parts.append(encode_varint(len(encoded)))
        parts.append(encoded)
        if content is None:
            parts.append(b"\x01")
        else:
            parts.append(encode_varint(len(content)))
            parts.append(content)
    return b"".join(parts)
