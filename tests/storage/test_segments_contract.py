"""What every engine promises of the segments of a log: where they end, what replaces them, what readers see of it."""

import asyncio

import pytest
import pytest_asyncio

from ottla.broker.engine import OffsetAndTimestamp, SegmentInfo, Unavailable
from ottla.broker.runtime.reading import in_turns, read_when_here
from ottla.protocol.records import Record, iter_batches
from tests.support.batches import build_batch


class Filled:
    """A log of batches of two records each."""

    def __init__(self, opened, appends, **config):
        self.opened = opened
        self.appends = appends
        self.config = config

    async def open(self):
        self.log = await self.opened.log(**self.config)
        return self

    async def append(self, timestamp_ms=0):
        batch = build_batch([Record(0, timestamp_ms, b"k", b"v"), Record(0, timestamp_ms, b"l", b"w")])
        before = len(self.appends.reports)
        self.log.append(batch, count=2, max_timestamp_ms=timestamp_ms, done=self.appends.done)
        await self.appends.reported(before + 1)
        assert self.appends.reports[-1][1] is None
        return len(batch)

    async def restart(self):
        await self.opened.restart()
        await self.open()

    def batch(self, base_offset, count=1, timestamp_ms=7):
        records = [Record(0, timestamp_ms, b"new", b"")] * count
        return build_batch(records, base_offset=base_offset, leader_epoch=0)

    def bounds(self):
        return [(segment.base_offset, segment.next_offset, segment.is_closed) for segment in self.log.segments()]

    async def offsets(self, start=None):
        start = self.log.log_start_offset if start is None else start
        data = await read_when_here(self.log, start, max_bytes=1 << 20)
        return [header.base_offset for header, _ in iter_batches(data)]


@pytest_asyncio.fixture
async def filled(opened, appends):
    """Four batches; the first three in closed segments of their own."""
    filled = await Filled(opened, appends).open()
    for at in (100, 300, 200):
        await filled.append(at)
        await filled.log.roll()
    await filled.append(400)
    return filled


async def test_an_empty_log_has_no_segments(opened, appends):
    filled = await Filled(opened, appends).open()
    assert list(filled.log.segments()) == []
    await filled.log.roll()
    assert list(filled.log.segments()) == []
    assert filled.log.cleaned_offset == 0


async def test_a_segment_ends_before_it_grows_too_large(opened, appends):
    size = await (await Filled(opened, appends).open()).append()
    filled = await Filled(opened, appends, partition=1, segment_bytes=2 * size).open()
    for _ in range(5):
        await filled.append(50)
    expected = [
        SegmentInfo(0, 4, 2 * size, 50, True),
        SegmentInfo(4, 8, 2 * size, 50, True),
        SegmentInfo(8, 10, size, 50, False),
    ]
    assert list(filled.log.segments()) == expected
    await filled.restart()
    assert list(filled.log.segments()) == expected
    await filled.append(50)
    assert filled.bounds()[-1] == (8, 12, False)


async def test_a_segment_ends_when_a_record_is_that_much_younger_than_its_first(opened, appends):
    filled = await Filled(opened, appends, segment_ms=100).open()
    for at in (1000, 1100, 1050, 1101, 1150, 1202):
        await filled.append(at)
    assert filled.bounds() == [(0, 6, True), (6, 10, True), (10, 12, False)]


async def test_rolling_ends_what_is_being_written_once(opened, appends):
    filled = await Filled(opened, appends).open()
    await filled.append()
    await filled.log.roll()
    await filled.log.roll()
    assert filled.bounds() == [(0, 2, True)]
    await filled.append()
    assert filled.bounds() == [(0, 2, True), (2, 4, False)]
    await filled.restart()
    assert filled.bounds() == [(0, 2, True), (2, 4, False)]
    await filled.log.roll()
    await filled.restart()
    assert filled.bounds() == [(0, 2, True), (2, 4, True)]


async def test_rolling_while_appends_are_on_their_way(opened, appends):
    log = await opened.log()
    for number in range(5):
        appends.add(log, b"%d" % number)
    await log.roll()
    for number in range(5):
        appends.add(log, b"%d" % number)
    await appends.reported(10)
    segments = log.segments()
    assert [(segment.base_offset, segment.next_offset) for segment in segments] in ([(0, 5), (5, 10)], [(0, 10)])
    await opened.restart()
    assert len(list(iter_batches(await read_when_here(await opened.log(), 0, max_bytes=10**6)))) == 10


async def test_several_segments_become_one(filled):
    before = filled.log.size_bytes
    new = [filled.batch(1), filled.batch(4)]
    await filled.log.replace(0, 6, new)
    for _ in range(2):
        assert filled.bounds() == [(0, 6, True), (6, 8, False)]
        assert await filled.offsets() == [1, 4, 6]
        assert await filled.offsets(2) == [4, 6]
        assert await filled.offsets(5) == [6]
        assert filled.log.size_bytes == before // 4 + sum(map(len, new))
        assert (filled.log.log_start_offset, filled.log.log_end_offset, filled.log.high_watermark) == (0, 8, 8)
        assert await in_turns(filled.log.offset_for_timestamp(8)) == OffsetAndTimestamp(6, 400)
        assert await in_turns(filled.log.offset_for_timestamp(1)) == OffsetAndTimestamp(1, 7)
        assert filled.log.segments()[0].max_timestamp_ms == 7
        await filled.restart()


async def test_a_segment_may_become_empty(filled):
    await filled.log.replace(2, 4, [])
    assert filled.bounds() == [(0, 2, True), (2, 4, True), (4, 6, True), (6, 8, False)]
    assert await filled.offsets() == [0, 4, 6]
    assert await filled.offsets(2) == [4, 6]
    await filled.log.replace(0, 6, [])
    for _ in range(2):
        assert filled.bounds() == [(0, 6, True), (6, 8, False)]
        assert await filled.offsets() == [6]
        await filled.restart()
    await filled.append(500)
    assert await filled.offsets() == [6, 8]


async def test_what_was_replaced_can_be_replaced_again(filled):
    await filled.log.replace(0, 2, [filled.batch(1)])
    await filled.log.replace(0, 4, [filled.batch(1), filled.batch(2)])
    await filled.log.replace(0, 6, [filled.batch(2)])
    for _ in range(2):
        assert await filled.offsets() == [2, 6]
        assert filled.bounds() == [(0, 6, True), (6, 8, False)]
        await filled.restart()


async def test_a_reader_in_the_middle_sees_one_or_the_other(filled):
    """While segments are replaced every read gives all that was there, or all that is there afterwards."""
    replacing = asyncio.ensure_future(filled.log.replace(0, 6, [filled.batch(1), filled.batch(4)]))
    seen = set()
    while not replacing.done():
        seen.add(tuple(await filled.offsets()))
        seen.add(tuple(await filled.offsets(2)))
        await asyncio.sleep(0)
    await replacing
    assert seen <= {(0, 2, 4, 6), (2, 4, 6), (1, 4, 6), (4, 6)}
    assert await filled.offsets() == [1, 4, 6]


@pytest.mark.parametrize(("first", "next_"), [(0, 3), (1, 4), (0, 8), (4, 2), (2, 2), (6, 8)])
async def test_ends_that_are_no_ends_of_closed_segments_are_refused(filled, first, next_):
    with pytest.raises(ValueError, match="closed segments"):
        await filled.log.replace(first, next_, [])
    assert await filled.offsets() == [0, 2, 4, 6]


async def test_batches_that_do_not_fit_are_refused(filled):
    for batches in ([filled.batch(1)], [filled.batch(3), filled.batch(2)], [filled.batch(2, 3)]):
        with pytest.raises(ValueError, match="the batch"):
            await filled.log.replace(2, 4, batches)
    assert await filled.offsets() == [0, 2, 4, 6]


async def test_segments_go_as_the_log_is_trimmed(filled):
    await filled.log.trim(3)
    assert filled.bounds() == [(2, 4, True), (4, 6, True), (6, 8, False)]
    await filled.log.trim(4)
    assert filled.bounds() == [(4, 6, True), (6, 8, False)]
    await filled.log.trim(8)
    assert filled.bounds() == []
    await filled.append()
    assert await filled.offsets(8) == [8]
    await filled.restart()
    assert (filled.log.log_start_offset, filled.bounds()[0][1:], await filled.offsets()) == (8, (10, False), [8])


async def test_trimming_and_replacing_at_the_same_time(filled):
    await asyncio.gather(filled.log.trim(3), filled.log.replace(2, 6, [filled.batch(5)]))
    assert (filled.log.log_start_offset, await filled.offsets()) == (3, [5, 6])
    await filled.restart()
    assert (filled.log.log_start_offset, await filled.offsets()) == (3, [5, 6])


async def test_what_was_cleaned_is_remembered(filled):
    assert filled.log.cleaned_offset == 0
    filled.log.mark_cleaned(6)
    assert filled.log.cleaned_offset == 6
    await filled.restart()
    assert filled.log.cleaned_offset == 6
    assert [segment.base_offset for segment in filled.log.segments()] == [0, 2, 4, 6]


async def test_a_deleted_log_has_no_segments_to_change(filled):
    await filled.opened.engine.delete_log(filled.log.tp)
    for change in (filled.log.roll(), filled.log.replace(0, 2, [])):
        with pytest.raises(Unavailable):
            await change


async def test_epochs_outlive_the_batches_that_began_them(filled):
    epoch = filled.log.leader_epoch
    await filled.restart()
    await filled.append()
    await filled.log.roll()
    await filled.log.replace(0, 6, [])
    await filled.restart()
    assert filled.log.epoch_end(epoch).end_offset == 8
