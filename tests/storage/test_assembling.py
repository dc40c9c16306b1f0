"""A directory that is put together of batches from elsewhere, as an engine opens it."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from ottla.broker.engine import EpochEnd, LogConfig
from ottla.broker.storage.local.assembling import Assembly
from ottla.broker.storage.local.engine import LocalEngine
from ottla.protocol.batch import LEADER_EPOCH_AT, MAGIC_AT
from ottla.protocol.records import Record, TopicPartition
from tests.support.batches import build_batch

TOPIC_ID = uuid.UUID(int=7)
STATE = {"format": 1, "next_producer_id": 0, "topics": {}}


def batch(base: int, count: int = 1, *, epoch: int = 3, timestamp_ms: int = 1_000) -> bytes:
    """A batch as it lies in a log."""
    data = bytearray(build_batch([Record(index, timestamp_ms, None, b"v" * 50) for index in range(count)]))
    data[:8] = base.to_bytes(8, "big")
    data[LEADER_EPOCH_AT:MAGIC_AT] = epoch.to_bytes(4, "big")
    return bytes(data)


def assembled(path: Path, batches: list[bytes], start: int, end: int, config: LogConfig | None = None) -> None:
    """A directory with one log."""
    assembly = Assembly(str(path), "A" * 22, 1, 5, lambda: uuid.UUID(int=9))
    log = assembly.begin(TopicPartition("t", 0), TOPIC_ID, config or LogConfig(), start, end, {1: 0, 3: 4})
    for one in batches:
        log.put([one])
    assembly.finish(STATE)
    assembly.close()


@pytest.mark.parametrize(
    ("batches", "start", "end"),
    [
        ([batch(0, 3), batch(3)], 0, 4),
        ([batch(10, 5), batch(15)], 12, 16),
        ([batch(7), batch(20)], 0, 21),
        ([batch(7), batch(20)], 3, 30),
        ([], 9, 9),
    ],
    ids=["whole", "it begins within a batch", "its first batches are gone", "its last ones, too", "all are gone"],
)
@pytest.mark.asyncio
async def test_a_log_is_what_it_was(tmp_path: Path, batches: list[bytes], start: int, end: int) -> None:
    assembled(tmp_path / "data", batches, start, end)
    appended: list[object] = []
    for life in (6, 7):
        engine = LocalEngine(str(tmp_path / "data"), node_id=1, new_uuid=uuid.uuid4)
        await engine.open()
        assert (engine.cluster_id, engine.leader_epoch, engine.was_clean) == ("A" * 22, life, True)
        assert engine.catalog.load() == STATE
        log = await engine.open_log("t", TOPIC_ID, 0, LogConfig())
        assert (log.log_start_offset, log.high_watermark, engine.recovered) == (start, end, [])
        assert log.read(start, max_bytes=1 << 20) == b"".join(batches)
        assert log.epoch_end(2) == (EpochEnd(1, 4) if end else EpochEnd(-1, -1))
        if life == 7:
            log.append(batch(0), count=1, max_timestamp_ms=1, done=lambda *told: appended.append(told))
        await engine.close()
    assert appended == [(end, None)]


@pytest.mark.asyncio
async def test_its_segments_are_those_that_its_settings_want(tmp_path: Path) -> None:
    batches = [batch(0), batch(1), batch(2), batch(3, timestamp_ms=1_000_000), batch(4, timestamp_ms=1_000_001)]
    config = LogConfig(segment_bytes=2 * len(batches[0]), segment_ms=60_000)
    assembled(tmp_path / "data", batches, 0, 5, config)
    engine = LocalEngine(str(tmp_path / "data"), node_id=1, new_uuid=uuid.uuid4)
    await engine.open()
    log = await engine.open_log("t", TOPIC_ID, 0, config)
    assert [(one.base_offset, one.is_closed) for one in log.segments()] == [(0, True), (2, True), (3, False)]
    assert [one.max_timestamp_ms for one in log.segments()] == [1_000, 1_000, 1_000_001]
    await engine.close()
