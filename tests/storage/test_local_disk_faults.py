"""A disk that is full, and a disk that fails."""

import errno
import uuid

import pytest

from ottla.broker.engine import Corrupt, Durability, StorageFull, Unavailable, Unknown
from ottla.protocol.steps import finished
from tests.storage.simulated_engine import fill, values


async def test_a_full_disk_refuses_appends_loses_nothing_and_recovers_by_itself(sim, appends):
    log = await sim.filled(appends, 1)
    sim.disk.capacity = sim.disk.used
    # The journal has room that it took before, so this one is certain, though it cannot come to its segment yet.
    await appends.outcome(log, b"certain")
    assert appends.reports[1] == (1, None)
    await sim.settle()
    assert isinstance(await appends.outcome(log, b"refused"), StorageFull)
    assert values(log) == [b"value 0", b"certain"]
    assert (log.log_end_offset, log.high_watermark) == (2, 2)
    for _ in range(3):
        await sim.tick()
    assert isinstance(await appends.outcome(log, b"refused"), StorageFull)
    sim.disk.capacity = None
    await sim.tick()
    await appends.outcome(log, b"again")
    assert appends.reports[-1] == (2, None)
    await sim.reopen(kill=True)
    assert values(await sim.log()) == [b"value 0", b"certain", b"again"]


async def test_what_a_full_disk_could_not_take_is_in_the_journal_when_the_process_dies(sim, appends):
    log = await sim.filled(appends, 1)
    sim.disk.capacity = sim.disk.used
    await appends.outcome(log, b"certain")
    await sim.settle()
    sim.disk.lose_power()
    sim.disk.capacity = None
    await sim.open()
    assert values(await sim.log()) == [b"value 0", b"certain"]


async def test_the_ballast_lets_what_is_acknowledged_come_to_its_segment(sim, appends):
    log = await sim.filled(appends, 30)
    assert len(sim.content("ballast")) == 2048
    sim.disk.capacity = sim.disk.used
    await appends.outcome(log, b"certain")
    await sim.settle()
    assert "ballast" not in sim.disk.list("/data")
    assert b"certain" in sim.content("logs/t-0/00000000000000000000.log")
    assert isinstance(await appends.outcome(log, b"refused"), StorageFull)
    # Retention makes the room that is missing.
    await log.trim(31)
    await sim.settle()
    await sim.tick()
    assert len(sim.content("ballast")) == 2048
    assert await appends.outcome(log, b"refused") is None


async def test_a_full_disk_does_not_keep_the_engine_from_starting(sim, appends):
    await sim.filled(appends, 30)
    assert "ballast" in sim.disk.list("/data")
    sim.disk.kill()
    sim.disk.capacity = sim.disk.used
    await sim.open()
    assert "ballast" not in sim.disk.list("/data")
    assert len(values(await sim.log())) == 30


@pytest.mark.parametrize("operation", ["make_directory", "open", "write"])
async def test_no_room_for_a_new_log_and_then_room(sim, appends, operation):
    log = await sim.log()
    await sim.filled(appends, 1, 1)

    sim.fail(operation, within="t-0", number=errno.ENOSPC)
    # The journal has it; the segment has to wait.
    await appends.outcome(log, b"a")
    await sim.settle()
    assert values(log) == [b"a"]
    sim.work_again()
    await sim.tick()
    await appends.outcome(log, b"b")
    assert appends.reports[2] == (1, None)
    await sim.reopen()
    assert values(await sim.log()) == [b"a", b"b"]


async def test_a_short_write_of_the_journal_takes_whole_frames_and_refuses_the_rest(sim, appends):
    log = await sim.filled(appends, 1)
    short = [200, 0]

    def write(handle, pieces, offset, real=sim.disk.write):
        data = b"".join(pieces)
        if "journal" in sim.disk.path_of(handle) and short:
            room = short.pop(0)
            if not room:
                raise OSError(errno.ENOSPC, "no space left on device")
            return real(handle, [data[:room]], offset)
        return real(handle, pieces, offset)

    sim.disk.write = write
    for number in range(4):
        appends.add(log, b"group %d" % number)
    await appends.reported(5)
    assert [error and type(error) for _, error in appends.reports] == [None, None, *[StorageFull] * 3]
    assert (log.log_end_offset, log.high_watermark) == (2, 2)
    await sim.tick()
    await fill(log, appends, 1)
    for reopen in (True, False):
        await sim.reopen(kill=reopen)
        log = await sim.log()
        assert values(log) == [b"value 0", b"group 0", b"value 2"]


async def test_no_room_for_the_catalog_leaves_the_old_one(sim):
    await sim.engine.catalog.store({"number": 1}, over=sim.engine.catalog.version)
    sim.disk.capacity = sim.disk.used + 5
    with pytest.raises(StorageFull):
        await sim.engine.catalog.store({"number": 2}, over=sim.engine.catalog.version)
    assert sim.engine.catalog.load() == {"number": 1}
    sim.disk.capacity = None
    await sim.reopen()
    assert sim.engine.catalog.load() == {"number": 1}
    await sim.engine.catalog.store({"number": 3}, over=sim.engine.catalog.version)
    assert sim.engine.catalog.load() == {"number": 3}


async def test_a_trim_that_could_not_be_written_down_has_not_happened(sim, appends):
    log = await sim.filled(appends, 4, segment_bytes=1)
    sim.disk.capacity = sim.disk.used
    with pytest.raises(StorageFull):
        await log.trim(3)
    assert (log.log_start_offset, len(values(log))) == (0, 4)
    sim.disk.capacity = None
    await sim.reopen()
    log = await sim.log(segment_bytes=1)
    assert (log.log_start_offset, len(values(log))) == (0, 4)
    assert await log.trim(3) == 3


# --- a disk that fails -----------------------------------------------------------------------------------------------


async def test_a_failed_sync_ends_the_engine_and_acknowledges_nothing(sim, appends):
    log, other = await sim.log(0), await sim.log(1)
    sim.fail("sync", times=1)
    appends.add(log, b"a")
    await appends.outcome(other, b"b")
    assert [type(error) for _, error in appends.reports] == [Unknown, Unknown]
    assert [type(error) for error in sim.fatal] == [Unknown]
    assert (log.high_watermark, other.high_watermark) == (0, 0)
    # The disk works again, and it is too late: nobody knows what it dropped.
    await appends.outcome(log, b"c")
    assert isinstance(appends.reports[2][1], Unavailable)
    with pytest.raises(Unavailable, match="/output error"):
        await sim.engine.catalog.store({"number": 1}, over=sim.engine.catalog.version)
    await sim.engine.close()
    assert len(sim.fatal) == 1


@pytest.mark.parametrize("operation", ["sync", "sync_directory"])
async def test_a_checkpoint_that_cannot_be_synced_ends_the_engine_too(sim, appends, operation):
    log = await sim.filled(appends, 2)

    sim.fail(operation, besides="journal")
    with pytest.raises(Unknown):
        await log.trim(1)
    assert [type(error) for error in sim.fatal] == [Unknown]
    sim.work_again()
    assert isinstance(await appends.outcome(log, b"refused"), Unavailable)
    await sim.reopen(kill=True)
    assert values(await sim.log()) == [b"value 0", b"value 1"]


async def test_an_interval_that_cannot_be_synced_is_fatal_too(sim, appends):
    log = await sim.filled(appends, 2, durability=Durability.INTERVAL)
    sim.now = 1.0
    sim.fail("sync", times=1)
    await fill(log, appends, 1)
    assert [type(error) for error in sim.fatal] == [Unknown]


async def test_a_failed_write_of_the_journal_is_left_behind_and_the_next_one_works(sim, appends):
    log = await sim.filled(appends, 1)
    sim.fail("write", times=1)
    assert isinstance(await appends.outcome(log, b"refused"), Unavailable)
    await fill(log, appends, 1)
    for kill in (True, False):
        assert values(log) == [b"value 0", b"value 1"]
        await sim.reopen(kill=kill)
        log = await sim.log()


async def test_a_failed_write_of_a_segment_is_cut_off_and_made_up_for(sim, appends):
    log = await sim.filled(appends, 1)
    size = log.size_bytes
    sim.fail("write", within="logs", times=2)
    await fill(log, appends, 1)
    assert len(sim.content("logs/t-0/00000000000000000000.log")) == size
    assert values(log) == [b"value 0", b"value 1"]
    assert isinstance(await appends.outcome(log, b"refused"), Unavailable)
    await sim.tick()
    await fill(log, appends, 1)
    assert len(sim.content("logs/t-0/00000000000000000000.log")) == 3 * size
    assert values(log) == [b"value 0", b"value 1", b"value 2"]


async def test_what_cannot_be_cut_off_is_fatal(sim, appends):
    log = await sim.filled(appends, 1)

    sim.fail("write", "truncate", within="logs")
    await fill(log, appends, 1)
    assert len(sim.fatal) == 1


@pytest.mark.parametrize("what", ["checkpoint", "logs"])
async def test_a_deletion_that_failed_does_not_haunt_the_next_topic(sim, appends, what):
    log = await sim.filled(appends, 3)

    sim.fail("rename", within=what)
    with pytest.raises(Unavailable):
        await sim.engine.delete_log(log.tp)
    sim.work_again()
    await sim.tick()
    again = await sim.log(topic_id=uuid.UUID(int=8))
    await fill(again, appends, 1)
    assert values(again) == [b"value 0"]
    await sim.reopen(kill=True)
    assert values(await sim.log(topic_id=uuid.UUID(int=8))) == [b"value 0"]


async def test_a_deletion_that_was_interrupted_is_finished_at_the_next_start(sim, appends):
    log = await sim.filled(appends, 3)
    sim.fail("remove", times=1)
    await sim.engine.delete_log(log.tp)
    assert len(sim.disk.list("/data/logs")) == 1
    await sim.settle()
    await sim.reopen()
    assert sim.disk.list("/data/logs") == []


async def test_an_unreadable_segment_is_corrupt_and_the_others_are_served(sim, appends):
    log, other = await sim.filled(appends, 1), await sim.filled(appends, 1, 1)

    sim.fail("read", within="t-0")
    with pytest.raises(Corrupt, match="t-0"):
        log.read(0, max_bytes=100)
    with pytest.raises(Corrupt, match="t-0"):
        finished(log.offset_for_timestamp(0))
    assert values(other) == [b"value 0"]
