"""What a broker refuses to append, and with which error code."""

import struct

import pytest

from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import (
    BASE_SEQUENCE_AT,
    BatchError,
    InvalidBatch,
    Record,
    TimestampType,
    decode_batch,
    parse_header,
    with_max_timestamp,
)
from ottla.protocol.varints import encode_varint
from tests.protocol.produced import batch_of, sealed, validate_produced
from tests.support.batches import build_batch

RECORDS = [Record(0, 1000, b"k", b"v"), Record(0, 1500, b"l", b"w"), Record(0, 1200, b"m", b"x")]
GOOD = build_batch(RECORDS)


def patched(position, form, value, batch=GOOD):
    changed = bytearray(batch)
    struct.pack_into(form, changed, position, value)
    return sealed(changed)


def refused(data, **options):
    with pytest.raises(BatchError) as caught:
        validate_produced(data, **options)
    return caught.value.error_code


@pytest.mark.parametrize("codec", Codec)
def test_good_batches_pass_as_they_are(codec):
    batch = build_batch(RECORDS, codec=codec, producer_id=4, producer_epoch=0, base_sequence=0, is_transactional=True)
    view = memoryview(batch)
    produced = validate_produced(view)
    assert produced.data is view
    assert produced.header == parse_header(batch)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (GOOD + GOOD, ErrorCode.INVALID_RECORD),
        (GOOD + GOOD[:8] + b"\xff" * 4, ErrorCode.CORRUPT_MESSAGE),
        (GOOD[:-1], ErrorCode.INVALID_RECORD),
        (GOOD[:20], ErrorCode.INVALID_RECORD),
        (patched(8, ">i", 13), ErrorCode.CORRUPT_MESSAGE),
        (patched(8, ">i", 20), ErrorCode.CORRUPT_MESSAGE),
        (patched(16, ">b", 3), ErrorCode.CORRUPT_MESSAGE),
        (patched(16, ">b", -1), ErrorCode.CORRUPT_MESSAGE),
        (patched(23, ">i", -1), ErrorCode.INVALID_RECORD),
        (patched(57, ">i", -3), ErrorCode.INVALID_RECORD),
        (patched(21, ">h", 7), ErrorCode.INVALID_RECORD),
        (GOOD[:-1] + b"\x07", ErrorCode.CORRUPT_MESSAGE),
        (patched(16, ">b", 1), ErrorCode.INVALID_RECORD),
        (patched(0, ">q", 1), ErrorCode.INVALID_RECORD),
        # The last offset delta must be the count less one.
        (patched(23, ">i", 3), ErrorCode.INVALID_RECORD),
        (patched(57, ">i", 0), ErrorCode.INVALID_RECORD),
        (build_batch(RECORDS, is_control=True), ErrorCode.INVALID_RECORD),
        (patched(BASE_SEQUENCE_AT, ">i", -1, build_batch(RECORDS, producer_id=4)), ErrorCode.INVALID_RECORD),
    ],
)
def test_refused(data, code):
    assert refused(data) == code


@pytest.mark.parametrize("behind", [b"\0", GOOD[:11], GOOD[:-1]])
def test_what_is_too_short_for_another_batch_is_dropped(behind):
    assert validate_produced(GOOD + behind).data == GOOD


def test_only_the_broker_sets_log_append_time():
    claimed = build_batch(RECORDS, timestamp_type=TimestampType.LOG_APPEND_TIME)
    produced = validate_produced(claimed)
    assert produced.header.timestamp_type is TimestampType.CREATE_TIME
    assert [record.timestamp_ms for record in decode_batch(produced.data)] == [1000, 1500, 1200]


def test_too_large_is_measured_compressed():
    records = [Record(value=b"v" * 10_000)]
    assert refused(build_batch(records), max_message_bytes=5000) == ErrorCode.MESSAGE_TOO_LARGE
    assert validate_produced(build_batch(records, codec=Codec.ZSTD), max_message_bytes=5000)
    assert validate_produced(GOOD, max_message_bytes=len(GOOD))
    assert refused(GOOD, max_message_bytes=len(GOOD) - 1) == ErrorCode.MESSAGE_TOO_LARGE


def test_zstd_needs_produce_7():
    batch = build_batch(RECORDS, codec=Codec.ZSTD)
    assert refused(batch, api_version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert validate_produced(batch, api_version=7).header.codec is Codec.ZSTD


@pytest.mark.parametrize("codec", Codec)
def test_offset_deltas_must_count_from_zero(codec):
    record = b"\x00\x00" + encode_varint(1) + b"\x01\x01\x00"
    assert refused(batch_of(encode_varint(len(record)) + record, 1, codec)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", Codec)
def test_compacted_topics_name_every_record_without_a_key(codec):
    batch = build_batch([Record(key=b"k"), Record(), Record(key=b""), Record(value=b"v")], codec=codec)
    validate_produced(batch)
    with pytest.raises(InvalidBatch) as caught:
        validate_produced(batch, require_key=True)
    assert caught.value.error_code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in caught.value.record_errors] == [1, 3]


def test_timestamps_out_of_range():
    validate_produced(GOOD, now_ms=1200, before_max_ms=200, after_max_ms=300)
    with pytest.raises(InvalidBatch) as caught:
        validate_produced(GOOD, now_ms=1200, before_max_ms=199, after_max_ms=299)
    assert caught.value.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in caught.value.record_errors] == [0, 1]
    # Records without a timestamp have none that could be wrong.
    validate_produced(build_batch([Record()]), now_ms=10**12, before_max_ms=1, after_max_ms=1)


def test_the_broker_stamps_where_the_topic_wants_it():
    produced = validate_produced(GOOD, timestamp_type=TimestampType.LOG_APPEND_TIME, now_ms=9999, after_max_ms=1)
    assert produced.header == parse_header(produced.data)
    assert produced.header.max_timestamp == 9999
    assert [record.timestamp_ms for record in decode_batch(produced.data)] == [9999] * 3


def test_a_wrong_max_timestamp_is_corrected():
    produced = validate_produced(with_max_timestamp(GOOD, 10**15))
    assert produced.header.max_timestamp == 1500
    assert [record.timestamp_ms for record in decode_batch(produced.data)] == [1000, 1500, 1200]
