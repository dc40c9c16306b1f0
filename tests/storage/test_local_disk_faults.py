"""A disk that is full, and a disk that fails."""

import errno
import uuid

import pytest

from ottla.broker.storage.engine import (
    Corrupt,
    Durability,
    StorageFull,
    Unavailable,
    Unknown,
)
from tests.storage.simulated_engine import fill, values

pytestmark = pytest.mark.asyncio


async def test_a_full_disk_takes_whole_batches_and_refuses_the_rest(sim, appends):
    log = sim.log()
    await fill(log, appends, 1)
    size = log.size_bytes
    sim.disk.capacity = sim.disk.used + 2 * size + size // 2
    for _ in range(4):
        appends.add(log, b"value 0")
    await appends.reported(5)
    assert [error and type(error) for _, error in appends.reports] == [None, None, None, StorageFull, StorageFull]
    assert (log.log_end_offset, log.high_watermark, log.size_bytes) == (3, 3, 3 * size)
    assert len(sim.content("logs/t-0/00000000000000000000.log")) == 3 * size
    assert len(values(log)) == 3
    # Full is full, and nothing else is broken.
    appends.add(log, b"value 0")
    await appends.reported(6)
    assert isinstance(appends.reports[-1][1], StorageFull)
    sim.disk.capacity = None
    assert appends.add(log, b"again") == 3
    await appends.reported(7)
    assert appends.reports[-1] == (3, None)
    await sim.reopen(kill=True)
    assert values(sim.log()) == [b"value 0"] * 3 + [b"again"]


async def test_a_short_batch_behind_one_that_did_not_fit_is_refused_too(sim, appends):
    log = sim.log()
    await fill(log, appends, 1)
    sim.disk.capacity = sim.disk.used + 200
    appends.add(log, b"x" * 1000)
    appends.add(log, b"y")
    await appends.reported(3)
    assert [type(error) for _, error in appends.reports[1:]] == [StorageFull, StorageFull]
    assert values(log) == [b"value 0"]


@pytest.mark.parametrize("operation", ["make_directory", "open", "write"])
async def test_no_room_for_a_new_log_and_then_room(sim, appends, operation):
    log = sim.log()
    sim.fail(operation, errno.ENOSPC)
    appends.add(log, b"a")
    await appends.reported(1)
    assert isinstance(appends.reports[0][1], StorageFull)
    assert appends.add(log, b"b") == 0
    await appends.reported(2)
    assert appends.reports[1] == (0, None)
    await sim.reopen(kill=True)
    assert values(sim.log()) == [b"b"]


async def test_no_room_for_a_new_segment_and_then_room(sim, appends):
    log = sim.log(segment_bytes=1)
    await fill(log, appends, 2)
    sim.fail("open", errno.ENOSPC, times=10)
    appends.add(log, b"refused")
    await appends.reported(3)
    assert isinstance(appends.reports[2][1], StorageFull)
    sim.disk.before = lambda operation, path: None
    await fill(log, appends, 2)
    assert values(log) == [b"value %d" % number for number in range(4)]
    await sim.reopen()
    assert values(sim.log()) == [b"value %d" % number for number in range(4)]


async def test_no_room_for_the_catalog_leaves_the_old_one(sim):
    await sim.engine.catalog.store({"number": 1})
    sim.disk.capacity = sim.disk.used + 5
    with pytest.raises(StorageFull):
        await sim.engine.catalog.store({"number": 2})
    assert sim.engine.catalog.load() == {"number": 1}
    sim.disk.capacity = None
    await sim.reopen()
    assert sim.engine.catalog.load() == {"number": 1}
    await sim.engine.catalog.store({"number": 3})
    assert sim.engine.catalog.load() == {"number": 3}


async def test_a_trim_that_could_not_be_written_down_has_not_happened(sim, appends):
    log = sim.log(segment_bytes=1)
    await fill(log, appends, 4)
    sim.disk.capacity = sim.disk.used
    with pytest.raises(StorageFull):
        await log.trim(3)
    assert (log.log_start_offset, len(values(log))) == (0, 4)
    sim.disk.capacity = None
    await sim.reopen()
    log = sim.log(segment_bytes=1)
    assert (log.log_start_offset, len(values(log))) == (0, 4)
    assert await log.trim(3) == 3


# --- a disk that fails -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["sync", "sync_directory"])
async def test_a_failed_sync_ends_the_engine_and_acknowledges_nothing(sim, appends, operation):
    log, other = sim.log(0), sim.log(1)
    sim.fail(operation)
    appends.add(log, b"a")
    appends.add(other, b"b")
    await appends.reported(2)
    assert [type(error) for _, error in appends.reports] == [Unknown, Unknown]
    assert [type(error) for error in sim.fatal] == [Unknown]
    assert (log.high_watermark, other.high_watermark) == (0, 0)
    # The disk works again, and it is too late: nobody knows what it dropped.
    appends.add(log, b"c")
    await appends.reported(3)
    assert isinstance(appends.reports[2][1], Unavailable)
    with pytest.raises(Unavailable, match="/output error"):
        await sim.engine.catalog.store({"number": 1})
    await sim.engine.close()
    assert len(sim.fatal) == 1


async def test_what_was_synced_earlier_in_a_group_stays_acknowledged(sim, appends):
    log = sim.log()
    await fill(log, appends, 1)
    syncs = []

    def before(operation, path):
        if operation == "sync":
            syncs.append(path)
            if len(syncs) == 2:
                raise OSError(errno.EIO, "input/output error", path)

    sim.disk.before = before
    # A catalog ends the run of appends before it, which is synced on its own; then the disk fails.
    appends.add(log, b"certain")
    with pytest.raises(Unknown):
        await sim.engine.catalog.store({})
    assert appends.reports == [(0, None), (1, None)]


async def test_an_interval_that_cannot_be_synced_is_fatal_too(sim, appends):
    log = sim.log(durability=Durability.INTERVAL)
    await fill(log, appends, 2)
    sim.now = 1.0
    sim.fail("sync")
    await fill(log, appends, 1)
    assert [type(error) for error in sim.fatal] == [Unknown]


async def test_a_failed_write_is_cut_off_and_the_next_one_works(sim, appends):
    log = sim.log()
    await fill(log, appends, 1)
    sim.fail("write")
    appends.add(log, b"refused")
    await appends.reported(2)
    assert isinstance(appends.reports[1][1], Unavailable)
    await fill(log, appends, 1)
    assert values(log) == [b"value 0", b"value 1"]


async def test_what_cannot_be_cut_off_is_fatal(sim, appends):
    log = sim.log()
    await fill(log, appends, 1)

    def before(operation, path):
        if operation in ("write", "truncate"):
            raise OSError(errno.EIO, "input/output error", path)

    sim.disk.before = before
    appends.add(log, b"half")
    await appends.reported(2)
    assert len(sim.fatal) == 1


async def test_a_deletion_that_failed_does_not_haunt_the_next_topic(sim, appends):
    log = sim.log()
    await fill(log, appends, 3)
    sim.fail("rename")
    with pytest.raises(Unavailable):
        await sim.engine.delete_log(log.tp)
    again = sim.log(topic_id=uuid.UUID(int=8))
    await fill(again, appends, 1)
    assert values(again) == [b"value 0"]
    await sim.reopen(kill=True)
    assert values(sim.log(topic_id=uuid.UUID(int=8))) == [b"value 0"]


async def test_a_deletion_that_was_interrupted_is_finished_at_the_next_start(sim, appends):
    log = sim.log()
    await fill(log, appends, 3)
    sim.fail("remove")
    await sim.engine.delete_log(log.tp)
    assert len(sim.disk.list("/data/logs")) == 1
    await sim.reopen()
    assert sim.disk.list("/data/logs") == []


async def test_an_unreadable_segment_is_corrupt_and_the_others_are_served(sim, appends):
    log, other = sim.log(0), sim.log(1)
    await fill(log, appends, 1)
    await fill(other, appends, 1)

    def before(operation, path):
        if operation == "read" and "t-0" in path:
            raise OSError(errno.EIO, "input/output error", path)

    sim.disk.before = before
    with pytest.raises(Corrupt, match="t-0"):
        log.read(0, max_bytes=100)
    with pytest.raises(Corrupt, match="t-0"):
        log.offset_for_timestamp(0)
    assert values(other) == [b"value 0"]
