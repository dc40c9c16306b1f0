"""Records found in the bytes of a log: what is taken, what is left out, and where it goes on."""

import importlib
import random

import cramjam
import pytest
from crc32c import crc32c

from ottla.pipeline.codec import records as hopping
from ottla.pipeline.codec import walk
from ottla.protocol import compression
from ottla.protocol.compression import Codec
from ottla.protocol.records import Record, TimestampType, with_codec
from tests.pipeline.codec.logs import CODECS, TIME, chunk_rows, compacted, log_of, plain, records
from tests.support.batches import build_batch

walking = importlib.import_module("ottla.pipeline.codec.walk")  # the package has the function under this name


@pytest.fixture(params=[1, 48, 1 << 30], ids=["lockstep", "both", "one by one"])
def narrow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever way batches are hopped through, they say the same."""
    monkeypatch.setattr(hopping, "_NARROW", request.param)


def mixed_log(count: int = 120) -> bytes:
    """Batches of many sizes, with long and short records, with headers, without keys and without values."""
    rng = random.Random(7)
    batches, offset = [], 100
    for _ in range(count):
        some = [
            Record(
                key=rng.choice([None, b"", rng.randbytes(rng.randrange(90))]),
                value=rng.choice([None, b"", rng.randbytes(rng.choice([3, 70, 200, 20_000]))]),
                timestamp_ms=TIME + rng.randrange(-(1 << rng.randrange(40)), 1 << 40),
                headers=[(f"h{i}", rng.choice([None, b"", b"x" * 100])) for i in range(rng.choice([0, 0, 0, 1, 3]))],
            )
            for _ in range(rng.choice([1, 2, 5, 70]))
        ]
        batches.append(build_batch(some, base_offset=offset, codec=rng.choice([Codec.NONE, Codec.NONE, *CODECS])))
        offset += len(some) + rng.choice([0, 0, 9])
    return b"".join(batches)


def test_all_kinds_of_batches(narrow: None) -> None:
    log = mixed_log()
    chunk = walk(log, topic="t", partition=3)
    assert (chunk.topic, chunk.partition) == ("t", 3)
    assert chunk_rows(chunk) == plain(log)
    assert len(chunk) > 1000
    assert (chunk.consumed, chunk.partial_size, chunk.damage) == (len(log), 0, ())
    assert chunk.next_offset >= int(chunk.offsets[-1]) + 1


@pytest.mark.parametrize("codec", CODECS)
def test_compressed(codec: Codec) -> None:
    log = log_of([records(40, size=100), records(1), records(3, start=41)], codec=codec)
    assert chunk_rows(walk(log)) == plain(log)


def test_snappy_without_framing() -> None:
    framed = build_batch(records(5), codec=Codec.SNAPPY)
    bare = bytes(cramjam.snappy.compress_raw(build_batch(records(5))[61:]))
    assert b"SNAPPY" in framed
    assert chunk_rows(walk(framed)) == plain(with_codec(framed, Codec.NONE)) == chunk_rows(walk(sealed(framed, bare)))


def sealed(batch: bytes, body: bytes) -> bytes:
    """The batch with another records section and the checksum that it then has."""
    covered = batch[21:61] + body
    head = batch[:8] + (len(covered) + 9).to_bytes(4, "big") + batch[12:17]
    return head + crc32c(covered).to_bytes(4, "big") + covered


def test_a_range_of_offsets() -> None:
    log = log_of([records(5), records(5, start=5), records(5, start=10)])
    for start in range(16):
        for end in range(start, 17):
            chunk = walk(log, start_offset=start, end_offset=end)
            assert chunk_rows(chunk) == plain(log, start, end)
            assert chunk.next_offset >= min(end, 15)
    # What begins behind the end is not walked over, but it tells that the end was reached.
    chunk = walk(log, start_offset=3, end_offset=5)
    assert (chunk.consumed, chunk.next_offset) == (len(build_batch(records(5))), 5)


def test_a_first_batch_that_begins_below() -> None:
    log = build_batch(records(10), base_offset=90)
    chunk = walk(log, start_offset=97)
    assert chunk.offsets.tolist() == [97, 98, 99]
    assert chunk.next_offset == 100


def test_holes_of_compaction() -> None:
    holed = compacted(build_batch(records(10), base_offset=20), [1, 5, 6])
    emptied = compacted(build_batch(records(4), base_offset=30), [])
    last = compacted(build_batch(records(10), base_offset=40), [0])
    chunk = walk(holed + emptied + last)
    assert chunk.offsets.tolist() == [21, 25, 26, 40]
    assert chunk.timestamps.tolist() == [TIME + 1, TIME + 5, TIME + 6, TIME]
    assert (chunk.next_offset, chunk.damage) == (50, ())
    assert walk(emptied).next_offset == 34


def test_log_append_time() -> None:
    batch = build_batch(records(3), timestamp_type=TimestampType.LOG_APPEND_TIME)
    chunk = walk(batch + build_batch(records(1), base_offset=3))
    assert chunk.timestamps.tolist() == [TIME + 2] * 3 + [TIME]
    assert chunk.append_time.tolist() == [True] * 3 + [False]


def test_nothing() -> None:
    chunk = walk(b"", start_offset=8)
    assert (len(chunk), chunk.next_offset, chunk.consumed, chunk.partial_size, chunk.damage) == (0, 8, 0, 0, ())


def test_a_batch_that_is_cut_off() -> None:
    log = log_of([records(3), records(2, start=3), records(4, start=5)])
    bounds = [0, len(build_batch(records(3))), len(log_of([records(3), records(2)])), len(log)]
    for size in range(len(log)):
        chunk = walk(memoryview(log)[:size])
        whole = max(index for index, bound in enumerate(bounds) if bound <= size)
        assert chunk.consumed == bounds[whole]
        assert chunk.next_offset == (0, 3, 5, 9)[whole]
        assert chunk_rows(chunk) == plain(log[: bounds[whole]])
        header_is_there = size - bounds[whole] >= 61
        assert chunk.partial_size == (bounds[whole + 1] - bounds[whole] if header_is_there else 0)
        assert chunk.damage == ()


def test_going_on_behind_what_was_consumed() -> None:
    log = mixed_log(40)
    found, at, offset = [], 0, 0
    size = 5000
    while at < len(log):
        chunk = walk(log[at : at + size], start_offset=offset)
        found += chunk_rows(chunk)
        at, offset = at + chunk.consumed, chunk.next_offset
        size = max(5000, chunk.partial_size)
    assert found == plain(log)


def test_zeros_behind_the_last_batch_of_a_segment() -> None:
    """Segments are allocated in advance (``log.preallocate``)."""
    log = build_batch(records(3))
    chunk = walk(log + bytes(1000))
    assert (len(chunk), chunk.consumed, chunk.next_offset, chunk.damage) == (3, len(log), 3, ())


def test_what_is_opened_is_bounded() -> None:
    batches = [build_batch([Record(value=bytes(50_000))], base_offset=i, codec=Codec.ZSTD) for i in range(6)]
    log = b"".join(batches)
    chunk = walk(log, max_bytes=120_000)
    assert chunk.offsets.tolist() == [0, 1]
    assert (chunk.next_offset, chunk.consumed) == (2, len(batches[0]) * 2)
    assert walk(log, max_bytes=10).offsets.tolist() == [0]
    found, at = [], 0
    while at < len(log):
        chunk = walk(log[at:], max_bytes=10)
        found += chunk.offsets.tolist()
        at += chunk.consumed
    assert found == list(range(6))


def test_how_many_records_are_taken_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "MAX_CHUNK_RECORDS", 10)
    log = log_of([records(20), records(6), records(4), records(1)])
    chunk = walk(log)
    assert (len(chunk), chunk.next_offset) == (30, 30)  # the first batch, whatever it has, and ten more
    found = chunk_rows(chunk) + chunk_rows(walk(log[chunk.consumed :], start_offset=30))
    assert found == plain(log)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_damage(codec: Codec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression.decompress, "__kwdefaults__", {"limit": 1 << 20})
    bomb = build_batch([Record(value=bytes(2 << 20))], codec=codec)
    chunk = walk(bomb + build_batch(records(1), base_offset=1))
    assert chunk.offsets.tolist() == [1]
    (damage,) = chunk.damage
    assert (damage.offset, damage.next_offset) == (0, 1)
    assert "1048576 bytes allowed" in damage.reason


def test_the_buffer_may_change_afterwards() -> None:
    buffer = bytearray(build_batch(records(2)))
    chunk = walk(buffer)
    buffer[:] = bytes(len(buffer))
    assert chunk.value(1) == b"v1"
