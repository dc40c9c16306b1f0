"""Group events on their way to their topic: together, bounded, and nobody waits for them."""

from __future__ import annotations

from typing import Any

from ottla.broker.core.topics.partition import Standing
from ottla.broker.engine import EngineError, StorageFull, Unavailable
from ottla.broker.runtime.group_events import BATCH_BYTES, LINGER_MS, GroupEventLog, topic_configs
from ottla.broker.settings import Settings
from ottla.observe.group_events import Put
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import GROUP_EVENTS_TOPIC
from ottla.protocol.records import Record, TopicPartition, decode_batch
from tests.shell.host import Clock


class World(Clock):
    """A clock by hand, and partitions that keep what they are given."""

    offline = False

    def __init__(self, partitions: int = 1, *, most_bytes: int = 1 << 20, begins: bool = True) -> None:
        super().__init__()
        self.batches: list[tuple[int, list[Record]]] = []
        self.waiting: list[Any] = []
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.refuses: EngineError | None = None
        self.served = True
        self.partitions = partitions
        self.events = GroupEventLog(self, most_bytes=most_bytes)
        if begins:
            self.begin()

    def begin(self, **options: Any) -> None:
        self.events.begin(self.partition, self.partitions, self, **options)  # type: ignore[arg-type]

    def turn(self, ms: int = 0) -> int:
        """Time passes, and the timers that are due ring once; how many did."""
        self.now_ms += ms
        due = [timer for timer in self.timers if timer.when_ms <= self.now_ms and not timer.cancelled]
        self.timers = [timer for timer in self.timers if timer not in due]
        for timer in due:
            timer.callback()
        return len(due)

    # The log

    def warning(self, event: str, **fields: Any) -> None:
        self.lines.append((event, fields))

    # The topic

    def partition(self, tp: TopicPartition) -> Any:
        assert tp.topic == GROUP_EVENTS_TOPIC
        return OnePartition(self, tp.partition) if self.served else None

    def write(self, number: int, *, key: bytes = b"g", size: int = 10) -> None:
        for index in range(number):
            self.events.put(key, b"%d" % index + b"." * (size - len(str(index))), 5_000 + index)

    def finish(self, error: EngineError | None = None) -> None:
        """Let the appends succeed, or fail."""
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(0, error)

    @property
    def sizes(self) -> list[int]:
        return [len(records) for _, records in self.batches]


class OnePartition:
    def __init__(self, world: World, index: int) -> None:
        self.world, self.index = world, index
        self.standing = Standing.OFFLINE if world.offline else Standing.LEADING
        self.log = self

    def append(self, batch: bytes, *, count: int, max_timestamp_ms: int, done: Any) -> int:
        if self.world.refuses is not None:
            raise self.world.refuses
        records = list(decode_batch(batch))
        assert count == len(records)
        assert max_timestamp_ms == max(record.timestamp_ms for record in records)
        self.world.batches.append((self.index, records))
        self.world.waiting.append(done)
        return 0


def test_what_comes_together_is_one_batch_a_moment_later() -> None:
    world = World()
    world.write(3)
    assert world.turn(LINGER_MS - 1) == 0
    assert world.turn(1) == 1
    [(index, records)] = world.batches
    assert index == 0
    assert [(one.key, (one.value or b"")[:1], one.timestamp_ms) for one in records] == [
        (b"g", b"0", 5_000),
        (b"g", b"1", 5_001),
        (b"g", b"2", 5_002),
    ]
    assert world.turn(1_000) == 0  # nothing is left to do


def test_one_turn_writes_a_batch_and_no_more() -> None:
    world = World()
    world.write(150, size=1_000)
    per_batch = BATCH_BYTES // 1_001
    world.turn(LINGER_MS)
    assert world.sizes == [per_batch]
    world.turn()
    world.turn()
    assert world.sizes == [per_batch, per_batch, 150 - 2 * per_batch]
    assert [(one.value or b"").split(b".")[0] for _, batch in world.batches for one in batch] == [
        b"%d" % number for number in range(150)
    ]


def test_batches_are_no_larger_than_the_broker_allows_but_for_a_single_record() -> None:
    world = World(begins=False)
    world.begin(max_batch_bytes=100)
    world.write(4, size=40)
    world.write(1, size=500)
    for _ in range(4):
        world.turn(LINGER_MS)
    assert world.sizes == [2, 2, 1]


def test_records_of_a_group_stay_in_a_partition() -> None:
    world = World(8)
    for group in ("billing", "orders", "billing"):
        world.write(1, key=group.encode())
    world.turn(LINGER_MS)
    found = {index: [record.key for record in records] for index, records in world.batches}
    assert found[coordinator_partition("billing", 8)] == [b"billing", b"billing"]
    assert found[coordinator_partition("orders", 8)] == [b"orders"]


def test_what_came_before_the_topic_was_there_is_written_then() -> None:
    world = World(begins=False)
    world.write(2)
    assert not world.timers
    world.begin()
    world.turn(LINGER_MS)
    assert world.sizes == [2]


def test_if_storage_is_behind_records_are_lost_counted_and_told_once() -> None:
    world = World(most_bytes=110)
    world.write(10)
    world.turn(LINGER_MS)
    world.write(7)  # ten are on their way, and nothing is done
    assert (world.events.lost, world.events.written) == (7, 0)
    assert world.lines == [("group events are lost", {"topic": GROUP_EVENTS_TOPIC, "reason": "storage is behind"})]
    world.finish()
    assert world.events.written == 10
    assert world.lines[1:] == [("group events are written again", {"lost": 7})]
    world.write(1)
    world.turn(LINGER_MS)
    world.finish()
    assert (world.events.lost, world.events.written, len(world.lines)) == (7, 11, 2)


def test_a_full_disk_costs_only_these_records() -> None:
    world = World()
    world.write(3)
    world.turn(LINGER_MS)
    world.finish(StorageFull("no room"))
    world.refuses = Unavailable("closed")
    world.write(2)
    world.turn(LINGER_MS)
    assert (world.events.lost, world.events.written) == (5, 0)
    assert [line[1]["reason"] for line in world.lines] == ["no room"]
    world.refuses = None
    world.write(4)
    world.turn(LINGER_MS)
    world.finish()
    assert (world.events.lost, world.events.written) == (5, 4)


def test_a_topic_that_is_damaged_or_gone_costs_only_these_records() -> None:
    world = World(most_bytes=100)
    world.offline = True
    world.write(5)
    world.turn(LINGER_MS)
    world.offline, world.served = False, False
    world.write(5)  # there is room again: what is lost is not on its way
    world.turn(LINGER_MS)
    assert (world.events.lost, len(world.lines)) == (10, 1)
    assert "is not served here" in world.lines[0][1]["reason"]


def test_stopping_writes_what_waits() -> None:
    world = World()
    world.write(150, size=1_000)
    world.events.stop()
    assert sum(world.sizes) == 150
    world.write(1)
    assert world.turn(1_000) == 0
    assert (sum(world.sizes), world.events.lost, world.lines) == (150, 1, [])


def test_a_killed_broker_writes_nothing_more() -> None:
    world = World()
    world.write(3)
    world.events.silence()
    assert world.turn(1_000) == 0
    assert not world.batches


def test_a_put_is_what_the_observer_calls() -> None:
    world = World()
    put: Put = world.events.put
    put(b"key", b"value", 7)
    world.turn(LINGER_MS)
    assert world.sizes == [1]


def test_the_topic_is_bounded_and_not_compacted() -> None:
    configs = topic_configs(Settings())
    assert configs["cleanup.policy"] == "delete"
    assert configs["retention.ms"] == str(7 * 24 * 3_600_000)
    assert configs["retention.bytes"] == str(64 << 20)
    assert configs["segment.bytes"] == str(4 << 20)
    assert configs["ottla.durability"] == "os"
    small = topic_configs(Settings(ottla_group_events_topic_retention_bytes=100_000))
    assert (small["retention.bytes"], small["segment.bytes"]) == ("100000", str(64 << 10))
    unbounded = topic_configs(Settings(ottla_group_events_topic_retention_bytes=-1))
    assert (unbounded["retention.bytes"], unbounded["segment.bytes"]) == ("-1", str(16 << 20))
