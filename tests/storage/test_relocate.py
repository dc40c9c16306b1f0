"""Logs that move between the directories of nodes, through crashes at every place."""

import json
import uuid

import pytest

from ottla.broker.engine import Corrupt, LogConfig
from ottla.broker.storage.local.engine import LocalEngine
from ottla.broker.storage.local.layout import decode_versioned, encode_catalog
from ottla.broker.storage.local.relocate import Move, NotClean, Relocation
from ottla.broker.storage.local.sizes import Sizes
from ottla.protocol.stored.checkpoint import decode_checkpoint
from tests.storage.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.storage.simulated_engine import SMALL, TOPIC_ID, fill, values

DIRECTORIES = {1: ".", 2: "nodes/2", 3: "nodes/3"}
MOVES = [
    Move("t-1", ".", "nodes/2"),
    Move("t-2", ".", "nodes/3"),
    Move("t-4", "nodes/2", "."),
    Move("t-9", ".", "nodes/2"),
]
HOMES = {"t": [1, 2, 3, 2, 1, 2, 1, 1, 1, 2]}
WHERE = {0: 1, 1: 2, 2: 3, 3: 2, 4: 1}
"""The node of each partition that has something, afterwards."""


def engine(disk, node_id):
    path = f"/data/{DIRECTORIES[node_id]}".removesuffix("/.")
    return LocalEngine(
        path,
        node_id=node_id,
        new_uuid=lambda: uuid.UUID(int=99),
        files=disk,
        threaded=False,
        monotonic=lambda: 0.0,
        sizes=Sizes(**SMALL),
    )


async def lived(disk, node_id, appends, partitions, *, lives=1):
    """A node that has had so many lives, and has five records in each of these partitions."""
    for life in range(lives):
        one = engine(disk, node_id)
        await one.open()
        for partition in partitions if life == 0 else ():
            await fill(await one.open_log("t", TOPIC_ID, partition, LogConfig()), appends, 5)
        await one.close()


async def filled(appends, seed=1):
    """Two nodes with logs, of which the first is older; the third was never started."""
    disk = SimulatedDisk(seed=seed)
    for path in ("/data/nodes", "/data/nodes/2"):
        disk.make_directory(path)
    await lived(disk, 1, appends, (0, 1, 2), lives=3)
    await lived(disk, 2, appends, (3, 4))
    rows = {"t": {"topic_id": str(TOPIC_ID), "partitions": 10, "configs": {}}}
    disk.put("/data/catalog.json", encode_catalog({"format": 1, "next_producer_id": 0, "topics": rows}, 5))
    for path in ("/data", "/data/nodes", "/data/nodes/2"):
        disk.sync_directory(disk.open_directory(path))
    return disk


def relocation(disk):
    return Relocation(disk, "/data", DIRECTORIES)


async def check(disk):
    """Everything is there, at its new home and nowhere else, and no epoch falls."""
    state, version = decode_versioned(disk.content("/data/catalog.json"), "")
    assert (state["format"], state["topics"]["t"]["homes"], version) == (2, HOMES["t"], 6)
    for node_id in DIRECTORIES:
        one = engine(disk, node_id)
        await one.open()
        assert one.was_clean
        assert one.leader_epoch == 3  # the first node had epochs 0 to 2
        for partition in (partition for partition, home in WHERE.items() if home == node_id):
            log = await one.open_log("t", TOPIC_ID, partition, LogConfig())
            assert values(log) == [b"value %d" % number for number in range(5)]
            assert log.log_end_offset == log.high_watermark == 5
        assert await one.remove_orphans() == []
        await one.close()


async def test_logs_move_with_all_that_is_known_of_them(appends):
    disk = await filled(appends)
    before = {state.name: state for state in decode_checkpoint(disk.content("/data/checkpoint"), "").logs}
    moving = relocation(disk)
    moving.begin(HOMES, MOVES)
    assert moving.is_begun
    assert moving.finish() == 3
    assert not moving.is_begun
    after = decode_checkpoint(disk.content("/data/nodes/3/checkpoint"), "")
    (log,) = after.logs
    assert (log.epochs, log.next_offset, log.uuid) == (before["t-2"].epochs, 5, TOPIC_ID)
    own = decode_checkpoint(disk.content("/data/nodes/2/checkpoint"), "")
    assert [state.name for state in own.logs] == ["t-3", "t-1"]
    assert len({state.log_id for state in own.logs}) == 2
    assert own.next_log_id > max(state.log_id for state in own.logs)
    await check(disk)


async def operations(appends):
    """How many operations of the disk all takes, and which they are."""
    disk = await filled(appends)
    done = []
    disk.before = lambda operation, path: done.append((operation, path))
    moving = relocation(disk)
    moving.begin(HOMES, MOVES)
    moving.finish()
    return len(done)


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power"])
@pytest.mark.parametrize("seed", range(3))
async def test_it_can_be_interrupted_anywhere(appends, seed, power):
    """The seeds share the places among them."""
    assert await crashes(appends, seed, power, range(1 + seed, await operations(appends) + 1, 3)) > 30


@pytest.mark.slow
@pytest.mark.parametrize("power", [False, True], ids=["killed", "power"])
@pytest.mark.parametrize("seed", range(3))
async def test_it_can_be_interrupted_anywhere_with_every_seed(appends, seed, power):
    assert await crashes(appends, seed, power, range(1, await operations(appends) + 1)) > 100


async def crashes(appends, seed, power, places):
    """Crash at each of these places, go on, and find everything. Returns how often it crashed."""
    crashed = 0
    for place in places:
        disk = await filled(appends, seed=1000 * seed + place)
        disk.crash_at = disk.operations + place
        moving = relocation(disk)
        try:
            moving.begin(HOMES, MOVES)
            moving.finish()
        except SimulatedCrash:
            crashed += 1
        disk.end(power=power)
        await finished(disk)
        await check(disk)
    return crashed


async def test_it_can_be_interrupted_again_and_again(appends):
    disk = await filled(appends)
    steps = 1
    while True:
        disk.crash_at = disk.operations + steps
        try:
            await finished(disk)
            break
        except SimulatedCrash:
            disk.end(power=True)
            steps += 1
    disk.crash_at = None
    assert steps > 20
    await check(disk)


async def finished(disk):
    """What an operator does: the same again."""
    moving = relocation(disk)
    state, _ = decode_versioned(disk.content("/data/catalog.json"), "")
    if not moving.is_begun and "homes" not in state["topics"]["t"]:
        moving.begin(HOMES, MOVES)
    if moving.is_begun:
        moving.finish()


async def test_a_node_that_was_killed_has_to_be_started_first(appends):
    disk = await filled(appends)
    one = engine(disk, 2)
    await one.open()
    disk.kill()
    with pytest.raises(NotClean, match="/data/nodes/2 was not closed in order: start the nodes once"):
        relocation(disk).begin(HOMES, MOVES)
    assert not relocation(disk).is_begun


async def test_what_is_left_over_is_in_the_way(appends):
    disk = await filled(appends)
    disk.make_directory("/data/nodes/2/logs/t-1")
    with pytest.raises(NotClean, match="/data/nodes/2/logs/t-1 is in the way"):
        relocation(disk).begin(HOMES, MOVES)


async def test_what_was_written_down_cannot_be_read(appends):
    disk = await filled(appends)
    disk.put("/data/spread.json", json.dumps({"format": 7}).encode())
    with pytest.raises(Corrupt, match=r"/data/spread.json cannot be read: format 7, this version reads 1"):
        relocation(disk).finish()


async def test_a_log_that_is_nowhere_is_told(appends):
    disk = await filled(appends)
    moving = relocation(disk)
    moving.begin(HOMES, MOVES)
    disk.rename("/data/logs/t-1", "/data/elsewhere")
    with pytest.raises(Corrupt, match="/data/logs/t-1 is missing, and was to become /data/nodes/2/logs/t-1"):
        moving.finish()
    assert moving.is_begun
