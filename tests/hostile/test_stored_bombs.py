"""Batches of few bytes that hold millions of records: whether they are let in, and what looking into them costs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.engine import Corrupt, OffsetAndTimestamp
from ottla.broker.storage.lookup import PIECE_BYTES, search
from ottla.protocol.apis import ApiKey
from ottla.protocol.batch import parse_header
from ottla.protocol.compression import Codec
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import MOST_RECORDS
from ottla.protocol.steps import finished
from tests.hostile.bombs import SMALLEST, bomb, longest_step, sealed
from tests.hostile.victim import Victim
from tests.support.client import Client
from tests.support.memory import allocations

MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim() as running:
        yield running


class OneBatch:
    """A log that has nothing else."""

    def __init__(self, batch: bytes) -> None:
        self.batch = batch

    def batch_for_timestamp(self, timestamp_ms: int, from_offset: int) -> bytes | None:
        return self.batch if from_offset <= parse_header(self.batch).last_offset else None


@pytest.mark.e2e
@pytest.mark.parametrize("count", [MOST_RECORDS + 1, 15_000_000])
def test_more_records_than_anybody_sends_are_refused(victim: Victim, count: int) -> None:
    victim.forget_peak()
    before = victim.peak_bytes()
    with Client(victim.port) as client:
        told = client.produce(client.topic(), bomb(count))
    assert told.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert victim.peak_bytes() - before < 20 << 20


@pytest.mark.e2e
def test_a_count_that_the_bytes_cannot_hold_is_refused(victim: Victim) -> None:
    with Client(victim.port) as client:
        topic = client.topic()
        told = client.produce(topic, sealed(1_000, SMALLEST * 999, Codec.NONE))
        assert told.error_code == ErrorCode.INVALID_RECORD
        assert client.produce(topic, sealed(1, SMALLEST, Codec.NONE)).base_offset == 0


@pytest.mark.e2e
def test_many_searches_in_a_bomb_delay_nobody(victim: Victim) -> None:
    """The header promises a time that no record has, so all of them are looked at."""
    clients = [Client(victim.port) for _ in range(6)]
    topic = clients[0].topic()
    assert clients[0].produce(topic, bomb(MOST_RECORDS, ahead_ms=MINUTE_MS)).error_code == 0
    wanted = int(time.time() * 1000) + MINUTE_MS // 2
    victim.forget_peak()
    before, cpu_s = victim.peak_bytes(), victim.cpu_s()
    with victim.calm() as felt:
        for client in clients:
            client.start(ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=looking(topic, wanted))
        rows = [client.answer().topics[0].partitions[0] for client in clients]
    assert {(row.error_code, row.offset) for row in rows} == {(0, -1)}
    assert felt.longest_ms < 1_000
    assert victim.peak_bytes() - before < 60 << 20
    assert victim.cpu_s() - cpu_s < 6


def looking(topic: str, timestamp_ms: int) -> list[dict[str, Any]]:
    place = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp_ms}
    return [{"name": topic, "partitions": [place]}]


@pytest.mark.e2e
@pytest.mark.parametrize("codec", Codec)
def test_large_batches_are_searched_rightly(victim: Victim, codec: Codec) -> None:
    """The largest time, and the first record at or after a time, of a batch that is not looked at in one go."""
    with Client(victim.port) as client:
        topic = client.topic()
        batch = bomb(100_000, codec=codec)
        assert client.produce(topic, batch).error_code == 0
        assert client.produce(topic, batch).base_offset == 100_000
        written_ms = parse_header(batch).max_timestamp
        for wanted in (-3, 0, written_ms):
            row = client.offset(topic, wanted)
            assert (row.error_code, row.offset, row.timestamp) == (0, 0, written_ms)
        assert client.offset(topic, written_ms + 1).offset == -1


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY])
def test_a_search_holds_a_piece_of_a_batch_at_a_time(codec: Codec) -> None:
    log = OneBatch(bomb(60_000, codec=codec, ahead_ms=MINUTE_MS))
    with allocations() as allocated:
        steps = search(log, parse_header(log.batch).max_timestamp, 0)
        assert finished(steps) is None
    assert allocated.bytes < 5 * PIECE_BYTES


def test_a_search_stops_at_the_hit() -> None:
    batch = bomb(200_000, codec=Codec.GZIP)
    steps = search(OneBatch(batch), 0, 0)
    taken = 0
    step = next(steps)
    with pytest.raises(StopIteration) as ended:
        while True:
            assert callable(step)
            taken += 1
            step = steps.send(step())
    assert ended.value.value == OffsetAndTimestamp(0, parse_header(batch).base_timestamp)
    assert taken == 1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("there", [99_999, 100_001])
def test_a_count_that_lies_is_found_out(codec: Codec, there: int) -> None:
    batch = sealed(100_000, SMALLEST * there, codec, MINUTE_MS)
    with pytest.raises(Corrupt, match="missing at the end"):
        finished(search(OneBatch(batch), parse_header(batch).max_timestamp, 0))


def test_what_follows_the_last_record_is_not_gathered() -> None:
    """It was copied with every piece: a minute of the loop's time for a batch of two kilobytes."""
    batch = sealed(40, SMALLEST * 40 + bytes(100 * PIECE_BYTES), Codec.ZSTD, MINUTE_MS)
    steps = search(OneBatch(batch), parse_header(batch).max_timestamp, 0)
    step, pieces = next(steps), 0
    with pytest.raises(Corrupt, match="do not end there"):
        while callable(step):
            pieces += 1
            step = steps.send(step())
    assert pieces == 1


def test_a_record_of_no_length_does_not_stand_still() -> None:
    batch = sealed(100_000, b"\x01" * 700_000, Codec.ZSTD, MINUTE_MS)
    with pytest.raises(Corrupt, match="a record of -1 bytes"):
        finished(search(OneBatch(batch), parse_header(batch).max_timestamp, 0))


@pytest.mark.parametrize("codec", Codec)
def test_no_step_of_a_search_takes_long(codec: Codec) -> None:
    log = OneBatch(bomb(MOST_RECORDS, codec=codec, ahead_ms=MINUTE_MS))
    longest_s, found = longest_step(search(log, parse_header(log.batch).max_timestamp, 0))
    assert found is None
    assert longest_s < 0.03
