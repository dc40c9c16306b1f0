"""Record batches: round trips, golden bytes, and the record code of other clients as oracles."""

import struct

import aiokafka.record.memory_records
import google_crc32c
import kafka.record
import kafka.record.memory_records
import pytest
from aiokafka.record._crecords.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from ottla.protocol.compression import Codec
from ottla.protocol.records import (
    ATTRIBUTES_AT,
    BASE_OFFSET_AT,
    CRC_AT,
    HEADER_SIZE,
    LEADER_EPOCH_AT,
    BatchBuilder,
    CorruptBatch,
    Record,
    TimestampType,
    batch_crc,
    check_crc,
    decode_batch,
    end_of_batches,
    iter_batches,
    parse_header,
    record_size_bound,
    with_codec,
    with_log_append_time,
    with_max_timestamp,
)
from tests.protocol.produced import batch_of
from tests.support.batches import build_batch

int64s = st.integers(-(2**63), 2**63 - 1)
timestamps = st.one_of(st.integers(0, 2**42), st.integers(1_700_000_000_000, 1_700_000_100_000))
contents = st.one_of(st.none(), st.binary(max_size=200))
headers = st.lists(st.tuples(st.text(max_size=10), st.one_of(st.none(), st.binary(max_size=20))), max_size=4)
records = st.builds(Record, timestamp_ms=timestamps, key=contents, value=contents, headers=headers)
batches = st.lists(records, min_size=1, max_size=20)


def contents_of(decoded):
    return [(r.offset, r.timestamp_ms, r.key, r.value, list(r.headers)) for r in decoded]


def expected_of(sent, base_offset=0):
    return [(base_offset + index, r.timestamp_ms, r.key, r.value, list(r.headers)) for index, r in enumerate(sent)]


@given(sent=batches, codec=st.sampled_from(Codec), base_offset=st.integers(0, 2**62))
def test_round_trip(sent, codec, base_offset):
    batch = build_batch(sent, codec=codec, base_offset=base_offset)
    assert contents_of(decode_batch(batch)) == expected_of(sent, base_offset)
    assert contents_of(decode_batch(memoryview(batch + b"tail"))) == expected_of(sent, base_offset)


@given(sent=batches, codec=st.sampled_from(Codec))
@settings(max_examples=50)
@pytest.mark.parametrize("reader", [kafka.record.memory_records, aiokafka.record.memory_records])
def test_other_clients_read_our_batches(reader, sent, codec):
    batch = build_batch(sent, codec=codec, base_offset=7)
    theirs = reader.MemoryRecords(batch).next_batch()
    assert theirs.validate_crc()
    read = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs]
    assert read == expected_of(sent, 7)


@given(sent=batches, codec=st.sampled_from(Codec))
@settings(max_examples=50)
@pytest.mark.parametrize("builder_class", [KafkaPythonBuilder, AiokafkaBuilder])
def test_we_read_batches_of_other_clients(builder_class, sent, codec):
    builder = builder_class(2, int(codec), 0, -1, -1, -1, 1 << 20)
    for index, record in enumerate(sent):
        builder.append(index, record.timestamp_ms, record.key, record.value, list(record.headers))
    batch = bytes(builder.build())
    assert contents_of(decode_batch(batch)) == expected_of(sent)


@given(sent=batches)
def test_uncompressed_batches_equal_those_of_kafka_python_byte_for_byte(sent):
    builder = KafkaPythonBuilder(2, 0, 1, 9, 3, 44, 1 << 20)
    for index, record in enumerate(sent):
        builder.append(index, record.timestamp_ms, record.key, record.value, list(record.headers))
    ours = build_batch(sent, producer_id=9, producer_epoch=3, base_sequence=44, is_transactional=True)
    theirs = bytes(builder.build())
    # They leave the leader epoch 0; the CRC does not cover it.
    assert ours[:12] == theirs[:12]
    assert ours[16:] == theirs[16:]


def test_golden_bytes():
    batch = build_batch(
        [Record(0, 1000, b"k", b"v", [("h", b"x")]), Record(0, 1001, None, None)],
        base_offset=5,
        leader_epoch=2,
        producer_id=3,
        producer_epoch=1,
        base_sequence=8,
    )
    first, second = "18 00 00 00 026b 0276 02 0268 0278", "0c 00 02 02 01 01 00"
    body = bytes.fromhex(first + second)
    assert batch == batch_of(body, 2, base_offset=5, leader_epoch=2, times_ms=(1000, 1001), producer=(3, 1, 8))


def test_header_fields_and_what_follows_from_them():
    batch = build_batch(
        [Record(0, 5), Record(0, 3)],
        base_offset=10,
        codec=Codec.LZ4,
        producer_id=1,
        producer_epoch=2,
        base_sequence=2**31 - 1,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        is_transactional=True,
        is_control=True,
        leader_epoch=4,
    )
    header = parse_header(b"xx" + batch, 2)
    assert header.size == len(batch)
    assert (header.base_offset, header.last_offset, header.record_count) == (10, 11, 2)
    assert (header.base_timestamp, header.max_timestamp) == (5, 5)
    assert (header.codec, header.timestamp_type) == (Codec.LZ4, TimestampType.LOG_APPEND_TIME)
    assert header.is_transactional
    assert header.is_control
    assert header.partition_leader_epoch == 4
    # Sequence numbers begin at 0 again after the largest int32.
    assert header.last_sequence == 0
    plain = parse_header(build_batch([Record()]))
    assert (plain.last_sequence, plain.is_transactional, plain.is_control) == (-1, False, False)


def test_log_append_time_stands_for_every_record():
    batch = with_log_append_time(build_batch([Record(0, 5, b"a"), Record(0, 9, b"b")], base_offset=3), 777)
    assert [(r.offset, r.timestamp_ms, r.key) for r in decode_batch(batch)] == [(3, 777, b"a"), (4, 777, b"b")]
    theirs = kafka.record.MemoryRecords(batch).next_batch()
    assert theirs.validate_crc()
    assert [(r.timestamp, r.timestamp_type) for r in theirs] == [(777, 1), (777, 1)]


def test_max_timestamp_can_be_corrected():
    batch = with_max_timestamp(build_batch([Record(0, 5)], leader_epoch=3), 6)
    header = parse_header(batch)
    assert (header.max_timestamp, header.partition_leader_epoch) == (6, 3)
    check_crc(header, batch)


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", Codec)
def test_a_batch_can_be_compressed_otherwise(source, target):
    sent = [Record(0, 5 + index, b"k", b"v" * index) for index in range(30)]
    batch = build_batch(sent, codec=source, base_offset=4, producer_id=7, base_sequence=1, producer_epoch=0)
    changed = with_codec(batch, target)
    assert parse_header(changed).codec is target
    assert parse_header(changed).producer_id == 7
    assert contents_of(decode_batch(changed)) == expected_of(sent, 4)


def test_the_base_offset_is_not_covered_by_the_crc():
    batch = bytearray(build_batch([Record(value=b"v")]))
    struct.pack_into(">q", batch, BASE_OFFSET_AT, 2**40)
    struct.pack_into(">i", batch, LEADER_EPOCH_AT, 17)
    header = parse_header(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (2**40, 17)
    assert decode_batch(batch)[0].offset == 2**40


@pytest.mark.parametrize("size", [100, 65_536 - HEADER_SIZE, 65_536, 300_000])
def test_crc_of_every_kind_of_buffer(size):
    batch = build_batch([Record(value=bytes(range(256)) * (size // 256 + 1))])
    expected = google_crc32c.value(batch[ATTRIBUTES_AT:])
    assert batch_crc(batch) == batch_crc(bytearray(batch)) == batch_crc(memoryview(batch)) == expected
    assert int.from_bytes(batch[CRC_AT : CRC_AT + 4], "big") == expected


@given(parts=st.lists(batches, max_size=4), cut=st.integers(0, 200))
def test_iter_batches_leaves_out_an_incomplete_last_one(parts, cut):
    whole = [build_batch(sent) for sent in parts]
    data = b"".join(whole) + build_batch([Record(value=b"v" * 200)])[:cut]
    assert [bytes(batch) for _, batch in iter_batches(data)] == whole


@pytest.mark.parametrize("counts", [[1], [3], [1, 1, 1], [2, 5, 1], [1] * 50])
def test_the_end_of_batches_is_behind_the_last_one(counts):
    data, offset = b"", 7
    for count in counts:
        batch = build_batch([Record(0, 0, None, b"v" * count, []) for _ in range(count)])
        data += struct.pack(">q", offset) + batch[8:]
        offset += count
    for view in (data, memoryview(data)):
        assert end_of_batches(view) == offset


class TestBatchBuilder:
    def test_it_is_what_build_batch_makes(self):
        builder = BatchBuilder(codec=Codec.ZSTD)
        sent = [Record(0, 10, b"a", b"b"), Record(0, 7, None, b"c", [("h", None)])]
        assert [builder.append(r.key, r.value, r.timestamp_ms, r.headers) for r in sent] == [0, 1]
        assert builder.build(base_offset=4, producer_id=1) == build_batch(
            sent, codec=Codec.ZSTD, base_offset=4, producer_id=1
        )
        assert (builder.count, builder.max_timestamp_ms) == (2, 10)

    @given(sent=batches)
    def test_its_size_is_exact_without_compression(self, sent):
        builder = BatchBuilder()
        for record in sent:
            before = builder.estimated_size
            builder.append(record.key, record.value, record.timestamp_ms, record.headers)
            bound = record_size_bound(record.key, record.value, record.headers)
            assert before < builder.estimated_size <= before + bound
        assert builder.estimated_size == len(builder.build())

    def test_it_can_be_built_again_and_go_on(self):
        builder = BatchBuilder(codec=Codec.GZIP)
        builder.append(None, b"a", 1)
        first = builder.build(producer_id=1, producer_epoch=0, base_sequence=5)
        again = builder.build(producer_id=1, producer_epoch=1, base_sequence=0)
        assert parse_header(again).producer_epoch == 1
        assert contents_of(decode_batch(first)) == contents_of(decode_batch(again))
        builder.append(None, b"b", 2)
        assert [r.value for r in decode_batch(builder.build())] == [b"a", b"b"]

    def test_compression_is_estimated_by_the_ratio_and_measured_by_building(self):
        builder = BatchBuilder(codec=Codec.GZIP, compression_ratio=0.5)
        builder.append(None, b"a" * 1000, 1)
        assert 500 < builder.estimated_size - HEADER_SIZE < 520
        assert builder.achieved_ratio == 0.5
        built = builder.build()
        assert builder.achieved_ratio == pytest.approx((len(built) - HEADER_SIZE) / 1011, rel=0.01)

    def test_an_empty_batch_is_refused(self):
        with pytest.raises(ValueError, match="at least one"):
            BatchBuilder().build()


def test_a_batch_without_records_as_compaction_leaves_them_can_be_read():
    empty = batch_of(b"", 0, last_delta=1, times_ms=(5, 6))
    assert decode_batch(empty) == []
    assert parse_header(empty).last_offset == 1


@given(value=int64s)
def test_any_timestamp_delta_survives(value):
    batch = build_batch([Record(0, 0), Record(0, value)])
    assert decode_batch(batch)[1].timestamp_ms == value


def test_offset_deltas_of_two_and_three_bytes():
    decoded = decode_batch(build_batch([Record()] * 20_000))
    assert [r.offset for r in decoded] == list(range(20_000))


def test_a_wrong_crc_is_found_unless_told_not_to_look():
    batch = bytearray(build_batch([Record(value=b"v")]))
    batch[-2] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        decode_batch(batch)
    assert decode_batch(batch, verify_crc=False)[0].value == b"w"
