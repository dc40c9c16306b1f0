"""Logs that are not as they should be: everything sound is read, and of the rest it is said what and where."""

import random
import struct

import pytest

from ottla.pipeline.codec import KINDS, decode, walk
from ottla.protocol.compression import Codec
from ottla.protocol.records import Record
from tests.pipeline.codec.logs import TIME, chunk_rows, commit, log_of, plain, records
from tests.pipeline.codec.test_walk import mixed_log, sealed
from tests.support.batches import build_batch


def log_with(broken: bytes) -> bytes:
    """A batch of three records, the broken one in place of three more, and another one."""
    return build_batch(records(3)) + broken + build_batch(records(1, start=6), base_offset=6)


def test_a_checksum_that_does_not_fit() -> None:
    broken = bytearray(build_batch(records(3, start=3), base_offset=3))
    broken[-2] ^= 1
    chunk = walk(log_with(broken))
    assert chunk.offsets.tolist() == [0, 1, 2, 6]
    assert [tuple(one) for one in chunk.damage] == [(3, "the CRC-32C does not fit", 6)]
    assert chunk.next_offset == 7
    assert not chunk.damage[0].is_fatal
    assert len(walk(log_with(broken), check_crcs=False)) == 7
    rows = decode("quarantine", walk(log_with(broken), topic="__consumer_offsets")).to_pylist()
    assert [row["log_offset"] for row in rows] == [0, 1, 2, 3, 6]
    assert rows[3]["error"] == "damaged batch: the CRC-32C does not fit"


def test_damage_below_the_start_was_told_before() -> None:
    broken = bytearray(build_batch(records(3), base_offset=0))
    broken[-1] ^= 1
    log = bytes(broken) + build_batch(records(1), base_offset=3)
    assert walk(log, start_offset=3).damage == ()
    assert walk(log, start_offset=1).damage[0].offset == 1


def test_a_header_that_does_not_agree_with_itself_is_passed_offset_by_offset() -> None:
    """Its last offset is covered by the checksum that does not fit: to believe it could skip what is sound."""
    broken = bytearray(build_batch(records(3), base_offset=10))
    struct.pack_into(">i", broken, 23, 1 << 30)
    chunk = walk(broken, start_offset=10)
    assert (len(chunk), chunk.next_offset) == (0, 11)
    chunk = walk(bytes(broken) + build_batch(records(2), base_offset=13), start_offset=11)
    assert chunk.offsets.tolist() == [13, 14]
    assert [(one.offset, one.next_offset) for one in chunk.damage] == [(11, 13)]


@pytest.mark.parametrize(
    ("place", "kind", "value", "reason"),
    [
        (16, "b", 0, "magic 0"),
        (16, "b", 1, "magic 1"),
        (16, "b", 3, "magic 3"),
        (8, "i", 48, "a batch length of 48"),
        (8, "i", -5, "a batch length of -5"),
        (8, "i", (1 << 31) - 1, "a batch of 2147483659 bytes"),
        (0, "q", -1, "base offset -1"),
    ],
)
def test_where_nobody_knows_how_to_go_on(place: int, kind: str, value: int, reason: str) -> None:
    broken = bytearray(build_batch(records(3, start=3), base_offset=3))
    struct.pack_into(">" + kind, broken, place, value)
    chunk = walk(log_with(broken))
    assert chunk.offsets.tolist() == [0, 1, 2]
    (damage,) = chunk.damage
    assert damage.is_fatal
    assert damage.offset == chunk.next_offset == 3
    assert reason in damage.reason
    assert chunk.consumed == len(build_batch(records(3)))


def patched(place: int, kind: str, value: int) -> bytes:
    """A sound checksum over a header that says something impossible."""
    batch = bytearray(build_batch(records(3, start=3), base_offset=3))
    struct.pack_into(">" + kind, batch, place, value)
    return sealed(bytes(batch), bytes(batch[61:]))


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (patched(57, "i", -1), "-1 records with last offset delta 2"),
        (patched(57, "i", 4), "4 records with last offset delta 2"),
        (patched(57, "i", 2), "malformed records"),
        (patched(23, "i", -1), "3 records with last offset delta -1"),
        (patched(23, "i", 1 << 20), "base offset 6 behind a batch that reaches further"),
        (patched(21, "h", 5), "unknown compression codec 5"),
        (patched(21, "h", Codec.GZIP), "gzip"),
        (patched(21, "h", Codec.SNAPPY), "snappy"),
        (patched(21, "h", Codec.LZ4), ""),
        (patched(21, "h", Codec.ZSTD), ""),
        (patched(61, "b", 1), "malformed records"),
        (patched(61, "b", 127), "malformed records"),
        (patched(0, "q", 2), "base offset 2"),
    ],
)
def test_a_batch_that_says_what_cannot_be(broken: bytes, reason: str) -> None:
    log = log_with(broken)
    chunk = walk(log)
    assert [one.is_fatal for one in chunk.damage] == [False]
    assert reason in chunk.damage[0].reason
    assert chunk.consumed == len(log)
    assert set(chunk.offsets.tolist()) >= {0, 1, 2}


def test_many_records_are_not_believed_before_they_can_be() -> None:
    batch = bytearray(build_batch(records(1)))
    struct.pack_into(">i", batch, 23, (1 << 31) - 2)
    struct.pack_into(">i", batch, 57, (1 << 31) - 1)
    chunk = walk(sealed(bytes(batch), bytes(batch[61:])))
    assert len(chunk) == 0
    assert "2147483647 records in a batch; more than 4194304 are not read" in chunk.damage[0].reason
    struct.pack_into(">i", batch, 57, 1 << 22)
    assert "4194304 records in 11 bytes" in walk(sealed(bytes(batch), bytes(batch[61:]))).damage[0].reason


def record(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes([len(body) * 2]) + body


@pytest.mark.parametrize(
    "body",
    [
        record(b"\0\0\0\x01\x01\0", b"x"),  # a byte behind the headers
        record(b"\0\0\0\x02k\x01"),  # no headers
        record(b"\0\0\0\x08\x01\0"),  # a key longer than the record
        record(b"\0\0\0\x01\x08\0"),  # a value longer than the record
        record(b"\0\0\0\x01\x01\x02"),  # a header that is not there
        record(b"\0\0\0\x01\x01\x01"),  # -1 headers
        record(b"\0\0\0\x01\x01\x02\x01\x01"),  # a header without a name
        record(b"\0\0\0\x01\x01\x02\x08\x01"),  # a name longer than the record
        record(b"\0\0\0\x01\x01\x02\0\x08"),  # content longer than the record
        record(b"\0\0\0\x01\x01\xfe\xff\xff\xff\x0f"),  # a billion headers
        record(b"\0\0\x02\x01\x01\0"),  # an offset behind the last one of the batch
        record(b"\0\0\x01\x01\x01\0"),  # an offset below the first
        record(b"\0\0\xff\xff\xff\xff\x1f\x01\x01\0"),  # a varint of 33 bits
        record(b"\0\0\xff\xff\xff\xff\xff\x01\x01\x01\0"),  # a varint of six bytes
        record(b"\0" + b"\xff" * 10 + b"\x01\0\x01\x01\0"),  # a varlong of eleven bytes
        record(b"\0" + b"\xff" * 9 + b"\x02\0\x01\x01\0"),  # a varlong of 65 bits
        b"\xff" * 20,
        b"\0" * 7,
        b"\x80" * 7,
        record(b"\0\0\0\x01\x01\0") + b"\0",  # a byte behind the record
    ],
)
@pytest.mark.parametrize("many", [1, 60])
def test_records_that_do_not_parse(body: bytes, many: int) -> None:
    """Among others like them, which are hopped through in lock-step, or alone."""
    good = build_batch([Record(key=None, value=None, timestamp_ms=TIME, headers=[("h", b"v")])])
    log = b"".join(
        offset.to_bytes(8, "big") + one[8:]
        for offset, one in enumerate([sealed(good, body) if i % 2 else good for i in range(1, many * 2)])
    )
    chunk = walk(log)
    assert chunk.offsets.tolist() == [i for i in range(many * 2 - 1) if i % 2]
    assert [tuple(one) for one in chunk.damage] == [
        (i, "malformed records", i + 1) for i in range(many * 2 - 1) if not i % 2
    ]


def test_offsets_have_to_rise_within_a_batch() -> None:
    one, two = record(b"\0\0\0\x01\x01\0"), record(b"\0\0\x02\x01\x01\0")
    batch = build_batch([Record(), Record()])
    assert walk(sealed(batch, one + two)).damage == ()
    for body in (two + one, one + one, two + two):
        chunk = walk(sealed(batch, body))
        assert len(chunk) == 0
        assert len(chunk.damage) == 1


def test_every_single_flipped_bit() -> None:
    """Sound batches around it are read whatever it is, unless it is where the next batch begins that is unknown."""
    log = log_of([[commit("a")], [commit("b"), commit("c")], [commit("d")]])
    sizes = [len(part) for part in (build_batch([commit("a")]), build_batch([commit("b"), commit("c")]))]
    wanted = plain(log)
    for bit in range(sizes[0] * 8, sum(sizes) * 8):
        broken = bytearray(log)
        broken[bit // 8] ^= 1 << bit % 8
        chunk = walk(broken, topic="__consumer_offsets")
        rows = chunk_rows(chunk)
        assert rows[0] == wanted[0]
        place = bit // 8 - sizes[0]
        if place >= 17:  # what the checksum covers
            assert rows == [wanted[0], wanted[3]]
            assert len(chunk.damage) == 1
        elif 12 <= place < 16:  # the leader epoch, which nobody needs
            assert rows == wanted
        for kind in KINDS:
            decode(kind, chunk)


def test_rubbish(rubbish_rounds: int = 400) -> None:
    """Random bytes, and logs with random bytes in them: no error, no hang, and every batch is accounted for."""
    rng = random.Random(11)
    log = mixed_log(12)
    for round_number in range(rubbish_rounds):
        data = bytearray(log if round_number % 2 else rng.randbytes(rng.randrange(300)))
        for _ in range(rng.randrange(1, 20) if data else 0):
            data[rng.randrange(len(data))] = rng.choice([0, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        chunk = walk(data, topic="__consumer_offsets", check_crcs=bool(rng.randrange(2)))
        assert 0 <= chunk.consumed <= len(data)
        total = sum(decode(kind, chunk).num_rows for kind in ("commits", "groups", "quarantine"))
        assert total == len(chunk) + len(chunk.damage)
        assert decode("raw", chunk, headers=True).num_rows == len(chunk)
