"""What the local engine costs and writes, and when it counts as durable."""

import asyncio
import struct
import uuid

import kafka.record
import pytest

from ottla.broker.engine import Durability, LogConfig
from ottla.broker.storage.local.operations import Barrier
from ottla.protocol.records import iter_batches
from tests.storage.simulated_engine import Simulated, fill


async def test_empty_logs_cost_nothing_on_disk(sim):
    trace = sim.watch()
    for partition in range(50):
        await sim.log(partition, topic="__consumer_offsets")
    await asyncio.sleep(0)
    assert trace == []


async def test_opening_an_empty_directory_syncs_a_handful_of_times(new_uuid):
    sim = Simulated(new_uuid)
    await sim.open()
    assert sim.disk.syncs <= 6
    await sim.engine.close()


async def test_after_a_clean_close_no_batch_is_read(sim, appends):
    await sim.filled(appends, 20, segment_bytes=300)
    await sim.engine.close()
    trace = sim.watch()
    await sim.open()
    assert sim.engine.was_clean
    assert (await sim.log()).log_end_offset == 20
    assert [path for operation, path in trace if operation == "read" and path.endswith(".log")] == []


async def test_a_group_is_one_write_and_one_sync_however_many_logs_it_touches(sim, appends):
    logs = [await sim.log(partition) for partition in range(3)]
    for log in logs:
        appends.add(log, b"first")
    await appends.reported(3)
    await sim.settle()
    trace = sim.watch()
    for _ in range(10):
        for log in logs:
            appends.add(log, b"v")
    await appends.reported(33)
    journal = [operation for operation, path in trace if path.startswith("journal/")]
    assert journal == ["write", "sync"]
    await sim.settle()
    # One gulp for each log, which nobody waits for and nothing syncs.
    assert [operation for operation, path in trace if path.startswith("logs/")] == ["write"] * 3


# --- what it writes --------------------------------------------------------------------------------------------------


async def test_segments_are_those_of_kafka(sim, appends):
    log = await sim.log(segment_bytes=1000, index_interval_bytes=150)
    for number in range(20):
        appends.add(log, b"a" * 40, b"b" * 40, timestamp_ms=1000 * number)
    await sim.engine.close()
    names = sorted(sim.disk.list("/data/logs/t-0"))
    bases = sim.bases()
    assert bases[0] == 0
    assert len(bases) > 3
    assert all(len(name) == 24 for name in names if name.endswith(".log"))
    for base in bases:
        content = sim.content(f"logs/t-0/{base:020d}.log")
        batches = {}
        for header, batch in iter_batches(content):
            batches[header.base_offset] = (content.index(batch), header)
        assert base in batches
        assert len(content) <= 1000
        # The offset index: a batch's last offset, and where the batch begins.
        ends = {header.last_offset: position for position, header in batches.values()}
        entries = list(struct.iter_unpack(">ii", sim.content(f"logs/t-0/{base:020d}.index")))
        assert entries or len(batches) < 3
        for relative, position in entries:
            assert ends[base + relative] == position
        # The time index: the largest timestamp, and the last offset of its batch; the last entry is the segment's.
        times = list(struct.iter_unpack(">qi", sim.content(f"logs/t-0/{base:020d}.timeindex")))
        largest = max(header.max_timestamp for _, header in batches.values())
        assert times[-1][0] == largest
        for timestamp_ms, relative in times:
            assert [h.max_timestamp for _, h in batches.values() if h.last_offset == base + relative] == [timestamp_ms]


async def test_another_client_reads_the_file(sim, appends):
    log = await sim.log()
    appends.add(log, b"a", b"b")
    appends.add(log, b"c", codec=3)
    await sim.engine.close()
    records = kafka.record.MemoryRecords(sim.content("logs/t-0/00000000000000000000.log"))
    read = []
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        read += [(record.offset, record.value) for record in batch]
    assert read == [(0, b"a"), (1, b"b"), (2, b"c")]


async def test_the_small_files_are_those_of_kafka_too(sim, appends):
    await appends.outcome(await sim.log(topic_id=uuid.UUID(int=2**128 - 1)), b"v")
    await sim.settle()
    assert sim.content("logs/t-0/partition.metadata") == b"version: 0\ntopic_id: _____________________w\n"
    meta = sim.content("meta.properties").decode().splitlines()
    assert f"cluster.id={sim.engine.cluster_id}" in meta
    assert {"node.id=1", "version=1", "format=2"} < set(meta)


async def test_segments_end_by_age_and_by_the_size_of_their_index(sim, appends):
    by_age = await sim.log(0, segment_ms=100)
    for timestamp_ms in (1000, 1100, 1101, 900, 1202):
        appends.add(by_age, b"v", timestamp_ms=timestamp_ms)
    by_index = await sim.log(1, segment_index_bytes=16, index_interval_bytes=0)
    await appends.reported(5)
    for number in range(7):
        await fill(by_index, appends, 1, timestamp_ms=number)
    assert sim.bases(0) == [0, 2, 4]
    assert sim.bases(1) == [0, 2, 4, 6]


async def test_age_goes_on_after_a_restart(sim, appends):
    await fill(await sim.log(segment_ms=100), appends, 1, timestamp_ms=1000)
    await sim.reopen()
    log = await sim.log(segment_ms=100)
    await fill(log, appends, 1, timestamp_ms=1101)
    assert "00000000000000000001.log" in sim.disk.list("/data/logs/t-0")


async def test_the_longest_topic_name_can_be_deleted(sim, appends):
    topic = "ä" * 124 + "x"
    log = await sim.filled(appends, 1, topic=topic)
    trace = sim.watch()
    await sim.engine.delete_log(log.tp)
    trash = {path.split("/")[1] for operation, path in trace if operation == "list"}
    assert all(len(name.encode()) <= 255 and name.endswith("-delete") for name in trash)
    assert sim.disk.list("/data/logs") == []
    with pytest.raises(ValueError, match="cannot be stored"):
        await sim.log(topic="x" * 254)
    with pytest.raises(ValueError, match="cannot be stored"):
        await sim.log(topic="../x")


# --- when it counts as durable ---------------------------------------------------------------------------------------


def journal_syncs(trace):
    return [operation for operation, path in trace if path.startswith("journal/")].count("sync")


async def test_interval_acknowledges_at_once_and_syncs_when_it_is_time(sim, appends):
    log = await sim.filled(appends, 1, durability=Durability.INTERVAL)
    trace = sim.watch()
    await fill(log, appends, 3)
    assert journal_syncs(trace) == 0
    sim.now = 0.051
    await fill(log, appends, 1)
    assert journal_syncs(trace) == 1
    # The next interval begins with the next append.
    await fill(log, appends, 1)
    sim.now = 0.09
    await fill(log, appends, 1)
    assert journal_syncs(trace) == 1


async def test_os_never_syncs_what_is_appended_until_the_engine_is_closed(sim, appends):
    log = await sim.filled(appends, 1, durability=Durability.OS)
    trace = sim.watch()
    sim.now = 30.0
    await fill(log, appends, 5)
    assert "sync" not in [operation for operation, _ in trace]
    await sim.engine.close()
    assert ("sync", "logs/t-0/00000000000000000000.log") in trace


async def test_the_policy_of_an_append_is_that_of_its_moment(sim, appends):
    log = await sim.filled(appends, 1, durability=Durability.OS)
    log.config = LogConfig(durability=Durability.FSYNC)
    trace = sim.watch()
    await fill(log, appends, 1)
    assert journal_syncs(trace) == 1
    log.config = LogConfig(durability=Durability.OS)
    await fill(log, appends, 1)
    assert journal_syncs(trace) == 1


async def test_the_last_group_is_vouched_for_when_nothing_follows(sim, appends):
    await sim.filled(appends, 1)
    trace = sim.watch()
    sim.now = 0.051
    # Anything that turns the loop of the committer does.
    sim.engine.commit(Barrier(lambda error: None))
    await sim.settle()
    assert [operation for operation, path in trace if path.startswith("journal/")] == ["write", "sync"]
    sim.now = 10.0
    sim.engine.commit(Barrier(lambda error: None))
    await sim.settle()
    assert journal_syncs(trace) == 1
