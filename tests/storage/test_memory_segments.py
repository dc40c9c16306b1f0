"""Segments of the memory engine: where they end, what compaction puts in their place, and what readers see of it."""

import uuid

import pytest
import pytest_asyncio

from ottla.broker.engine import LogConfig, SegmentInfo
from ottla.broker.storage.memory import MemoryEngine
from ottla.protocol.records import Record, build_batch, iter_batches
from ottla.protocol.steps import finished

pytestmark = pytest.mark.asyncio


class Filled:
    """A log of batches of two records each, and what makes them durable."""

    def __init__(self):
        self.scheduled = []
        ids = iter(range(1, 100))
        self.engine = MemoryEngine(new_uuid=lambda: uuid.UUID(int=next(ids)), call_soon=self.scheduled.append)

    async def open(self, **config):
        await self.engine.open()
        self.log = self.engine.open_log("t", uuid.UUID(int=99), 0, LogConfig(**config))
        return self

    def append(self, timestamp_ms=0):
        batch = build_batch([Record(0, timestamp_ms, b"k", b"v"), Record(0, timestamp_ms, b"l", b"w")])
        self.log.append(batch, count=2, max_timestamp_ms=timestamp_ms, done=lambda base, error: None)
        while self.scheduled:
            self.scheduled.pop(0)()
        return len(batch)

    def batch(self, base_offset, count=1):
        return build_batch([Record(0, 7, b"new", b"")] * count, base_offset=base_offset, leader_epoch=0)

    def bounds(self):
        return [(segment.base_offset, segment.next_offset, segment.is_closed) for segment in self.log.segments()]

    def offsets(self, start=0):
        return [header.base_offset for header, _ in iter_batches(self.log.read(start, max_bytes=1 << 20))]


@pytest_asyncio.fixture
async def filled():
    """Four batches; the first three in closed segments of their own."""
    filled = await Filled().open()
    for at in (100, 300, 200):
        filled.append(at)
        await filled.log.roll()
    filled.append(400)
    return filled


async def test_an_empty_log_has_no_segments():
    filled = await Filled().open()
    assert filled.log.segments() == []
    await filled.log.roll()
    assert filled.log.segments() == []


async def test_a_segment_ends_before_it_grows_too_large():
    size = (await Filled().open()).append()
    filled = await Filled().open(segment_bytes=2 * size)
    for _ in range(5):
        filled.append(50)
    assert filled.log.segments() == [
        SegmentInfo(0, 4, 2 * size, 50, True),
        SegmentInfo(4, 8, 2 * size, 50, True),
        SegmentInfo(8, 10, size, 50, False),
    ]


async def test_a_segment_ends_when_a_record_is_that_much_younger_than_its_first():
    filled = await Filled().open(segment_ms=100)
    for at in (1000, 1100, 1050, 1101, 1150, 1202):
        filled.append(at)
    assert filled.bounds() == [(0, 6, True), (6, 10, True), (10, 12, False)]


async def test_rolling_twice_ends_one_segment():
    filled = await Filled().open()
    filled.append()
    await filled.log.roll()
    await filled.log.roll()
    assert filled.bounds() == [(0, 2, True)]
    filled.append()
    assert filled.bounds() == [(0, 2, True), (2, 4, False)]


async def test_several_segments_become_one(filled):
    before = filled.log.size_bytes
    new = [filled.batch(1), filled.batch(4)]
    await filled.log.replace(0, 6, new)
    assert filled.bounds() == [(0, 6, True), (6, 8, False)]
    assert filled.offsets() == [1, 4, 6]
    assert filled.offsets(2) == [4, 6]
    assert filled.offsets(5) == [6]
    assert filled.log.size_bytes == before // 4 + sum(map(len, new))
    assert (filled.log.log_start_offset, filled.log.log_end_offset, filled.log.high_watermark) == (0, 8, 8)
    assert finished(filled.log.offset_for_timestamp(8)) == (6, 400)


async def test_a_segment_may_become_empty(filled):
    await filled.log.replace(2, 4, [])
    assert filled.bounds() == [(0, 2, True), (2, 4, True), (4, 6, True), (6, 8, False)]
    assert filled.offsets() == [0, 4, 6]
    assert filled.offsets(2) == [4, 6]
    await filled.log.replace(0, 6, [])
    assert filled.bounds() == [(0, 6, True), (6, 8, False)]


@pytest.mark.parametrize(("first", "next_"), [(0, 3), (1, 4), (0, 8), (4, 2), (2, 2), (6, 8)])
async def test_ends_that_are_no_ends_of_closed_segments_are_refused(filled, first, next_):
    with pytest.raises(ValueError, match="closed segments"):
        await filled.log.replace(first, next_, [])
    assert filled.offsets() == [0, 2, 4, 6]


async def test_batches_that_do_not_fit_are_refused(filled):
    for batches in ([filled.batch(1)], [filled.batch(3), filled.batch(2)], [filled.batch(2, 3)]):
        with pytest.raises(ValueError, match="the batch"):
            await filled.log.replace(2, 4, batches)
    assert filled.offsets() == [0, 2, 4, 6]


async def test_segments_go_as_the_log_is_trimmed(filled):
    await filled.log.trim(3)
    assert filled.bounds() == [(2, 4, True), (4, 6, True), (6, 8, False)]
    await filled.log.trim(4)
    assert filled.bounds() == [(4, 6, True), (6, 8, False)]
    await filled.log.trim(8)
    assert filled.bounds() == []
    filled.append()
    assert filled.offsets(8) == [8]


async def test_what_was_cleaned_is_remembered_over_a_restart(filled):
    assert filled.log.cleaned_offset == 0
    filled.log.mark_cleaned(6)
    filled.engine.abandon()
    await filled.engine.open()
    log = filled.engine.open_log("t", uuid.UUID(int=99), 0, LogConfig())
    assert log.cleaned_offset == 6
    assert [segment.base_offset for segment in log.segments()] == [0, 2, 4, 6]
