"""What the local engine finds again after a crash, and what it holds meanwhile."""

import asyncio
import struct

import pytest

from ottla.broker.storage.engine import (
    Corrupt,
    Durability,
    OffsetAndTimestamp,
)
from ottla.protocol.records import TopicPartition, parse_header
from tests.storage.simulated_engine import Simulated, fill, values

pytestmark = pytest.mark.asyncio


@pytest.mark.parametrize("cut", [1, 60, 61, 70])
async def test_a_torn_tail_is_cut_and_reported(sim, appends, cut):
    log = sim.log()
    await fill(log, appends, 3)
    size = log.size_bytes // 3
    sim.disk.kill()
    sim.change("logs/t-0/00000000000000000000.log", lambda content: content[: 2 * size + cut])
    await sim.open()
    log = sim.log()
    assert values(log) == [b"value 0", b"value 1"]
    (found,) = sim.engine.recovered
    assert (found.tp, found.cut_bytes) == (TopicPartition("t", 0), cut)
    assert f"byte {2 * size}" in found.reason
    assert appends.add(log, b"on") == 2
    await appends.reported(4)
    await sim.reopen(kill=True)
    assert (values(sim.log()), sim.engine.recovered) == ([b"value 0", b"value 1", b"on"], [])


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content + bytes(5000),
        lambda content: content + b"\xff" * 100,
        lambda content: content + content[:90],
        lambda content: content + struct.pack(">qiib", 3, 2**31 - 1, 0, 2) + b"x" * 200,
    ],
)
async def test_whatever_follows_the_last_batch_is_cut(sim, appends, damage):
    log = sim.log()
    await fill(log, appends, 3)
    sim.disk.kill()
    sim.change("logs/t-0/00000000000000000000.log", damage)
    await sim.open()
    log = sim.log()
    assert len(values(log)) == 3
    assert len(sim.content("logs/t-0/00000000000000000000.log")) == log.size_bytes


async def test_batches_larger_than_the_read_buffer_are_recovered(sim, appends):
    log = sim.log()
    contents = [b"a" * 900_000, b"b" * 3_000_000, b"c" * 10, b"d" * 1_100_000]
    for content in contents:
        appends.add(log, content)
    await appends.reported(4)
    await sim.reopen(kill=True)
    assert values(sim.log()) == contents


async def test_damage_before_the_last_segment_is_not_cut_but_refused(sim, appends):
    log, other = sim.log(0, segment_bytes=1), sim.log(1)
    await fill(log, appends, 3)
    await fill(other, appends, 1)
    sim.disk.kill()

    def damage(content):
        content[-1] ^= 1
        return content

    # The checkpoint vouches for the first segments; without it everything is read again.
    sim.disk.remove("/data/checkpoint.json")
    sim.change("logs/t-0/00000000000000000001.log", damage)
    await sim.open()
    with pytest.raises(Corrupt, match=r"00000000000000000001\.log is damaged at byte 0"):
        sim.log(0, segment_bytes=1)
    assert values(sim.log(1)) == [b"value 0"]


async def test_only_the_last_segment_is_read_again_after_a_crash(sim, appends):
    log = sim.log(segment_bytes=1)
    await fill(log, appends, 5)
    sim.disk.kill()
    trace = sim.watch()
    await sim.open()
    sim.log(segment_bytes=1)
    read = {path for operation, path in trace if operation == "read" and path.endswith(".log")}
    assert read == {"logs/t-0/00000000000000000004.log"}


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
    log = sim.log(segment_bytes=2000, index_interval_bytes=100)
    for number in range(100):
        appends.add(log, b"v", timestamp_ms=number)
    await appends.reported(100)
    if kill:
        sim.disk.kill()
    else:
        await sim.engine.close()
    for name in sim.disk.list("/data/logs/t-0"):
        if name.endswith("." + suffix):
            sim.change(f"logs/t-0/{name}", damage)
    await sim.open()
    log = sim.log(segment_bytes=2000, index_interval_bytes=100)
    for offset in range(0, 100, 7):
        assert parse_header(log.read(offset, max_bytes=1)).base_offset == offset
        if suffix == "index" or len(damage(bytearray(b"1234"))) in (1, 4):
            assert log.offset_for_timestamp(offset) == OffsetAndTimestamp(offset, offset)


async def test_a_log_that_changed_after_a_clean_close_is_read_again(sim, appends):
    log = sim.log()
    await fill(log, appends, 3)
    await sim.engine.close()
    sim.change("logs/t-0/00000000000000000000.log", lambda content: content + b"more")
    await sim.open()
    log = sim.log()
    assert (len(values(log)), log.log_end_offset) == (3, 3)
    assert sim.engine.recovered[0].cut_bytes == 4


async def test_segments_that_disappeared_after_a_clean_close_are_missed(sim, appends):
    await fill(sim.log(), appends, 3)
    await sim.engine.close()
    sim.disk.remove("/data/logs/t-0/00000000000000000000.log")
    await sim.open()
    with pytest.raises(Corrupt, match="missing"):
        sim.log()


async def test_trimmed_segments_are_removed_and_so_are_those_that_a_crash_left(sim, appends):
    log = sim.log(segment_bytes=1)
    await fill(log, appends, 6)
    old = sim.content("logs/t-0/00000000000000000001.log")
    await log.trim(4)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    names = [name for name in sim.disk.list("/data/logs/t-0") if name.endswith(".log")]
    assert sorted(names) == ["00000000000000000004.log", "00000000000000000005.log"]
    handle = sim.disk.open("/data/logs/t-0/00000000000000000001.log", create=True)
    sim.disk.write(handle, [old], 0)
    await sim.reopen(kill=True)
    log = sim.log(segment_bytes=1)
    assert (log.log_start_offset, values(log)) == (4, [b"value 4", b"value 5"])
    assert "00000000000000000001.log" not in sim.disk.list("/data/logs/t-0")


async def test_trimming_everything_frees_the_space_and_keeps_the_offsets(sim, appends):
    log = sim.log()
    await fill(log, appends, 3)
    assert log.retention_offset(oldest_ms=10**6) == 3
    await log.trim(3)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sim.disk.list("/data/logs/t-0") == ["partition.metadata"]
    assert (log.log_start_offset, log.size_bytes) == (3, 0)
    for kill in (True, False):
        await sim.reopen(kill=kill)
        log = sim.log()
        assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    await fill(log, appends, 1)
    assert values(log) == [b"value 3"]


async def test_a_durable_trim_of_records_that_power_loss_took_empties_the_log(sim, appends):
    log = sim.log(durability=Durability.OS)
    await fill(log, appends, 5)
    await log.trim(4)
    sim.disk.kill()
    sim.change("logs/t-0/00000000000000000000.log", lambda content: content[:100])
    await sim.open()
    log = sim.log()
    assert (log.log_start_offset, log.log_end_offset, values(log)) == (4, 4, [])
    await fill(log, appends, 1)
    await sim.reopen(kill=True)
    assert values(sim.log()) == [b"value 4"]


async def test_a_checkpoint_that_cannot_be_read_is_done_without(sim, appends):
    log = sim.log(segment_bytes=300)
    await fill(log, appends, 10)
    await sim.engine.close()
    sim.change("checkpoint.json", lambda content: content[: len(content) // 2])
    await sim.open()
    assert not sim.engine.was_clean
    assert len(values(sim.log())) == 10


async def test_handles_are_few_however_many_logs_there_are(new_uuid, appends):
    sim = Simulated(new_uuid)
    await sim.open(most_readers=2, most_writers=3)
    logs = [sim.log(partition, segment_bytes=200) for partition in range(12)]
    for number in range(5):
        for log in logs:
            appends.add(log, b"value %d" % number)
        await appends.reported(12 * (number + 1))
        for log in logs:
            assert len(values(log)) == number + 1
        # Two readers, three writers and the lock.
        assert sim.disk.open_handles <= 6
    await sim.engine.close()
    assert sim.disk.open_handles == 0
    await sim.open()
    assert [len(values(sim.log(partition))) for partition in range(12)] == [5] * 12
    await sim.engine.close()


async def test_the_index_of_a_complete_segment_is_let_go_and_read_again(new_uuid, appends):
    sim = Simulated(new_uuid)
    await sim.open(most_readers=1)
    log = sim.log(segment_bytes=200, index_interval_bytes=0)
    await fill(log, appends, 5)
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
    log = sim.log(segment_bytes=400, index_interval_bytes=0)
    for number in range(60):
        await fill(log, appends, 1, timestamp_ms=100 + number)
    await sim.reopen()
    log = sim.log(segment_bytes=400, index_interval_bytes=0)
    trace = sim.watch()
    assert log.offset_for_timestamp(130) == OffsetAndTimestamp(30, 130)
    assert len({path for operation, path in trace if operation == "open" and path.endswith(".index")}) == 1
    assert log.max_timestamp() == OffsetAndTimestamp(59, 159)
