"""Batches from somebody who means harm: every one is an error, soon and cheaply."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import (
    ATTRIBUTES_AT,
    HEADER_SIZE,
    RECORD_COUNT_AT,
    BatchError,
    BatchTooLarge,
    CorruptBatch,
    InvalidBatch,
    Record,
    decode_batch,
    iter_batches,
    parse_header,
)
from ottla.protocol.varints import encode_varint, read_varint, read_varlong
from tests.protocol.produced import batch_of, sealed, validate_produced
from tests.support.batches import build_batch

SAMPLE = [Record(0, 1000 + index, b"key%d" % index, b"v" * 70 * index, [("h", b"x" * index)]) for index in range(4)]


def patched(position, form, value):
    """The sample with a number in its header changed."""
    batch = bytearray(build_batch(SAMPLE))
    struct.pack_into(form, batch, position, value)
    return batch


READERS = [decode_batch, validate_produced]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("codec", Codec)
def test_truncated_at_every_byte(read, codec):
    batch = build_batch(SAMPLE, codec=codec)
    read(batch)
    for size in range(len(batch)):
        with pytest.raises(BatchError):
            read(batch[:size])
        assert list(iter_batches(batch[:size])) == []


@pytest.mark.parametrize("read", READERS)
def test_records_truncated_at_every_byte_behind_a_right_crc(read):
    body = build_batch(SAMPLE)[HEADER_SIZE:]
    read(batch_of(body, 4))
    for size in range(len(body)):
        with pytest.raises(InvalidBatch if read is validate_produced else CorruptBatch):
            read(batch_of(body[:size], 4))


@given(position=st.integers(0, 600), byte=st.integers(0, 255))
def test_any_changed_byte_is_noticed_or_harmless(position, byte):
    batch = bytearray(build_batch(SAMPLE))
    position %= len(batch)
    batch[position] = byte
    for read in READERS:
        with contextlib.suppress(BatchError):
            read(bytes(batch))
        with contextlib.suppress(BatchError):
            read(sealed(batch))


@given(body=st.binary(max_size=100), count=st.integers(0, 10))
def test_any_bytes_as_records_raise_nothing_but_batch_errors(body, count):
    for read in READERS:
        with contextlib.suppress(BatchError):
            read(batch_of(body, count))


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("count", [3, 5, 2**31 - 1])
def test_record_counts_are_held_against_the_bytes(read, count):
    with pytest.raises(BatchError):
        read(sealed(patched(RECORD_COUNT_AT, ">i", count)))


def test_negative_counts_and_lengths_are_refused():
    for position, value in ((RECORD_COUNT_AT, -1), (23, -1), (8, 48), (8, -1)):
        with pytest.raises(CorruptBatch):
            parse_header(patched(position, ">i", value))


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_other_magics_are_refused(magic):
    with pytest.raises(CorruptBatch, match=f"magic {magic}"):
        parse_header(patched(16, ">b", magic))


def record(body):
    return encode_varint(len(body)) + body


@pytest.mark.parametrize(
    "body",
    [
        b"\x80" * 40,
        b"\xff" * 400,
        encode_varint(-5) + b"\x00" * 10,
        encode_varint(2**31 - 1) + b"\x00" * 10,
        # A key, a value and a header that reach beyond their record.
        record(b"\x00\x00\x00" + encode_varint(50) + b"k" * 4) + b"k" * 60,
        record(b"\x00\x00\x00\x01" + encode_varint(50) + b"v" * 4) + b"v" * 60,
        record(b"\x00\x00\x00\x01\x01\x02\x02h" + encode_varint(50)) + b"v" * 60,
        # A million headers in nothing, fewer than none, one without a name, one whose name is not UTF-8.
        record(b"\x00\x00\x00\x01\x01" + encode_varint(10**6)),
        record(b"\x00\x00\x00\x01\x01" + encode_varint(-1)),
        record(b"\x00\x00\x00\x01\x01\x02\x01\x01"),
        record(b"\x00\x00\x00\x01\x01\x02\x02\xff\x01"),
        # Bytes left over in the record, and after it.
        record(b"\x00\x00\x00\x01\x01\x00\x00"),
        record(b"\x00\x00\x00\x01\x01\x00") + b"\x00",
        # An offset delta that needs more than 32 bits, and a timestamp that needs more than 64.
        record(b"\x00\x00\xff\xff\xff\xff\x1f\x01\x01\x00"),
        record(b"\x00" + b"\xff" * 9 + b"\x03" + b"\x00\x01\x01\x00"),
    ],
)
@pytest.mark.parametrize("read", READERS)
def test_malformed_records(read, body):
    """Under a CRC that fits. A producer is told that they are invalid, which is final; damaged would be retried."""
    with pytest.raises(InvalidBatch if read is validate_produced else CorruptBatch) as caught:
        read(batch_of(body, 1))
    if read is validate_produced:
        assert caught.value.error_code is ErrorCode.INVALID_RECORD


def test_a_timestamp_beyond_int64_is_refused_on_produce():
    batch = bytearray(batch_of(record(b"\x00" + encode_varint(5) + b"\x00\x01\x01\x00"), 1))
    struct.pack_into(">q", batch, 27, 2**63 - 2)
    with pytest.raises(InvalidBatch, match="1 records out of the range of time"):
        validate_produced(sealed(batch))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_too_large_and_says_so(codec):
    bomb = batch_of(bytes(4_000_000), 1, codec=codec)
    with pytest.raises(BatchTooLarge, match="1000000"):
        decode_batch(bomb, max_decompressed_bytes=1_000_000)
    with pytest.raises(BatchTooLarge, match="1000000"):
        validate_produced(bomb, max_decompressed_bytes=1_000_000)


def test_unknown_codecs_are_corrupt():
    for codec in (5, 6, 7):
        with pytest.raises(CorruptBatch, match=f"codec {codec}"):
            decode_batch(sealed(patched(ATTRIBUTES_AT, ">h", codec)))


@given(value=st.integers(-(2**31), 2**31 - 1))
def test_varints_of_32_bits(value):
    encoded = encode_varint(value)
    assert len(encoded) <= 5
    assert read_varint(encoded, 0) == (value, len(encoded))
    for size in range(len(encoded)):
        with pytest.raises(IndexError):
            read_varint(encoded[:size], 0)


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_varints_of_64_bits(value):
    encoded = encode_varint(value)
    assert len(encoded) <= 10
    assert read_varlong(encoded, 0) == (value, len(encoded))


class Endless:
    """Bytes that never end a varint, and a count of how many were looked at."""

    def __init__(self):
        self.looked_at = 0

    def __getitem__(self, position):
        self.looked_at += 1
        return 0x80


def test_endless_varints_are_given_up_early():
    endless = Endless()
    with pytest.raises(ValueError, match="5 bytes"):
        read_varint(endless, 0)
    with pytest.raises(ValueError, match="10 bytes"):
        read_varlong(endless, 0)
    assert endless.looked_at < 20
    with pytest.raises(ValueError, match="32 bits"):
        read_varint(b"\xff\xff\xff\xff\x7f", 0)
    with pytest.raises(ValueError, match="64 bits"):
        read_varlong(b"\xff" * 9 + b"\x02", 0)
