"""The checks of a produced batch before it is appended, as Kafka's LogValidator makes them."""

import struct
from functools import partial
from typing import Final, NamedTuple

from ottla.protocol.batch import (
    ATTRIBUTES_AT,
    BATCH_LENGTH_AT,
    CODEC_MASK,
    CRC_AT,
    HEADER_SIZE,
    LEAST_TIMESTAMP,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MOST_TIMESTAMP,
    BatchError,
    BatchHeader,
    BatchTooLarge,
    CorruptBatch,
    TimestampType,
    batch_crc,
    check_crc,
    parse_header,
)
from ottla.protocol.batch_builder import with_create_time, with_log_append_time, with_max_timestamp
from ottla.protocol.batch_reader import MIN_RECORD_SIZE, RecordsSummary, decompressed_records, malformed, summarizing
from ottla.protocol.compression import MAX_DECOMPRESSED_BYTES, Buffer, Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.steps import Steps, finished

ZSTD_SINCE_PRODUCE: Final = 7
MOST_RECORDS: Final = 1 << 19
"""So many records may be in a compressed batch.

A kilobyte of zstd can hold millions of empty ones, and whoever reads them pays for each. A MiB, the largest batch by
default, has room for 150,000 of the smallest records there are, so honest producers come near only where they compress
a lot of the same; and when they hear MESSAGE_TOO_LARGE they split the batch and send its parts (KIP-126).
"""
_LENGTH: Final = struct.Struct(">i").unpack_from
_LEAST_LENGTH: Final = 14  # of a batch of the oldest format


class InvalidBatch(BatchError):
    """A whole batch that a producer may not send.

    ``record_errors`` are pairs of a record's position and the reason, as Produce v8 and later answers them (KIP-467).
    """

    def __init__(self, error_code: ErrorCode, message: str, record_errors: list[tuple[int, str]] | None = None) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.record_errors = record_errors or []


class NotABatch(InvalidBatch):
    """Data that is not one batch, as this version of Produce sends it: refused before a log is looked at."""


class ProducedBatch(NamedTuple):
    """A batch that may be appended."""

    header: BatchHeader
    data: Buffer
    """The bytes to append: those that came, or a copy where the broker had to correct them."""


class Allowance:
    """The bytes and records that the batches of one request may still cost together.

    Attributes:
        bytes: of decompressed records.
        records: with the headers of records; None is no limit.
        at_once: of the bytes, what may be looked at without a pause.
    """

    __slots__ = ("at_once", "bytes", "records")

    def __init__(self, bytes: int, records: int | None = None, at_once: int | None = None) -> None:
        self.bytes = bytes
        self.records = records
        self.at_once = bytes if at_once is None else at_once


def validating(
    header: BatchHeader,
    data: Buffer,
    *,
    require_key: bool,
    timestamp_type: TimestampType,
    now_ms: int,
    before_max_ms: int,
    after_max_ms: int,
    allowance: Allowance,
    limit: int = MAX_DECOMPRESSED_BYTES,
) -> Steps[ProducedBatch]:
    """Check every record of a batch that `check_batch` has let through, decompressed if need be, in steps.

    What is accepted here can be read by every consumer.

    Args:
        require_key: the topic is compacted.
        timestamp_type, before_max_ms, after_max_ms: the topic's.
        now_ms: Unix time, which `LOG_APPEND_TIME` and the bounds need.
        limit: bytes that the records may take decompressed, whatever the allowance.

    Raises:
        InvalidBatch, CorruptBatch, BatchTooLarge: with the error code to answer.
    """
    stamped_by_producer = timestamp_type is TimestampType.CREATE_TIME
    oldest, newest = _allowed_times(stamped_by_producer, now_ms, before_max_ms, after_max_ms)
    if allowance.records is not None and header.record_count > allowance.records:
        raise BatchTooLarge(f"{header.record_count} records, where {allowance.records} more may be in the request")
    try:
        most_bytes = min(limit, allowance.bytes)
        if header.attributes & CODEC_MASK:
            body: bytes = yield partial(decompressed_records, header, data, limit=most_bytes)
        else:
            body = decompressed_records(header, data, limit=most_bytes)
        allowance.bytes -= len(body)
        summary = yield from summarizing(header, body, oldest, newest, allowance.records)
    except (CorruptBatch, IndexError, ValueError) as error:
        raise _invalid(error) from None
    if allowance.records is not None:
        allowance.records -= summary.looked_at
    return _judged(header, data, summary, require_key, stamped_by_producer, now_ms)


def validate_few(
    header: BatchHeader, data: Buffer, timestamp_type: TimestampType, now_ms: int, before_max_ms: int, after_max_ms: int
) -> ProducedBatch:
    """The work of `validating` at once: for a batch of few records that is not compressed and may lack keys."""
    stamped_by_producer = timestamp_type is TimestampType.CREATE_TIME
    oldest, newest = _allowed_times(stamped_by_producer, now_ms, before_max_ms, after_max_ms)
    try:
        summary = finished(summarizing(header, bytes(memoryview(data)[HEADER_SIZE:]), oldest, newest, None))
    except (IndexError, ValueError) as error:
        raise _invalid(error) from None
    return _judged(header, data, summary, False, stamped_by_producer, now_ms)


def _allowed_times(stamped_by_producer: bool, now_ms: int, before_max_ms: int, after_max_ms: int) -> tuple[int, int]:
    """The oldest and the newest time that a record may have, if it has one."""
    if not stamped_by_producer:
        return LEAST_TIMESTAMP, MOST_TIMESTAMP
    return now_ms - before_max_ms, min(now_ms + after_max_ms, MOST_TIMESTAMP)


def _invalid(error: Exception) -> InvalidBatch:
    """The CRC fits, so this is what was sent: to call it damaged would have producers send it again and again."""
    text = str(error if isinstance(error, CorruptBatch) else malformed(error))
    return InvalidBatch(ErrorCode.INVALID_RECORD, text)


def _judged(
    header: BatchHeader,
    data: Buffer,
    summary: RecordsSummary,
    require_key: bool,
    stamped_by_producer: bool,
    now_ms: int,
) -> ProducedBatch:
    """The batch as it may be appended, by what a walk over its records has found."""
    if summary.out_of_order is not None:
        reason = "the offset delta is not the record's position"
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"record {summary.out_of_order}: {reason}")
    if require_key and summary.keyless:
        errors = [(index, "a compacted topic takes no record without a key") for index in summary.keyless]
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"{len(errors)} records without a key", errors)
    if summary.outside_times:
        errors = [(index, "the timestamp is out of range") for index in summary.outside_times]
        raise InvalidBatch(ErrorCode.INVALID_TIMESTAMP, f"{len(errors)} records out of the range of time", errors)
    if not stamped_by_producer:
        data = with_log_append_time(data, now_ms)
    elif header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        data = with_create_time(data)
    elif summary.max_timestamp_ms != header.max_timestamp:
        data = with_max_timestamp(data, summary.max_timestamp_ms)
    else:
        return ProducedBatch(header, data)
    return ProducedBatch(parse_header(data), data)


def framed(data: Buffer, position: int) -> int | None:
    """The size of the batch that begins at ``position``; None if there are too few bytes for one.

    Raises ``CorruptBatch`` for a length or a magic that no batch has. This is all that Kafka looks at to tell the
    batches of a request apart.
    """
    left = len(data) - position
    if left < LOG_OVERHEAD:
        return None
    length: int = _LENGTH(data, position + BATCH_LENGTH_AT)[0]
    if length < _LEAST_LENGTH:
        raise CorruptBatch(f"a batch length of {length}")
    if left <= MAGIC_AT:
        return None
    if data[position + MAGIC_AT] > MAGIC:
        raise CorruptBatch(f"a batch of magic {data[position + MAGIC_AT]}")
    return None if left < length + LOG_OVERHEAD else length + LOG_OVERHEAD


def check_batch(data: Buffer | None, api_version: int, max_message_bytes: int) -> tuple[BatchHeader, Buffer]:
    """All that the header and the CRC can tell; the order of the checks is Kafka's.

    Returns the batch, too: without the bytes behind it, if those are too few for another.
    """
    size = framed(data, 0) if data else None
    if data is None or size is None:
        raise NotABatch(ErrorCode.INVALID_RECORD, "there must be a record batch")
    if data[MAGIC_AT] != MAGIC:
        raise NotABatch(ErrorCode.INVALID_RECORD, f"only record batches of magic {MAGIC} are accepted")
    codec = data[ATTRIBUTES_AT + 1] & CODEC_MASK
    if codec == Codec.ZSTD and api_version < ZSTD_SINCE_PRODUCE:
        raise NotABatch(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce {ZSTD_SINCE_PRODUCE} or later")
    if size < len(data):
        if framed(data, size) is not None:
            raise NotABatch(ErrorCode.INVALID_RECORD, "there must be exactly one record batch for a partition")
        data = data[:size]
    try:
        header = parse_header(data)
    except CorruptBatch as error:
        if size < HEADER_SIZE or batch_crc(data) != int.from_bytes(data[CRC_AT:ATTRIBUTES_AT], "big"):
            raise
        raise InvalidBatch(ErrorCode.INVALID_RECORD, str(error)) from None  # a negative count
    if header.base_offset != 0:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"the base offset must be 0, it is {header.base_offset}")
    if size > max_message_bytes:
        raise BatchTooLarge(f"a batch of {size} bytes where {max_message_bytes} are allowed")
    check_crc(header, data)
    if codec > Codec.ZSTD:
        # The CRC fits, so this is what was sent: to call it damaged would have producers send it again and again.
        raise InvalidBatch(ErrorCode.INVALID_RECORD, f"unknown compression codec {codec}")
    if header.record_count == 0 or header.last_offset_delta != header.record_count - 1:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"{header.record_count} records with last offset delta {header.last_offset_delta}",
        )
    if header.record_count * MIN_RECORD_SIZE > size - HEADER_SIZE:
        if codec == Codec.NONE:
            text = f"{header.record_count} records in {size - HEADER_SIZE} bytes"
            raise InvalidBatch(ErrorCode.INVALID_RECORD, text)
        if header.record_count > MOST_RECORDS:
            raise BatchTooLarge(f"{header.record_count} records in a batch where {MOST_RECORDS} are allowed")
    if header.is_control:
        raise InvalidBatch(ErrorCode.INVALID_RECORD, "a client may not write control records")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidBatch(
            ErrorCode.INVALID_RECORD,
            f"producer id {header.producer_id} with sequence number {header.base_sequence}",
        )
    return header, data
