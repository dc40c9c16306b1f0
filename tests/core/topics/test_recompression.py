"""compression.type of a topic: batches of another codec are compressed anew, and only those are touched."""

import pytest

from ottla.broker.core.topics.accept import accept
from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.settings import Settings
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import (
    BatchError,
    BatchTooLarge,
    InvalidBatch,
    Record,
    check_crc,
    decode_batch,
    parse_header,
)
from tests.support.batches import build_batch

NOW_MS = 1_700_000_000_000
KINDS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
RECORDS = [
    Record(index, NOW_MS + index % 3, b"key %d" % (index % 5), b"value " * index, [("h", b"%d" % index), ("n", None)])
    for index in range(40)
]


def config(**keys):
    return TopicConfig.of({key.replace("_", "."): str(value) for key, value in keys.items()}, Settings())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sent", Codec)
def test_every_codec_becomes_that_of_the_topic(kind, sent):
    batch = build_batch(
        RECORDS, codec=sent, producer_id=9, producer_epoch=2, base_sequence=4, is_transactional=True, leader_epoch=7
    )
    header, data = accept(batch, 9, config(compression_type=kind), NOW_MS)
    assert header == parse_header(data)
    assert header.codec is KINDS[kind]
    check_crc(header, data)
    assert decode_batch(data) == RECORDS
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 4)
    assert header.is_transactional
    if sent is KINDS[kind]:
        assert data is batch


def test_the_producers_codec_stays_by_default():
    batch = build_batch(RECORDS, codec=Codec.GZIP)
    assert accept(batch, 9, config(), NOW_MS)[1] is batch


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("gzip", 1, 9), ("lz4", 1, 17), ("zstd", -1000, 19), ("gzip", -1, -1)]
)
def test_levels_are_the_codecs(kind, low, high):
    records = [Record(0, NOW_MS, b"k", b"%d %d;" % (i * i % 1009, i % 7)) for i in range(3000)]
    batch = build_batch(records)
    sizes = []
    for level in (low, high):
        keys = {"compression_type": kind, f"compression_{kind}_level": level}
        data = accept(batch, 9, config(**keys), NOW_MS)[1]
        assert [record.value for record in decode_batch(data)] == [record.value for record in records]
        sizes.append(len(data))
    assert sizes[0] > sizes[1] or low == high


def test_with_the_brokers_time_as_well():
    batch = build_batch(RECORDS)
    given = config(compression_type="zstd", message_timestamp_type="LogAppendTime")
    header, data = accept(batch, 9, given, NOW_MS + 5)
    assert header.codec is Codec.ZSTD
    assert {record.timestamp_ms for record in decode_batch(data)} == {NOW_MS + 5}


def test_a_batch_must_not_outgrow_the_topic_by_being_compressed_otherwise():
    records = [Record(0, NOW_MS, b"k", b"x" * 10_000)]
    batch = build_batch(records, codec=Codec.GZIP)
    assert len(batch) < 1000
    with pytest.raises(BatchTooLarge):
        accept(batch, 9, config(compression_type="uncompressed", max_message_bytes=1000), NOW_MS)
    with pytest.raises(BatchTooLarge):
        accept(build_batch(records), 9, config(compression_type="gzip", max_message_bytes=1000), NOW_MS)


def test_records_are_checked_where_they_are_unpacked_anyway():
    batch = build_batch([Record(0, NOW_MS + 10**9, b"k", b"v")] * 100)
    with pytest.raises(InvalidBatch) as caught:
        accept(batch, 9, config(compression_type="gzip"), NOW_MS)
    assert caught.value.error_code is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("data", [None, b"", b"x" * 30])
def test_what_is_no_batch_is_refused_as_ever(data):
    with pytest.raises(BatchError) as caught:
        accept(data, 9, config(compression_type="gzip"), NOW_MS)
    assert caught.value.error_code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)
