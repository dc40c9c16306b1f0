"""Opening a directory of format 1, which had no journal."""

import json

import pytest

from ottla.broker.engine import Corrupt
from ottla.broker.storage.local.files import sync_directory
from tests.storage.simulated_engine import TOPIC_ID, values


async def make_old(sim, appends, *, with_checkpoint):
    """What the version before left behind: three segments of one log, trimmed to 2, and an epoch of 4."""
    await sim.filled(appends, 5, segment_bytes=200)
    await sim.engine.catalog.store({"number": 1}, over=sim.engine.catalog.version)
    await sim.engine.close()
    disk = sim.disk
    disk.put("/data/meta.properties", sim.content("meta.properties").replace(b"format=2", b"format=1"))
    disk.put("/data/catalog.json", json.dumps({"format": 1, "leader_epoch": 4, "state": {"number": 1}}).encode())
    entry = {"topic_id": TOPIC_ID.hex, "start": 2, "recovery_point": 2, "epochs": [[0, 0]]}
    if with_checkpoint:
        document = {"format": 1, "clean": False, "logs": {"t-0": entry}}
        disk.put("/data/checkpoint.json", json.dumps(document).encode())
    for name in disk.list("/data/journal"):
        disk.remove(f"/data/journal/{name}")
    disk.remove_directory("/data/journal")
    disk.remove("/data/checkpoint")
    for directory in ("/data", "/data/logs", "/data/logs/t-0"):
        sync_directory(disk, directory)


async def check(sim, start):
    log = await sim.log(segment_bytes=200)
    assert (log.log_start_offset, log.log_end_offset) == (start, 5)
    assert values(log)[-3:] == [b"value 2", b"value 3", b"value 4"]
    assert sim.engine.leader_epoch >= 5
    assert sim.engine.catalog.load() == {"number": 1}
    return log


@pytest.mark.parametrize("with_checkpoint", [True, False])
async def test_it_opens_with_all_that_it_held(sim, appends, with_checkpoint):
    await make_old(sim, appends, with_checkpoint=with_checkpoint)
    cluster_id = sim.engine.cluster_id
    start = 2 if with_checkpoint else 0
    await sim.open()
    assert sim.engine.cluster_id == cluster_id
    assert b"format=2" in sim.content("meta.properties")
    assert "checkpoint.json" not in sim.disk.list("/data")
    log = await check(sim, start)
    await log.roll()
    await sim.reopen(kill=True)
    await check(sim, start)


async def test_a_torn_end_is_cut(sim, appends):
    await make_old(sim, appends, with_checkpoint=False)
    sim.change("logs/t-0/00000000000000000004.log", lambda content: content[:-3])
    await sim.open()
    log = await sim.log(segment_bytes=200)
    assert (log.log_end_offset, len(values(log))) == (4, 4)


async def test_damage_before_the_end_is_refused(sim, appends):
    await make_old(sim, appends, with_checkpoint=False)
    sim.change("logs/t-0/00000000000000000000.log", lambda content: content[:-3])
    with pytest.raises(Corrupt, match=r"00000000000000000000\.log is damaged"):
        await sim.open()


@pytest.mark.parametrize("power", [True, False])
async def test_a_crash_on_the_way_loses_nothing(sim, appends, power):
    await make_old(sim, appends, with_checkpoint=True)
    for step in range(1, 200):
        sim.disk.crash_at = sim.disk.operations + step
        try:
            await sim.open()
        except BaseException as crash:
            assert type(crash).__name__ == "SimulatedCrash"
            sim.disk.end(power=power)
            continue
        sim.disk.crash_at = None
        break
    await check(sim, 2)
