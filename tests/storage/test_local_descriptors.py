"""No file can be opened, now and then or for a while: nothing is lost, and nothing ends."""

import contextlib
import errno

import pytest

from ottla.broker.engine import EngineError, StorageFull, Unavailable
from ottla.protocol.steps import finished
from tests.storage.simulated_engine import SMALL, Simulated, fill, values


def too_many(path):
    return OSError(errno.EMFILE, "too many open files", path)


def at_most(sim, most):
    """No more than ``most`` files are open at a time."""

    def before(operation, path):
        if operation in ("open", "list") and sim.disk.open_handles >= most:
            raise too_many(path)

    sim.disk.before = before


async def everything(sim, appends):
    """Use all that opens files; what is refused is refused, and tried once more."""
    log, other = await sim.log(0, segment_bytes=200), await sim.log(1)
    for number in range(12):
        before = len(appends.reports)
        appends.add(log, b"%d" % number)
        appends.add(other, b"%d" % number)
        await appends.reported(before + 2)
        await sim.settle()
        with contextlib.suppress(EngineError):
            values(log)
    for step in (
        lambda: sim.engine.catalog.store({"number": 1}, over=sim.engine.catalog.version),
        lambda: log.trim(log.high_watermark // 2),
        other.roll,
        lambda: log.replace(log.segments()[0].base_offset, log.segments()[1].next_offset, []),
    ):
        try:
            await step()
        except Unavailable:
            await sim.tick()
            await step()
    return log, other


async def test_whichever_file_cannot_be_opened_nothing_is_lost(new_uuid, appends):
    fails = 0
    for number in range(1000):
        appends.reports.clear()
        sim = Simulated(new_uuid)
        await sim.open()
        left = [number]

        def before(operation, path, left=left):
            if operation in ("open", "list"):
                left[0] -= 1
                if left[0] == -1:
                    raise too_many(path)

        sim.disk.before = before
        log, other = await everything(sim, appends)
        assert not sim.fatal
        acknowledged = len(appends.acknowledged())
        assert log.high_watermark + other.high_watermark == acknowledged
        assert len(values(other)) == other.high_watermark
        await sim.reopen(kill=True)
        assert (await sim.log(0)).high_watermark + (await sim.log(1)).high_watermark == acknowledged
        await sim.engine.close()
        if left[0] >= 0:
            break
        fails += 1
    assert fails > 50


async def test_few_descriptors_are_enough(new_uuid, appends):
    sim = Simulated(new_uuid)
    await sim.open(most_readers=20, most_writers=20)
    # LOCK, the journal with its directory, and what one change needs; the rest is for segments.
    at_most(sim, 7)
    for _ in range(3):
        for partition in range(8):
            log = sim.engine.logs.get(("t", partition)) or await sim.log(partition, segment_bytes=200)
            await fill(log, appends, 2)
    assert len(appends.acknowledged()) == 48
    at_most(sim, sim.disk.open_handles + 2)
    for log in sim.engine.logs.values():
        assert len(values(log)) == 6
    assert sim.engine.refusal is None and not sim.fatal
    await sim.engine.close()


async def test_appends_are_taken_until_a_checkpoint_is_due_and_again_when_it_can_be_taken(new_uuid, appends):
    sim = Simulated(new_uuid)
    await sim.open()
    log = await sim.log()
    at_most(sim, 0)
    await fill(log, appends, 5)
    await sim.tick()
    assert len(appends.acknowledged()) == 5
    assert sim.engine.refusal is None
    sim.now += 60
    await sim.tick()
    assert isinstance(sim.engine.refusal, Unavailable)
    await appends.outcome(log, b"refused")
    assert isinstance(appends.reports[5][1], Unavailable)
    at_most(sim, 100)
    await sim.tick()
    assert sim.engine.refusal is None
    await fill(log, appends, 1)
    assert len(values(log)) == 6
    assert len(sim.content("ballast")) == SMALL["ballast_bytes"]  # it was not given up for nothing


async def test_a_reader_without_descriptors_is_refused_and_the_log_is_not_damaged(sim, appends):
    log = await sim.filled(appends, 3, segment_bytes=200)
    await sim.reopen()
    log = await sim.log()
    at_most(sim, 0)
    for ask in (
        lambda: log.read(0, max_bytes=100),
        lambda: finished(log.offset_for_timestamp(0)),
        lambda: finished(log.max_timestamp()),
        log.segments,
    ):
        with pytest.raises(Unavailable):
            ask()
    at_most(sim, 100)
    assert len(values(log)) == 3


async def test_a_full_disk_says_so(sim, appends):
    log = await sim.log()
    sim.disk.capacity = sim.disk.used
    await fill(log, appends, 1)
    assert isinstance(sim.engine.refusal, StorageFull)
