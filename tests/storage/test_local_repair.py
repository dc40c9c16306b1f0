"""Giving up what is damaged: what is said to be lost is lost, all else is kept, and the directory opens again."""

import pytest

from ottla.broker.engine import Corrupt, InUse
from ottla.broker.storage.local.repair import examine, recover_accepting_loss
from tests.storage.simulated_engine import fill, values
from tests.storage.test_local_recovery import flipped, journal_end


def stored(disk, directory="/data"):
    """Every file and its content."""
    found = {}
    for name in disk.list(directory):
        path = f"{directory}/{name}"
        try:
            found |= stored(disk, path)
        except FileNotFoundError:
            found[path] = disk.content(path)
    return found


def examined(sim):
    """What examining says; it changes nothing."""
    before = stored(sim.disk)
    report = examine("/data", files=sim.disk)
    assert stored(sim.disk) == before
    return report


def lost(report):
    return {(row.log, row.from_offset, row.upto_offset) for row in report.lost}


@pytest.mark.parametrize("kill", [True, False])
async def test_a_sound_directory_is_left_alone(sim, appends, kill):
    await sim.filled(appends, 3)
    await sim.end(kill=kill)
    before = stored(sim.disk)
    for repair in (examine, recover_accepting_loss):
        report = repair("/data", files=sim.disk)
        assert (report.problems, report.lost, report.set_aside) == ([], [], [])
    assert stored(sim.disk) == before
    await sim.open()
    assert len(values(await sim.log())) == 3


async def test_a_directory_in_use_is_left_alone(sim):
    with pytest.raises(InUse):
        examine("/data", files=sim.disk)
    with pytest.raises(InUse):
        recover_accepting_loss("/data", files=sim.disk)


async def test_only_the_logs_with_a_gap_lose_anything(sim, appends):
    first, second, third = await sim.log(0), await sim.log(1), await sim.log(2)
    for _ in range(3):
        for log in (first, second, third):
            await fill(log, appends, 1)
    sim.disk.kill()
    path, _, _, frames = journal_end(sim)
    # Three times a log begins and a batch follows; then two rounds of batches. The second log's second one is hit.
    sim.change(path, flipped(frames[7] + 50))
    with pytest.raises(Corrupt):
        await sim.open()
    sim.disk.kill()
    report = examined(sim)
    assert len(report.problems) == 1
    assert f"byte {frames[7]} " in report.problems[0]
    assert lost(report) == {("t-1", 1, 3)}
    assert report.kept_batches == 7
    report = recover_accepting_loss("/data", files=sim.disk)
    assert (lost(report), report.kept_batches) == ({("t-1", 1, 3)}, 7)
    assert all(name.endswith(".damaged") for name in report.set_aside)
    assert examined(sim).problems == []
    await sim.open()
    assert [len(values(await sim.log(partition))) for partition in range(3)] == [3, 1, 3]
    await fill(sim.engine.logs["t", 1], appends, 1)
    await sim.reopen(kill=True)
    assert values(await sim.log(1)) == [b"value 0", b"value 1"]


async def test_a_journal_that_is_gone_is_done_without(sim, appends):
    log = await sim.filled(appends, 3)
    await log.roll()
    await fill(log, appends, 2)
    sim.disk.kill()
    for name in sim.disk.list("/data/journal"):
        sim.disk.remove(f"/data/journal/{name}")
    assert "missing" in examined(sim).problems[0]
    recover_accepting_loss("/data", files=sim.disk)
    await sim.open()
    assert values(await sim.log()) == [b"value 0", b"value 1", b"value 2"]


@pytest.mark.parametrize("is_there", [True, False])
async def test_without_a_checkpoint_the_segments_are_read(sim, appends, is_there):
    log, other = await sim.log(0, segment_bytes=200), await sim.log(1)
    await fill(log, appends, 5)
    await fill(other, appends, 2)
    await sim.engine.close()
    if is_there:
        sim.change("checkpoint", flipped(50))
    else:
        sim.disk.remove("/data/checkpoint")
    assert "checkpoint" in examined(sim).problems[0]
    recover_accepting_loss("/data", files=sim.disk)
    epoch = sim.engine.leader_epoch
    await sim.open()
    assert sim.engine.leader_epoch > epoch
    assert len(values(await sim.log(0, segment_bytes=200))) == 5
    assert len(values(await sim.log(1))) == 2


async def test_a_segment_that_is_cut_off_ends_its_log(sim, appends):
    log = await sim.filled(appends, 5)
    await sim.filled(appends, 2, 1)
    size = log.size_bytes // 5
    await sim.engine.close()
    sim.change("logs/t-0/00000000000000000000.log", lambda content: content[: 2 * size + 10])
    report = examined(sim)
    assert ("t-0", 2, 5) in lost(report)
    recover_accepting_loss("/data", files=sim.disk)
    await sim.open()
    assert (len(values(await sim.log(0))), len(values(await sim.log(1)))) == (2, 2)


async def test_a_directory_of_something_else_is_refused(sim):
    await sim.engine.close()
    sim.disk.remove("/data/meta.properties")
    with pytest.raises(Corrupt, match="no data directory"):
        examine("/data", files=sim.disk)
