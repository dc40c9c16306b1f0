"""What the local engine finds again after a crash, and what it holds meanwhile."""

import asyncio

import pytest

from ottla.broker.engine import Corrupt, Durability, OffsetAndTimestamp
from ottla.broker.storage.local.operations import Barrier
from ottla.protocol.records import parse_header
from ottla.protocol.steps import finished
from ottla.protocol.stored.checkpoint import decode_checkpoint
from ottla.protocol.stored.frames import Kind, header
from ottla.protocol.stored.journal import JournalReader
from tests.storage.simulated_engine import Simulated, fill, values


def journal_end(sim):
    """The journal's file that holds the checkpoint, its content, and where its frames end."""
    reader = JournalReader(sim.disk, "/data/journal")
    lsn = decode_checkpoint(sim.content("checkpoint"), "").lsn
    frames = list(reader.frames(lsn))
    path = reader.paths[reader.first_lsn].removeprefix("/data/")
    return path, reader.first_lsn, reader.end_lsn - reader.first_lsn, [frame.lsn - reader.first_lsn for frame in frames]


def flipped(position):
    def change(content):
        content[position] ^= 4
        return content

    return change


def overwritten(position, data):
    def change(content):
        content[position : position + len(data)] = data
        return content

    return change


@pytest.mark.parametrize("cut", [39, 40, 41, 100])
async def test_a_torn_tail_is_cut_and_reported(sim, appends, cut):
    log = await sim.filled(appends, 3)
    sim.disk.kill()
    path, first_lsn, end, frames = journal_end(sim)
    torn = sim.content(path)[frames[-1] : end]
    body = torn[40:]
    torn = header(Kind.BATCH, 0, len(body), first_lsn + end, first_lsn + end, 1, 0, (body,)) + body
    sim.change(path, overwritten(end, torn[:cut]))
    await sim.open()
    log = await sim.log()
    assert values(log) == [b"value 0", b"value 1", b"value 2"]
    if cut >= 40:
        (found,) = sim.engine.recovered
        assert found.path == "/data/" + path
        assert found.cut_bytes >= cut
        assert f"byte {end}" in found.reason
    assert appends.add(log, b"on") == 3
    await appends.reported(4)
    await sim.reopen(kill=True)
    assert (values(await sim.log())[3:], sim.engine.recovered) == ([b"on"], [])


async def test_a_group_that_came_to_the_disk_without_its_beginning_does_not_come_back(sim, appends):
    """Frames of one write may be there in any subset: what follows a gap was acknowledged no more than the gap."""
    log = await sim.filled(appends, 2)
    for number in range(5):
        appends.add(log, b"group %d" % number)
    await appends.reported(7)
    sim.disk.kill()
    path, _, _, frames = journal_end(sim)
    # As if the sync had never returned: no later frame vouches for the group.
    sim.change(path, flipped(frames[-4] + 60))
    await sim.open()
    assert values(await sim.log()) == [b"value 0", b"value 1", b"group 0"]
    assert len(sim.engine.recovered) == 1
    await sim.reopen(kill=True)
    log = await sim.log()
    assert values(log) == [b"value 0", b"value 1", b"group 0"]
    await fill(log, appends, 1)
    await sim.reopen(kill=True)
    assert len(values(await sim.log())) == 4


async def test_damage_to_what_was_acknowledged_is_refused_and_named(sim, appends):
    await sim.filled(appends, 3)
    await sim.filled(appends, 1, 1)
    sim.disk.kill()
    path, first_lsn, _, frames = journal_end(sim)
    before = {name: sim.content(f"journal/{name}") for name in sim.disk.list("/data/journal")}
    sim.change(path, flipped(frames[2] + 50))
    for _ in range(2):
        # Refusing changes nothing, so it refuses again.
        with pytest.raises(Corrupt) as refused:
            await sim.open()
        message = str(refused.value)
        assert path in message
        assert f"bytes {frames[2]} to" in message
        assert f"lsn {first_lsn + frames[2]} to" in message
        assert "t-0, t-1" in message
        assert "ottla recover /data --accept-loss" in message
    sim.change(path, flipped(frames[2] + 50))
    assert {name: sim.content(f"journal/{name}") for name in sim.disk.list("/data/journal")} == before
    await sim.open()
    assert len(values(await sim.log(0))) == 3


@pytest.mark.parametrize("is_vouched_for", [True, False])
async def test_a_mark_tells_damage_to_the_last_group_from_a_torn_write(sim, appends, is_vouched_for):
    await sim.filled(appends, 2)
    _, _, _, frames = journal_end(sim)
    if is_vouched_for:
        sim.now += 1
        sim.engine.commit(Barrier(lambda error: None))
        await sim.settle()
    sim.disk.kill()
    path, _, _, after = journal_end(sim)
    assert len(after) == len(frames) + is_vouched_for
    sim.change(path, flipped(frames[-1] + 70))
    if is_vouched_for:
        with pytest.raises(Corrupt, match="is damaged"):
            await sim.open()
        sim.change(path, flipped(frames[-1] + 70))
    await sim.open()
    assert len(values(await sim.log())) == 1 + is_vouched_for


async def test_segments_are_the_same_after_a_crash(sim, appends):
    log = await sim.filled(appends, 3, segment_bytes=200)
    await log.roll()
    await fill(log, appends, 1)
    await log.roll()
    for number in range(10):
        appends.add(log, b"%d" % number)
    await appends.reported(14)
    before = list(log.segments())
    await sim.reopen(kill=True)
    assert list((await sim.log(segment_bytes=200)).segments()) == before


async def test_a_journal_that_is_gone_is_missed(sim, appends):
    await sim.filled(appends, 2)
    sim.disk.kill()
    path, _, _, _ = journal_end(sim)
    content = sim.content(path)
    sim.disk.remove("/data/" + path)
    with pytest.raises(Corrupt, match="is missing"):
        await sim.open()
    sim.disk.put("/data/" + path, content)
    await sim.open()
    assert len(values(await sim.log())) == 2


@pytest.mark.parametrize("is_clean", [True, False])
async def test_a_checkpoint_that_is_damaged_or_gone_is_missed(sim, appends, is_clean):
    await sim.filled(appends, 2)
    await sim.end(kill=not is_clean)
    content = sim.content("checkpoint")
    for position in (5, 40, len(content) // 2, len(content) - 2):
        sim.change("checkpoint", flipped(position))
        with pytest.raises(Corrupt, match="checkpoint is damaged"):
            await sim.open()
        sim.change("checkpoint", flipped(position))
    sim.disk.remove("/data/checkpoint")
    with pytest.raises(Corrupt, match="checkpoint is missing"):
        await sim.open()
    sim.disk.put("/data/checkpoint", content)
    await sim.open()
    assert len(values(await sim.log())) == 2


async def test_batches_larger_than_the_read_buffer_are_recovered(sim, appends):
    log = await sim.log()
    contents = [b"a" * 900_000, b"b" * 3_000_000, b"c" * 10, b"d" * 1_100_000]
    for content in contents:
        appends.add(log, content)
    await appends.reported(4)
    await sim.reopen(kill=True)
    assert values(await sim.log()) == contents


async def test_nothing_below_the_checkpoint_is_read_after_a_crash(sim, appends):
    log = await sim.filled(appends, 20, segment_bytes=300)
    await log.roll()
    await fill(log, appends, 2)
    sim.disk.kill()
    trace = sim.watch()
    await sim.open()
    await sim.log(segment_bytes=300)
    read = {path for operation, path in trace if operation == "read" and path.startswith("logs/")}
    assert read == {"logs/t-0/partition.metadata"}


@pytest.mark.parametrize("kill", [True, False])
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: bytearray(),
        lambda content: content[:-3],
        lambda content: bytearray(len(content)),
        lambda content: content[::-1],
    ],
)
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
async def test_an_index_that_makes_no_sense_is_rebuilt(sim, appends, suffix, damage, kill):
    log = await sim.log(segment_bytes=2000, index_interval_bytes=100)
    for number in range(100):
        appends.add(log, b"v", timestamp_ms=number)
    await appends.reported(100)
    await sim.settle()
    await sim.end(kill=kill)
    for name in sim.disk.list("/data/logs/t-0"):
        if name.endswith("." + suffix):
            sim.change(f"logs/t-0/{name}", damage)
    await sim.open()
    log = await sim.log(segment_bytes=2000, index_interval_bytes=100)
    for offset in range(0, 100, 7):
        assert parse_header(log.read(offset, max_bytes=1)).base_offset == offset
        if suffix == "index" or len(damage(bytearray(b"1234"))) in (1, 4):
            assert finished(log.offset_for_timestamp(offset)) == OffsetAndTimestamp(offset, offset)


async def test_a_log_that_changed_after_a_clean_close_is_read_again(sim, appends):
    log = await sim.filled(appends, 3)
    await sim.engine.close()
    sim.change("logs/t-0/00000000000000000000.log", lambda content: content + b"more")
    await sim.open()
    log = await sim.log()
    assert (len(values(log)), log.log_end_offset) == (3, 3)
    assert sim.engine.recovered[0].cut_bytes == 4


async def test_segments_that_disappeared_after_a_clean_close_are_missed(sim, appends):
    await sim.filled(appends, 3)
    await sim.engine.close()
    sim.disk.remove("/data/logs/t-0/00000000000000000000.log")
    await sim.open()
    with pytest.raises(Corrupt, match="missing"):
        await sim.log()


async def test_trimmed_segments_are_removed_and_so_are_those_that_a_crash_left(sim, appends):
    log = await sim.filled(appends, 6, segment_bytes=1)
    old = sim.content("logs/t-0/00000000000000000001.log")
    await log.trim(4)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sim.bases() == [4, 5]
    sim.disk.put("/data/logs/t-0/00000000000000000001.log", old)
    await sim.reopen(kill=True)
    log = await sim.log(segment_bytes=1)
    assert (log.log_start_offset, values(log)) == (4, [b"value 4", b"value 5"])
    assert sim.bases() == [4, 5]


async def test_trimming_everything_frees_the_space_and_keeps_the_offsets(sim, appends):
    log = await sim.filled(appends, 3)
    await log.trim(3)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sim.disk.list("/data/logs/t-0") == ["partition.metadata"]
    assert (log.log_start_offset, log.size_bytes) == (3, 0)
    for kill in (True, False):
        await sim.reopen(kill=kill)
        log = await sim.log()
        assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    await fill(log, appends, 1)
    assert values(log) == [b"value 3"]


async def test_a_trim_makes_durable_what_it_leaves(sim, appends):
    log = await sim.filled(appends, 5, durability=Durability.OS)
    await log.trim(4)
    sim.disk.lose_power()
    await sim.open()
    log = await sim.log()
    assert (log.log_start_offset, log.log_end_offset, values(log)) == (4, 5, [b"value 4"])


@pytest.mark.parametrize("damage", [lambda content: content[:100], lambda content: bytearray()])
async def test_a_segment_that_is_shorter_than_it_was_is_missed(sim, appends, damage):
    await sim.filled(appends, 5)
    await sim.filled(appends, 1, 1)
    await sim.engine.close()
    sim.change("logs/t-0/00000000000000000000.log", damage)
    await sim.open()
    with pytest.raises(Corrupt, match="acknowledged records are missing"):
        await sim.log(0)
    assert values(await sim.log(1)) == [b"value 0"]


async def test_handles_are_few_however_many_logs_there_are(new_uuid, appends):
    sim = Simulated(new_uuid)
    await sim.open(most_readers=2, most_writers=3)
    logs = [await sim.log(partition, segment_bytes=200) for partition in range(12)]
    for number in range(5):
        for log in logs:
            appends.add(log, b"value %d" % number)
        await appends.reported(12 * (number + 1))
        for log in logs:
            assert len(values(log)) == number + 1
        await sim.settle()
        # Two readers, three writers, the journal with its directory, and the lock.
        assert sim.disk.open_handles <= 8
    await sim.engine.close()
    assert sim.disk.open_handles == 0
    await sim.open()
    assert [len(values(await sim.log(partition))) for partition in range(12)] == [5] * 12
    await sim.engine.close()


async def test_the_index_of_a_complete_segment_is_let_go_and_read_again(new_uuid, appends):
    sim = Simulated(new_uuid)
    await sim.open(most_readers=1)
    log = await sim.filled(appends, 5, segment_bytes=200, index_interval_bytes=0)
    for offset in (0, 4, 2, 4):
        log.read(offset, max_bytes=1)
    trace = sim.watch()
    assert parse_header(log.read(0, max_bytes=1)).base_offset == 0
    assert ("open", "logs/t-0/00000000000000000000.index") in trace
    trace.clear()
    # The segment that grows has its index in memory only.
    assert parse_header(log.read(4, max_bytes=1)).base_offset == 4
    assert [path for operation, path in trace if operation == "open"] == ["logs/t-0/00000000000000000004.log"]
    await sim.engine.close()


async def test_a_search_by_time_loads_the_index_of_one_segment_only(sim, appends):
    log = await sim.log(segment_bytes=400, index_interval_bytes=0)
    for number in range(60):
        await fill(log, appends, 1, timestamp_ms=100 + number)
    await sim.reopen()
    log = await sim.log(segment_bytes=400, index_interval_bytes=0)
    trace = sim.watch()
    assert finished(log.offset_for_timestamp(130)) == OffsetAndTimestamp(30, 130)
    assert len({path for operation, path in trace if operation == "open" and path.endswith(".index")}) == 1
    assert finished(log.max_timestamp()) == OffsetAndTimestamp(59, 159)
