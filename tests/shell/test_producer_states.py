"""Snapshots of producers and transactions beside the logs: when they help, and when they are thrown away."""

import asyncio
import json
from types import SimpleNamespace
from uuid import UUID

import pytest

from ottla.broker.core.topics.configs import TopicConfig
from ottla.broker.core.topics.partition import Topic
from ottla.broker.core.topics.producers import TransactionMarker
from ottla.broker.core.topics.snapshot import NotUsable, restore, take
from ottla.broker.engine import LogConfig, Unavailable
from ottla.broker.handlers.describe_producers import active_producers
from ottla.broker.runtime import producer_states
from ottla.broker.runtime.producer_states import ProducerStates
from ottla.broker.settings import Settings
from ottla.broker.storage.local.snapshots import SnapshotFiles
from ottla.broker.storage.memory import MemoryEngine
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record, TopicPartition
from tests.shell.host import Log
from tests.support.batches import build_batch

WALL_MS = 1_700_000_000_000


class Report(Log):
    def info(self, event, **fields): ...


class World:
    """One partition over the memory engine; ``reads`` are the offsets at which its log was read."""

    def __init__(self, directory):
        self.directory = directory
        self.report = Report()
        self.queue = []
        self.failing = False
        self.engine = MemoryEngine(
            new_uuid=lambda: UUID(int=1),
            call_soon=self.queue.append,
            fault=lambda tp, offset: Unavailable("failed") if self.failing else None,
        )
        self.states = ProducerStates(
            directory and SnapshotFiles(directory), SimpleNamespace(wall_ms=lambda: WALL_MS), self.report
        )

    async def open(self):
        await self.engine.open()
        topic = Topic("t", UUID(int=2), is_internal=False, overrides={}, config=TopicConfig.of({}, Settings()))
        self.partition = topic.add_partition(await self.engine.open_log("t", UUID(int=2), 0, LogConfig()))
        self.reads = []
        log = self.partition.log
        read = type(log).read.__get__(log)
        log.read = lambda offset, **options: self.reads.append(offset) or read(offset, **options)
        await self.states.rebuild(self.partition)
        return self.partition

    async def reopen(self):
        self.engine.abandon()
        self.queue.clear()
        return await self.open()

    def run(self):
        while self.queue:
            self.queue.pop(0)()

    async def saved(self):
        """Wait for a snapshot, and end."""
        for _ in range(100):
            await asyncio.sleep(0.01)
            if list(self.directory.glob("*.snapshot")):
                break
        await self.states.stop(())

    def send(self, sequence, *, epoch=0):
        batch = build_batch(
            [Record(value=b"v", timestamp_ms=WALL_MS)], producer_id=1, producer_epoch=epoch, base_sequence=sequence,
            is_transactional=True,
        )  # fmt: skip
        verified = self.partition.begin_verification(1, epoch, sequence)
        self.partition.produce(batch, 9, WALL_MS, nobody, verified)

    def end(self, *, commit):
        self.partition.append_marker(TransactionMarker(1, 0, 0, commit), WALL_MS, nobody)


def nobody(offset, error):
    """Hears of an append."""


def facts(partition):
    return partition.last_stable_offset, partition.aborted_in(0, 100), active_producers(partition)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "producers")


async def filled(world):
    await world.open()
    world.send(0)
    world.end(commit=False)
    world.send(1)
    world.run()
    return facts(world.partition)


async def kept(world):
    """The file of its snapshot."""
    await filled(world)
    await world.states.stop([world.partition])
    (path,) = world.directory.iterdir()
    return path


async def test_without_a_snapshot_the_log_is_read_from_its_beginning(world):
    before = await filled(world)
    await world.reopen()
    assert world.reads == [0]
    assert facts(world.partition) == before == (2, [(1, 0)], before[2])


async def test_with_one_only_what_came_after_is_read(world):
    await filled(world)
    await world.states.stop([world.partition])
    world.send(2)
    world.end(commit=True)
    world.run()
    after = facts(world.partition)
    await world.reopen()
    assert world.reads == [3]
    assert facts(world.partition) == after
    assert world.report.lines == []


async def test_a_stop_writes_nothing_where_nothing_is_new(world):
    path = await kept(world)
    path.unlink()
    await world.states.stop([world.partition])
    assert list(world.directory.iterdir()) == []


async def test_a_snapshot_of_a_log_that_lost_its_end_is_thrown_away(world):
    path = await kept(world)
    log = world.partition.log
    world.engine.abandon()
    for part in (log._batches, log._last_offsets, log._peaks):
        part.pop()
    log.high_watermark = log.log_end_offset = 2
    await world.open()
    assert world.reads == [0] and not path.exists()
    assert world.partition.last_stable_offset == 2
    assert world.report.lines[0][1]["reason"] == "newer than the log"


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: b"", lambda data: b"0" * 8 + data[8:]])
async def test_a_damaged_snapshot_is_thrown_away(world, damage):
    path = await kept(world)
    before = facts(world.partition)
    path.write_bytes(damage(path.read_bytes()))
    await world.reopen()
    assert facts(world.partition) == before and world.reads == [0]
    assert world.report.lines[0][1]["reason"] == "damaged" and not path.exists()


async def test_the_snapshot_of_a_deleted_topic_goes_with_it(world):
    await kept(world)
    await world.states.forget(TopicPartition("t", 0))
    assert list(world.directory.iterdir()) == []
    await world.states.forget(TopicPartition("t", 0))


@pytest.mark.parametrize(
    "change",
    [{"format": 2}, {"topic_id": str(UUID(int=9))}, {"offset": 99}, {"producers": [[1]]}, {"aborted": None},
     {"producers": [[1, 0, 0, 0, 0, -1, "x"]]}, {"ended": 7}],
)  # fmt: skip
async def test_a_document_that_does_not_fit_changes_nothing(world, change):
    await filled(world)
    document = json.loads(json.dumps(take(world.partition))) | change
    fresh = Topic("t", UUID(int=2), is_internal=False, overrides={}, config=world.partition.topic.config)
    partition = fresh.add_partition(world.partition.log)
    with pytest.raises(NotUsable):
        restore(partition, document)
    assert len(partition.producers) == 0 and not partition.transactions.unstable


async def test_a_busy_partition_gets_one_when_the_log_is_durable_so_far(world, monkeypatch):
    monkeypatch.setattr(producer_states, "SNAPSHOT_BYTES", 50)
    monkeypatch.setattr(producer_states, "CHECK_MS", 1)
    await world.open()
    world.send(0)
    world.run()
    world.send(1)
    world.states.start(lambda: [world.partition])
    await asyncio.sleep(0.03)
    assert not world.directory.exists()
    world.run()
    await world.saved()
    await world.reopen()
    assert world.reads == []


async def test_those_that_grew_most_get_one_when_all_together_grew_much(world, monkeypatch):
    monkeypatch.setattr(producer_states, "UNSEEN_BYTES", 250)
    monkeypatch.setattr(producer_states, "CHECK_MS", 1)
    await world.open()
    topic = world.partition.topic
    partitions = [world.partition, topic.add_partition(await world.engine.open_log("t", UUID(int=2), 1, LogConfig()))]
    for partition, count in zip(partitions, (1, 3), strict=True):
        for _ in range(count):
            partition.append_marker(TransactionMarker(1, 0, 0, True), WALL_MS, nobody)
    world.run()
    world.states.start(lambda: partitions)
    await world.saved()
    assert [path.name for path in world.directory.iterdir()] == ["t-1.snapshot"]


async def test_batches_of_nobody_are_passed_over(world):
    await world.open()
    for _ in range(3):
        batch = build_batch([Record(value=b"v", timestamp_ms=WALL_MS)] * 2)
        world.partition.produce(batch, 9, WALL_MS, nobody)
    world.send(0)
    world.partition.produce(batch, 9, WALL_MS, nobody)
    world.run()
    before = facts(world.partition)
    await world.reopen()
    assert facts(world.partition) == before and before[0] == 6


async def test_what_has_failed_is_in_no_snapshot(world, monkeypatch):
    await world.open()
    world.send(0)
    world.run()
    world.send(1)
    saving = asyncio.ensure_future(world.states._save_when_durable(world.partition))
    await asyncio.sleep(0)
    world.failing = True
    world.run()
    world.failing = False
    world.send(1)
    world.run()
    await saving
    assert not world.directory.exists()


async def test_what_was_taken_before_a_partition_was_forgotten_is_not_written_after(world):
    await world.open()
    world.send(0)
    saving = asyncio.ensure_future(world.states._save_when_durable(world.partition))
    await asyncio.sleep(0)
    await world.states.forget(world.partition.tp)
    world.run()
    await saving
    assert not world.directory.exists()
    writing = asyncio.ensure_future(world.states.stop([world.partition]))
    await asyncio.sleep(0)
    await world.states.forget(world.partition.tp)
    await writing
    assert list(world.directory.iterdir()) == []


async def test_partitions_that_came_and_went_take_no_memory(world):
    await world.open()
    states = world.states
    held = {name: value for name, value in vars(states).items() if isinstance(value, dict)}
    assert held and not any(held.values())
    for number in range(100):
        await states.forget(TopicPartition(f"gone-{number}", 0))
    world.send(0)
    world.run()
    await states._save_when_durable(world.partition)
    assert [path.name for path in world.directory.iterdir()] == ["t-0.snapshot"]
    await states.forget(world.partition.tp)
    assert not any(held.values()), held


async def test_what_cannot_be_written_is_told_and_tried_again(world):
    await filled(world)
    world.directory.write_bytes(b"in the way")
    await world.states.stop([world.partition])
    assert world.report.events == ["a snapshot of producers could not be written"]
    world.directory.unlink()
    await world.states.stop([world.partition])
    assert [path.name for path in world.directory.iterdir()] == ["t-0.snapshot"]


async def test_without_a_directory_nothing_is_kept(world):
    states = ProducerStates(None, SimpleNamespace(wall_ms=lambda: WALL_MS), world.report)
    world.states = states
    await filled(world)
    states.start(lambda: [world.partition])
    await states.stop([world.partition])
    await states.forget(TopicPartition("t", 0))
    assert not world.directory.exists()
    told = []
    world.partition.append_marker(TransactionMarker(1, 0, -1, False), WALL_MS, lambda offset, code: told.append(code))
    assert told == [ErrorCode.TRANSACTION_COORDINATOR_FENCED]
