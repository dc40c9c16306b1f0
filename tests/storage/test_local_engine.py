"""What only the local engine has: files, locks, recovery, groups and a disk that fails."""

import asyncio
import errno
import os
import struct
import uuid

import kafka.record
import pytest
import pytest_asyncio

from ottla.broker.storage.engine import (
    Corrupt,
    Durability,
    InUse,
    LogConfig,
    OffsetAndTimestamp,
    StorageFull,
    Unavailable,
    Unknown,
)
from ottla.broker.storage.local.engine import LocalEngine
from ottla.broker.storage.local.simulated import SimulatedDisk
from ottla.protocol.records import Record, TopicPartition, build_batch, decode_batch, iter_batches, parse_header

TOPIC_ID = uuid.UUID(int=7)

pytestmark = pytest.mark.asyncio


class Simulated:
    """An engine on a simulated disk, with a clock that the test moves."""

    def __init__(self, new_uuid):
        self.disk = SimulatedDisk(seed=1)
        self.now = 0.0
        self.new_uuid = new_uuid
        self.fatal = []
        self.trace = []
        self.engine = None

    def watch(self):
        """Note every operation of the disk from here on; return the list."""
        self.trace.clear()
        self.disk.before = lambda operation, path: self.trace.append((operation, path.removeprefix("/data/")))
        return self.trace

    def fail(self, operation, number=errno.EIO, times=1):
        """The next ``times`` such operations fail."""
        left = [times]

        def before(name, path):
            if name == operation and left[0]:
                left[0] -= 1
                raise OSError(number, os.strerror(number), path)

        self.disk.before = before

    async def open(self, **options):
        self.engine = LocalEngine(
            "/data",
            node_id=1,
            new_uuid=self.new_uuid,
            files=self.disk,
            threaded=False,
            monotonic=lambda: self.now,
            **options,
        )
        self.engine.on_fatal = self.fatal.append
        await self.engine.open()
        return self.engine

    async def reopen(self, *, kill=False):
        if kill:
            self.disk.kill()
        else:
            await self.engine.close()
        return await self.open()

    def log(self, partition=0, topic_id=TOPIC_ID, topic="t", **config):
        return self.engine.open_log(topic, topic_id, partition, LogConfig(**config))

    def content(self, path):
        handle = self.disk.open("/data/" + path)
        try:
            return self.disk.read(handle, self.disk.size(handle), 0)
        finally:
            self.disk.close(handle)

    def change(self, path, change):
        """Damage a file behind the engine's back."""
        content = change(bytearray(self.content(path)))
        handle = self.disk.open("/data/" + path)
        self.disk.truncate(handle, 0)
        self.disk.write(handle, [bytes(content)], 0)
        self.disk.close(handle)


@pytest_asyncio.fixture
async def sim(new_uuid):
    simulated = Simulated(new_uuid)
    await simulated.open()
    yield simulated
    simulated.disk.before = lambda operation, path: None
    await simulated.engine.close()


def values(log):
    data = log.read(log.log_start_offset, max_bytes=10**9)
    return [record.value for _, batch in iter_batches(data) for record in decode_batch(batch)]


async def fill(log, appends, count, **options):
    """Append ``count`` batches of one record, each in a group of its own."""
    for _ in range(count):
        before = len(appends.reports)
        appends.add(log, b"value %d" % log.log_end_offset, **options)
        await appends.reported(before + 1)


# --- what it costs ---------------------------------------------------------------------------------------------------


async def test_empty_logs_cost_nothing_on_disk(sim):
    trace = sim.watch()
    for partition in range(50):
        sim.log(partition, topic="__consumer_offsets")
    await asyncio.sleep(0)
    assert trace == []


async def test_opening_an_empty_directory_syncs_a_handful_of_times(new_uuid):
    sim = Simulated(new_uuid)
    await sim.open()
    assert sim.disk.syncs <= 6
    await sim.engine.close()


async def test_after_a_clean_close_no_batch_is_read(sim, appends):
    await fill(sim.log(segment_bytes=300), appends, 20)
    await sim.engine.close()
    trace = sim.watch()
    await sim.open()
    assert sim.engine.was_clean
    assert sim.log().log_end_offset == 20
    assert [path for operation, path in trace if operation == "read" and path.endswith(".log")] == []


async def test_one_sync_for_each_touched_file_of_a_group(sim, appends):
    logs = [sim.log(partition) for partition in range(3)]
    for log in logs:
        appends.add(log, b"first")
    await appends.reported(3)
    trace = sim.watch()
    for _ in range(10):
        for log in logs:
            appends.add(log, b"v")
    await appends.reported(33)
    assert [operation for operation, _ in trace] == ["write"] * 3 + ["sync"] * 3


# --- what it writes --------------------------------------------------------------------------------------------------


async def test_segments_are_those_of_kafka(sim, appends):
    log = sim.log(segment_bytes=1000, index_interval_bytes=150)
    for number in range(20):
        appends.add(log, b"a" * 40, b"b" * 40, timestamp_ms=1000 * number)
    await sim.engine.close()
    names = sorted(sim.disk.list("/data/logs/t-0"))
    bases = [int(name.removesuffix(".log")) for name in names if name.endswith(".log")]
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
    log = sim.log()
    appends.add(log, b"a", b"b")
    appends.add(log, b"c", codec=3)
    await appends.reported(2)
    records = kafka.record.MemoryRecords(sim.content("logs/t-0/00000000000000000000.log"))
    read = []
    while records.has_next():
        batch = records.next_batch()
        assert batch.validate_crc()
        read += [(record.offset, record.value) for record in batch]
    assert read == [(0, b"a"), (1, b"b"), (2, b"c")]


async def test_the_small_files_are_those_of_kafka_too(sim, appends):
    appends.add(sim.log(topic_id=uuid.UUID(int=2**128 - 1)), b"v")
    await appends.reported(1)
    assert sim.content("logs/t-0/partition.metadata") == b"version: 0\ntopic_id: _____________________w\n"
    meta = sim.content("meta.properties").decode().splitlines()
    assert f"cluster.id={sim.engine.cluster_id}" in meta
    assert {"node.id=1", "version=1", "format=1"} < set(meta)


async def test_segments_end_by_age_and_by_the_size_of_their_index(sim, appends):
    by_age = sim.log(0, segment_ms=100)
    for timestamp_ms in (1000, 1100, 1101, 900, 1202):
        appends.add(by_age, b"v", timestamp_ms=timestamp_ms)
    by_index = sim.log(1, segment_index_bytes=16, index_interval_bytes=0)
    await appends.reported(5)
    for number in range(7):
        await fill(by_index, appends, 1, timestamp_ms=number)

    def bases(partition):
        names = sim.disk.list(f"/data/logs/t-{partition}")
        return sorted(int(name.removesuffix(".log")) for name in names if name.endswith(".log"))

    assert bases(0) == [0, 2, 4]
    assert bases(1) == [0, 2, 4, 6]


async def test_age_goes_on_after_a_restart(sim, appends):
    await fill(sim.log(segment_ms=100), appends, 1, timestamp_ms=1000)
    await sim.reopen()
    log = sim.log(segment_ms=100)
    await fill(log, appends, 1, timestamp_ms=1101)
    assert "00000000000000000001.log" in sim.disk.list("/data/logs/t-0")


async def test_the_longest_topic_name_can_be_deleted(sim, appends):
    topic = "ä" * 124 + "x"
    log = sim.log(topic=topic)
    appends.add(log, b"v")
    await appends.reported(1)
    trace = sim.watch()
    await sim.engine.delete_log(log.tp)
    trash = {path.split("/")[1] for operation, path in trace if operation == "list"}
    assert all(len(name.encode()) <= 255 and name.endswith("-delete") for name in trash)
    assert sim.disk.list("/data/logs") == []
    with pytest.raises(ValueError, match="cannot be stored"):
        sim.log(topic="x" * 254)
    with pytest.raises(ValueError, match="cannot be stored"):
        sim.log(topic="../x")


# --- when it counts as durable ---------------------------------------------------------------------------------------


async def test_interval_acknowledges_at_once_and_syncs_when_it_is_time(sim, appends):
    log = sim.log(durability=Durability.INTERVAL)
    await fill(log, appends, 1)
    trace = sim.watch()
    await fill(log, appends, 3)
    assert "sync" not in [operation for operation, _ in trace]
    sim.now = 0.051
    await fill(log, appends, 1)
    assert [path for operation, path in trace if operation == "sync"] == ["logs/t-0/00000000000000000000.log"]
    # The next interval begins with the next append.
    await fill(log, appends, 1)
    sim.now = 0.09
    await fill(log, appends, 1)
    assert [operation for operation, _ in trace].count("sync") == 1


async def test_os_never_syncs_what_is_appended_until_the_engine_is_closed(sim, appends):
    log = sim.log(durability=Durability.OS)
    await fill(log, appends, 1)
    trace = sim.watch()
    sim.now = 1000.0
    await fill(log, appends, 5)
    assert "sync" not in [operation for operation, _ in trace]
    await sim.engine.close()
    assert ("sync", "logs/t-0/00000000000000000000.log") in trace


async def test_the_policy_of_an_append_is_that_of_its_moment(sim, appends):
    log = sim.log(durability=Durability.OS)
    await fill(log, appends, 1)
    log.config = LogConfig(durability=Durability.FSYNC)
    trace = sim.watch()
    await fill(log, appends, 1)
    assert ("sync", "logs/t-0/00000000000000000000.log") in trace


# --- a disk that is full ---------------------------------------------------------------------------------------------


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


# --- recovery --------------------------------------------------------------------------------------------------------


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


# --- the directory ---------------------------------------------------------------------------------------------------


def local(path, new_uuid, **options):
    return LocalEngine(str(path), node_id=1, new_uuid=new_uuid, **options)


async def test_a_second_engine_is_refused_and_told_who_holds_it(tmp_path, new_uuid):
    first = local(tmp_path / "deep" / "data", new_uuid)
    await first.open()
    with pytest.raises(InUse, match=rf"pid {os.getpid()}\)"):
        await local(tmp_path / "deep" / "data", new_uuid).open()
    await first.close()
    second = local(tmp_path / "deep" / "data", new_uuid)
    await second.open()
    await second.close()


async def test_another_nodes_directory_is_refused(tmp_path, new_uuid):
    engine = local(tmp_path, new_uuid)
    await engine.open()
    await engine.close()
    other = LocalEngine(str(tmp_path), node_id=2, new_uuid=new_uuid)
    with pytest.raises(Corrupt, match="belongs to node 1, this is node 2"):
        await other.open()
    # A refused engine holds nothing.
    await engine.open()
    await engine.close()


@pytest.mark.parametrize("name", ["catalog.json", "meta.properties"])
@pytest.mark.parametrize("content", [b"", b"{}", b'{"format": 99}', b"format=99\ncluster.id=x\nnode.id=1"])
async def test_files_that_make_no_sense_are_named(tmp_path, new_uuid, name, content):
    engine = local(tmp_path, new_uuid)
    await engine.open()
    await engine.close()
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Corrupt, match=name):
        await local(tmp_path, new_uuid).open()


async def test_a_place_where_no_directory_can_be_is_refused(tmp_path, new_uuid):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Unavailable, match="file/data"):
        await local(tmp_path / "file" / "data", new_uuid).open()


async def test_many_writers_at_once_keep_their_order(tmp_path, new_uuid, appends):
    engine = local(tmp_path, new_uuid)
    await engine.open()
    logs = [engine.open_log("t", TOPIC_ID, partition, LogConfig(segment_bytes=20_000)) for partition in range(4)]
    seen = {log.tp: [] for log in logs}

    async def produce(log, client):
        loop = asyncio.get_running_loop()
        for number in range(100):
            done = loop.create_future()

            def report(base_offset, error, log=log, done=done):
                seen[log.tp].append(base_offset)
                done.set_result(error)

            batch = build_batch([Record(0, number, None, b"%d %d" % (client, number))])
            log.append(batch, count=1, max_timestamp_ms=number, done=report)
            assert await done is None

    await asyncio.gather(*(produce(log, client) for log in logs for client in range(5)))
    for log in logs:
        assert seen[log.tp] == list(range(500))
        written = [value.split() for value in values(log)]
        for client in range(5):
            assert [int(n) for c, n in written if int(c) == client] == list(range(100))
    await engine.close()


async def test_a_loop_that_ends_without_closing_leaves_what_was_acknowledged(tmp_path, new_uuid):
    def run():
        async def life():
            engine = local(tmp_path, new_uuid)
            await engine.open()
            log = engine.open_log("t", TOPIC_ID, 0, LogConfig())
            done = asyncio.get_running_loop().create_future()
            log.append(
                build_batch([Record(value=b"kept")]),
                count=1,
                max_timestamp_ms=-1,
                done=lambda base_offset, error: done.set_result(error),
            )
            await done
            # Still on its way when the loop is closed.
            log.append(build_batch([Record()]), count=1, max_timestamp_ms=-1, done=lambda base_offset, error: None)
            return engine

        return asyncio.run(life())

    abandoned = await asyncio.to_thread(run)
    os.close(abandoned._lock)
    engine = local(tmp_path, new_uuid)
    await engine.open()
    assert values(engine.open_log("t", TOPIC_ID, 0, LogConfig()))[0] == b"kept"
    await engine.close()
