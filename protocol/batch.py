"""The header of a record batch of magic 2, and what can be done with a batch without looking at its records.

The base offset and the leader epoch lie before the part that the CRC covers, so a broker writes them without touching
the rest. What is wrong with a batch is a ``BatchError`` with the error code that a broker answers.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.protocol.compression import Buffer, Codec
from ottla.protocol.crc import crc32c
from ottla.protocol.errors import ErrorCode

MAGIC: Final = 2
HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12
"""Bytes before those that ``batch_length`` counts."""

BASE_OFFSET_AT: Final = 0
BATCH_LENGTH_AT: Final = 8
LEADER_EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
RECORD_COUNT_AT: Final = 57

NO_TIMESTAMP: Final = -1
LEAST_TIMESTAMP: Final = -(1 << 63)
MOST_TIMESTAMP: Final = (1 << 63) - 1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PLACE: Final = struct.Struct(">qi").unpack_from
_DELTA: Final = struct.Struct(">i").unpack_from


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class TimestampType(IntEnum):
    """The origin of a topic's timestamps: the producers or the log (KIP-32)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchError(Exception):
    """A batch that cannot be accepted or read; ``error_code`` is what a broker answers for it."""

    error_code = ErrorCode.UNKNOWN_SERVER_ERROR


class CorruptBatch(BatchError):
    """The bytes are damaged or cut off: impossible lengths, a CRC that does not fit, records that do not parse."""

    error_code = ErrorCode.CORRUPT_MESSAGE


class BatchTooLarge(BatchError):
    """Larger than allowed, as it stands or decompressed."""

    error_code = ErrorCode.MESSAGE_TOO_LARGE


@dataclass(slots=True)
class Record:
    """One record. ``headers`` may repeat a name. When a batch is built, ``offset`` is not looked at."""

    offset: int = 0
    timestamp_ms: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


class BatchHeader(NamedTuple):
    """The fields of a batch's header, in their order on the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The whole batch in bytes."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def codec(self) -> Codec:
        """The compression of the records; raises ``CorruptBatch`` for bits without a meaning."""
        try:
            return Codec(self.attributes & CODEC_MASK)
        except ValueError:
            raise CorruptBatch(f"unknown compression codec {self.attributes & CODEC_MASK}") from None

    @property
    def timestamp_type(self) -> TimestampType:
        append_time = self.attributes & TIMESTAMP_TYPE_BIT
        return TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number; sequences wrap to 0 after 2^31 - 1."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


def parse_header(data: Buffer, offset: int = 0) -> BatchHeader:
    """Read the header at ``offset``. The batch's body need not be there.

    Raises ``CorruptBatch`` when there are too few bytes, when the batch is not of magic 2, or when it claims to be
    shorter than its own header.
    """
    try:
        header = BatchHeader._make(_HEADER.unpack_from(data, offset))
    except struct.error:
        raise CorruptBatch(f"{len(data) - offset} bytes are too few for a batch header") from None
    if header.magic != MAGIC:
        raise CorruptBatch(f"a batch of magic {header.magic}, not {MAGIC}")
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD:
        raise CorruptBatch(f"a batch length of {header.batch_length}, less than a header's")
    if header.last_offset_delta < 0 or header.record_count < 0:
        raise CorruptBatch(f"{header.record_count} records with last offset delta {header.last_offset_delta}")
    return header


def iter_batches(data: Buffer) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The whole batches in ``data``, as views. A fetch response may end within a batch: that rest is left out.

    Raises ``CorruptBatch`` as ``parse_header`` does. CRCs are not checked here.
    """
    view = memoryview(data)
    position = 0
    while len(view) - position >= HEADER_SIZE:
        header = parse_header(view, position)
        end = position + header.size
        if end > len(view):
            return
        yield header, view[position:end]
        position = end


def end_of_batches(data: Buffer) -> int:
    """The offset behind the last of one or more whole batches, as a log gives them: nothing is checked.

    It looks at two numbers of each, so it costs a fraction of `iter_batches`.
    """
    at, size = 0, len(data)
    while True:
        base_offset, length = _PLACE(data, at)
        behind = at + LOG_OVERHEAD + length
        if behind >= size:
            return int(base_offset + _DELTA(data, at + LAST_OFFSET_DELTA_AT)[0] + 1)
        at = behind


def batch_crc(batch: Buffer) -> int:
    """The CRC-32C of everything after the CRC field of the one batch in ``batch``."""
    return crc32c(memoryview(batch)[ATTRIBUTES_AT:])


def check_crc(header: BatchHeader, batch: Buffer) -> None:
    """Raise ``CorruptBatch`` unless the CRC in ``header`` is that of ``batch``, which is exactly this batch."""
    actual = batch_crc(batch)
    if actual != header.crc:
        raise CorruptBatch(f"the CRC is {actual:#010x}, the header says {header.crc:#010x}")
