"""Damage within segments: found wherever it is, taken out and nothing else, whatever interrupts that."""

import random

import pytest

from ottla.broker.storage.local.repair import examine, recover_accepting_loss
from ottla.protocol.records import decode_batch, iter_batches
from tests.storage.simulated_disk import SimulatedCrash
from tests.storage.simulated_engine import fill, values
from tests.storage.test_local_recovery import flipped
from tests.storage.test_local_repair import examined, lost

FIRST = "logs/t-0/00000000000000000000.log"


def read_by_offset(log, start, upto):
    """What a reader sees that goes on behind each batch."""
    found = []
    while start < upto and (data := log.read(start, max_bytes=1)):
        for header, batch in iter_batches(data):
            found += [record.value for record in decode_batch(batch)]
            start = header.last_offset + 1
    return found


async def closed(sim, appends, count=6, **config):
    """The size of a batch of a log that was closed."""
    log = await sim.filled(appends, count, 0, **config)
    await sim.filled(appends, 2, 1)
    size = log.size_bytes // count
    await sim.engine.close()
    return size


async def test_one_damaged_batch_is_all_that_is_lost(sim, appends):
    size = await closed(sim, appends)
    sim.change(FIRST, flipped(2 * size + 65))
    report = examined(sim)
    (problem,) = report.problems
    assert "t-0 is damaged" in problem and f"bytes {2 * size} to {3 * size - 1}" in problem
    assert (lost(report), report.lost[0].records) == ({("t-0", 2, 3)}, 1)
    before = sim.content(FIRST)
    report = recover_accepting_loss("/data", files=sim.disk)
    assert lost(report) == {("t-0", 2, 3)}
    (kept,) = report.set_aside
    assert sim.content(kept.removeprefix("/data/")) == before and kept.endswith(".kept")
    assert examined(sim).problems == []
    await sim.open()
    log = await sim.log(0)
    assert values(log) == [b"value 0", b"value 1", b"value 3", b"value 4", b"value 5"]
    assert read_by_offset(log, 2, 6) == [b"value 3", b"value 4", b"value 5"]
    assert len(values(await sim.log(1))) == 2
    await fill(log, appends, 1)
    assert values(log)[-1] == b"value 6"


@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("at", [0, 5, 8, 11, 16, 20, 40, 60, 65])
async def test_any_byte_of_any_batch(sim, appends, place, at):
    size = await closed(sim, appends)
    sim.change(FIRST, flipped(place * size + at))
    (row,) = examined(sim).lost
    # An offset that is damaged may be one that could be: then the batch that comes after it does not fit.
    assert row.from_offset <= place + 1
    recover_accepting_loss("/data", files=sim.disk)
    await sim.open()
    log = await sim.log(0)
    whole = {b"value %d" % number for number in range(6)}
    assert len(whole - set(values(log))) <= 1
    assert log.log_end_offset == 6


async def test_the_last_batches_of_the_segment_being_written(sim, appends):
    size = await closed(sim, appends)
    sim.change(FIRST, lambda content: content[: 4 * size + 30] + bytes(len(content) - 4 * size - 30))
    report = recover_accepting_loss("/data", files=sim.disk)
    assert lost(report) == {("t-0", 4, 6)}
    await sim.open()
    log = await sim.log(0)
    assert log.log_end_offset == 6
    await fill(log, appends, 2)
    await sim.reopen(kill=True)
    assert values(await sim.log(0)) == [*(b"value %d" % number for number in range(4)), b"value 6", b"value 7"]


async def test_a_closed_segment_that_is_all_damage(sim, appends):
    await closed(sim, appends, segment_bytes=150)
    names = sorted(name for name in sim.disk.list("/data/logs/t-0") if name.endswith(".log"))
    assert len(names) > 2
    sim.change(f"logs/t-0/{names[1]}", lambda content: bytes(len(content)))
    begin, end = int(names[1][:20]), int(names[2][:20])
    assert lost(recover_accepting_loss("/data", files=sim.disk)) == {("t-0", begin, end)}
    await sim.open()
    log = await sim.log(0, segment_bytes=150)
    assert read_by_offset(log, 0, 6) == [b"value %d" % number for number in range(6) if not begin <= number < end]


async def test_what_is_in_the_journal_alone_comes_behind_the_hole(sim, appends):
    log = await sim.filled(appends, 4, 0)
    size = log.size_bytes // 4
    await sim.reopen()
    await sim.filled(appends, 3, 0)
    sim.disk.kill()
    sim.change(FIRST, flipped(3 * size + 65))
    report = recover_accepting_loss("/data", files=sim.disk)
    assert (lost(report), report.kept_batches) == ({("t-0", 3, 4)}, 3)
    # The journal was sound and stays.
    assert all(name.endswith(".kept") for name in report.set_aside)
    await sim.open()
    assert values(await sim.log(0)) == [b"value %d" % number for number in (0, 1, 2, 4, 5, 6)]


@pytest.mark.parametrize("power", [True, False])
async def test_dying_at_any_step_and_repairing_again(sim, appends, power):
    log = await sim.filled(appends, 4, 0)
    size = log.size_bytes // 4
    await sim.reopen()
    await sim.filled(appends, 2, 0)
    sim.disk.kill()
    sim.change(FIRST, flipped(3 * size + 65))
    deaths = 0
    chance = random.Random(3)
    for _ in range(60):
        # Each attempt comes a little further or less far than the one before.
        sim.disk.crash_at = sim.disk.operations + chance.randrange(1, 120)
        try:
            recover_accepting_loss("/data", files=sim.disk)
        except SimulatedCrash:
            deaths += 1
        sim.disk.crash_at = None
        sim.disk.end(power=power)
        if not examine("/data", files=sim.disk).problems:
            break
    assert deaths
    recover_accepting_loss("/data", files=sim.disk)
    await sim.open()
    assert values(await sim.log(0)) == [b"value %d" % number for number in (0, 1, 2, 4, 5)]


async def test_a_catalog_that_cannot_be_read_is_not_given_up(sim, appends):
    await sim.engine.catalog.store({"topics": {}}, over=sim.engine.catalog.version)
    await closed(sim, appends)
    sim.change("catalog.json", flipped(0))
    report = examined(sim)
    assert "catalog.json" in report.cannot_be_mended[0] and report.problems == report.cannot_be_mended
    before = sim.content("catalog.json")
    assert recover_accepting_loss("/data", files=sim.disk).cannot_be_mended
    assert sim.content("catalog.json") == before


async def test_a_quick_look_reads_no_segment(sim, appends):
    await closed(sim, appends)
    sim.change(FIRST, flipped(65))
    assert examine("/data", files=sim.disk, segments=False).problems == []
    read = []
    assert examine("/data", files=sim.disk, tell=read.append).problems
    assert sum(read) == len(sim.content(FIRST)) + len(sim.content(FIRST.replace("t-0", "t-1")))
