"""The markers that end transactions, byte by byte, and what is made of odd ones."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.records import (
    BatchBuilder,
    CorruptBatch,
    EndOfTransaction,
    InvalidBatch,
    build_marker,
    decode_batch,
    parse_header,
    parse_marker,
)
from tests.protocol.produced import validate_produced


def control(key, value):
    builder = BatchBuilder(is_transactional=True, is_control=True)
    builder.append(key, value, 0)
    return builder.build(producer_id=1, producer_epoch=0)


@given(st.booleans(), st.integers(-1, 2**31 - 1), st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1))
def test_there_and_back(commit, coordinator_epoch, producer_id, producer_epoch):
    end = EndOfTransaction(commit, coordinator_epoch)
    batch = build_marker(
        end, producer_id=producer_id, producer_epoch=producer_epoch, timestamp_ms=1_700_000_000_000, base_offset=9
    )
    header = parse_header(batch)
    assert header.is_control and header.is_transactional and header.size == len(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (producer_id, producer_epoch, -1)
    assert (header.base_offset, header.last_offset, header.record_count) == (9, 9, 1)
    assert header.max_timestamp == header.base_timestamp == 1_700_000_000_000
    assert parse_marker(batch) == end


@pytest.mark.parametrize(("commit", "key"), [(False, "00000000"), (True, "00000001")])
def test_key_and_value_are_kafkas(commit, key):
    batch = build_marker(EndOfTransaction(commit, 7), producer_id=1, producer_epoch=2, timestamp_ms=0)
    (record,) = decode_batch(batch)
    assert (record.key.hex(), record.value.hex()) == (key, "000000000007")


def test_newer_versions_may_have_more_fields():
    longer = control(struct.pack(">hhi", 1, 1, 5), struct.pack(">hiq", 1, 3, 9))
    assert parse_marker(longer) == EndOfTransaction(True, 3)


def test_other_control_records_say_nothing_of_transactions():
    assert parse_marker(control(struct.pack(">hh", 0, 2), b"leader change")) is None


def test_an_emptied_control_batch_says_nothing():
    empty = bytearray(build_marker(EndOfTransaction(True, 0), producer_id=1, producer_epoch=0, timestamp_ms=0)[:61])
    struct.pack_into(">i", empty, 8, 61 - 12)
    struct.pack_into(">i", empty, 57, 0)
    assert parse_marker(bytes(empty)) is None


@pytest.mark.parametrize(("key", "value"), [(b"", b""), (None, None), (b"\0\0\0\1", b"\0\0"), (b"\0\0\0\0", None)])
def test_what_is_too_short_is_damaged(key, value):
    with pytest.raises(CorruptBatch, match="too short"):
        parse_marker(control(key, value))


def test_clients_may_not_write_them():
    with pytest.raises(InvalidBatch, match="control"):
        validate_produced(build_marker(EndOfTransaction(True, 0), producer_id=1, producer_epoch=0, timestamp_ms=0))
