"""Batches with records taken out: our decoder and kafka-python's read the same of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from ottla.protocol.batch_filter import delete_horizon, stored_records, with_records, without_records
from ottla.protocol.compression import Codec
from ottla.protocol.records import (
    CorruptBatch,
    Record,
    TimestampType,
    check_crc,
    decode_batch,
    decompressed_records,
    parse_header,
)
from tests.support.batches import build_batch

texts = st.none() | st.binary(max_size=20)
rows = st.lists(
    st.tuples(st.integers(0, 2**40), texts, texts, st.lists(st.tuples(st.text(max_size=5), texts), max_size=2)),
    min_size=1,
    max_size=12,
)


def kafka_python(data):
    """Offset, timestamp, key, value and headers of every record, as kafka-python reads them."""
    records = MemoryRecords(bytes(data))
    batch = records.next_batch()
    assert batch.validate_crc()
    return [(each.offset, each.timestamp, each.key, each.value, list(each.headers)) for each in batch]


@given(rows, st.data(), st.sampled_from(list(Codec)), st.sampled_from(list(TimestampType)), st.booleans())
def test_what_stays_is_what_it_was(rows, data, codec, timestamp_type, decide):
    batch = build_batch(
        [Record(0, *row) for row in rows],
        base_offset=1000,
        codec=codec,
        timestamp_type=timestamp_type,
        producer_id=5,
        producer_epoch=2,
        base_sequence=7,
        leader_epoch=3,
    )
    header, before = parse_header(batch), decode_batch(batch)
    body = decompressed_records(header, batch)
    stored = list(stored_records(header, body))
    assert [(each.offset, each.key, each.is_tombstone) for each in stored] == [
        (record.offset, record.key, record.value is None) for record in before
    ]
    places = data.draw(st.sets(st.integers(0, len(rows) - 1), min_size=1))
    horizon = data.draw(st.integers(0, 2**41)) if decide else None
    left = with_records(header, body, [stored[place] for place in sorted(places)], horizon_ms=horizon)
    found = parse_header(left)
    check_crc(found, left)
    expected = [before[place] for place in sorted(places)]
    assert decode_batch(left) == expected
    assert delete_horizon(found) == horizon
    assert (found.base_offset, found.last_offset, found.size) == (1000, header.last_offset, len(left))
    assert (found.producer_id, found.producer_epoch, found.base_sequence, found.codec) == (5, 2, 7, codec)
    assert found.last_sequence == header.last_sequence
    assert [row[:4] for row in kafka_python(left)] == [
        (record.offset, record.timestamp_ms, record.key, record.value) for record in expected
    ]


def test_nothing_may_stay_but_the_header():
    batch = build_batch(
        [Record(0, 50, b"k", None)] * 3,
        base_offset=9,
        codec=Codec.ZSTD,
        producer_id=5,
        producer_epoch=2,
        base_sequence=7,
    )
    left = without_records(parse_header(batch))
    found = parse_header(left)
    check_crc(found, left)
    assert (decode_batch(left), kafka_python(left)) == ([], [])
    assert (found.base_offset, found.last_offset, found.last_sequence, found.max_timestamp) == (9, 11, 9, 50)
    assert (found.codec, found.record_count, delete_horizon(found), len(left)) == (Codec.NONE, 0, None, 61)
    header = parse_header(batch)
    with pytest.raises(ValueError, match="without_records"):
        with_records(header, decompressed_records(header, batch), [], horizon_ms=None)


@given(rows, st.data())
def test_damaged_records_are_told_from_others(rows, data):
    batch = build_batch([Record(0, *row) for row in rows])
    header = parse_header(batch)
    body = bytearray(decompressed_records(header, batch))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(body)))
    for damaged in (bytes(body), bytes(body[:cut])):
        try:
            found = list(stored_records(header, damaged))
        except CorruptBatch:
            continue
        assert len(found) == header.record_count
        assert all(0 <= each.start <= each.rest <= each.end <= len(damaged) for each in found)
