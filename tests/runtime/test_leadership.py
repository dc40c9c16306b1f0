"""A node that leads a part of the partitions: the others are not open, and what comes or goes is followed."""

import asyncio

import pytest
import pytest_asyncio

from ottla.broker.cluster.placement import Static
from ottla.broker.cluster.view import NOBODY
from ottla.broker.core.coordination.shard import ShardState
from ottla.broker.core.topics.catalog import NewTopic
from ottla.broker.core.topics.partition import Standing
from ottla.broker.core.topics.producers import TransactionMarker
from ottla.broker.engine import Corrupt, Unavailable
from ottla.broker.runtime.cleaner import Cleaner
from ottla.broker.runtime.leadership import AGAIN_MS, Leadership
from ottla.broker.storage.memory import MemoryCatalog, MemoryDocument, MemoryEngine
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.protocol.records import TopicPartition
from tests.cluster.test_placement import document, row
from tests.handlers.conftest import World, batch
from tests.support.requests import commit_fields, offset_fetch_fields

HERE, ELSEWHERE = range(0, 6, 2), range(1, 6, 2)
"""The partitions of a topic of six whose homes are node 1, the one under test, and node 2."""


class NodeWorld(World):
    """Node 1 of two: it leads every other partition. The catalog is shared with whoever the test plays."""

    def __init__(self, **settings):
        super().__init__(**{"offsets_topic_num_partitions": 6, "transaction_state_log_num_partitions": 6} | settings)
        self.shared = MemoryDocument()
        self.other = MemoryCatalog(self.shared)
        self.engine = MemoryEngine(
            new_uuid=self.new_uuid, call_soon=self.scheduled.append, catalog=MemoryCatalog(self.shared)
        )
        self.placement = Static(1, document(row(1), row(2, epoch=8)))

    async def lead(self):
        self.leadership = Leadership(self.topics, self.host, self, self.log, load=super().lead)
        await self.leadership.start()

    async def restart(self):
        self.leadership.stop()
        self.topics.stop()
        await super().restart()

    def other_node(self, state, epoch=8):
        """What the supervisor says of node 2 from now on."""
        self.placement.read(document(row(1), row(2, state, epoch=epoch)))

    async def rehome(self, topic, *homes):
        """Somebody changes the homes of a topic's partitions."""
        await self.other.refresh()
        state = self.other.load()
        state["topics"][topic]["homes"] = list(homes)
        await self.other.store(state, over=self.other.version)
        await self.idle()

    async def rehome_all(self, node_id):
        """Somebody moves everything to a node."""
        await self.other.refresh()
        state = self.other.load()
        for topic in state["topics"].values():
            topic["homes"] = [node_id] * len(topic["homes"])
        await self.other.store(state, over=self.other.version)
        await self.idle()

    def standings(self, topic):
        return [partition.standing.name for partition in self.topics.topics[topic].partitions]

    def shards(self, machine):
        return [shard.state.name for shard in machine.shards]

    def group_in(self, partition):
        """A group that is coordinated in a partition of ``__consumer_offsets``."""
        return next(name for name in map(str, range(1000)) if coordinator_partition(name, 6) == partition)

    async def commit(self, group, offset=1):
        answer = await self.call(ApiKey.OFFSET_COMMIT, 8, **commit_fields(group, [("t", 0, offset)]))
        return answer.topics[0].partitions[0].error_code

    async def committed(self, group):
        answer = await self.call(ApiKey.OFFSET_FETCH, 7, **offset_fetch_fields(group, {"t": [0]}))
        return answer.error_code or answer.topics[0].partitions[0].committed_offset


@pytest_asyncio.fixture
async def world():
    return await NodeWorld().start()


ALTERNATING = ["LEADING", "ELSEWHERE"] * 3


async def test_what_another_node_leads_is_not_open(world):
    topic = await world.topic(partitions=6)
    assert world.standings("t") == world.standings(OFFSETS_TOPIC) == ALTERNATING
    assert {tp.partition for tp in world.engine.logs if tp.topic == "t"} == set(HERE)
    assert world.produced(batch(b"x"), partition=2).error_code == 0
    stand_in = topic.partitions[1].log
    assert (stand_in.leader_epoch, stand_in.high_watermark, stand_in.size_bytes) == (8, 0, 0)
    for use in (
        lambda: stand_in.append(b"", count=1, max_timestamp_ms=0, done=print),
        lambda: stand_in.read(0, max_bytes=1),
        lambda: stand_in.offset_for_timestamp(0),
    ):
        with pytest.raises(Unavailable, match="t-1 is led by another node, or by none"):
            use()
    with pytest.raises(Unavailable):
        await stand_in.trim(0)


async def test_groups_are_coordinated_where_their_partition_is_led(world):
    await world.topic()
    assert world.shards(world.groups) == ["ACTIVE", "ABSENT"] * 3
    assert await world.commit(world.group_in(2)) == ErrorCode.NONE
    assert await world.commit(world.group_in(3)) == ErrorCode.NOT_COORDINATOR
    answer = await world.call(ApiKey.HEARTBEAT, 4, group_id=world.group_in(3), generation_id=1, member_id="m")
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


async def test_groups_do_not_wait_for_other_logs_that_come_as_well(world):
    await world.topic(partitions=6)
    opens, is_enough = world.engine.open_log, asyncio.Event()

    async def open_log(topic, *arguments):
        if topic == "t":
            await is_enough.wait()
        return await opens(topic, *arguments)

    world.engine.open_log = open_log
    await world.rehome_all(1)
    assert await world.commit(world.group_in(3)) == ErrorCode.NONE
    assert world.standings("t") == ["LEADING", "LOADING"] * 3
    is_enough.set()
    await world.idle()
    assert world.standings("t") == ["LEADING"] * 6


async def test_transactions_are_coordinated_where_their_partition_is_led(world):
    """Whoever creates the topic, which another node may do."""
    outcomes = []
    world.transactions.prepare(outcomes.append)
    await world.idle()
    assert outcomes == [ErrorCode.NONE]
    assert world.standings(TRANSACTIONS_TOPIC) == ALTERNATING
    assert world.shards(world.services.transactions) == ["ACTIVE", "ABSENT"] * 3
    stored = world.engine.catalog.version
    world.transactions.prepare(outcomes.append)  # what is led elsewhere is nothing to wait for
    assert (outcomes, world.engine.catalog.version) == ([ErrorCode.NONE] * 2, stored)


async def test_a_topic_of_transactions_that_another_node_creates_is_coordinated(world):
    await world.other.refresh()
    state = world.other.load()
    entry = {"topic_id": str(world.new_uuid()), "partitions": 6, "configs": {}, "homes": [2, 2, 2, 1, 1, 1]}
    state["topics"][TRANSACTIONS_TOPIC] = entry
    await world.other.store(state, over=world.other.version)
    await world.idle()
    assert world.standings(TRANSACTIONS_TOPIC) == ["ELSEWHERE"] * 3 + ["LEADING"] * 3
    assert world.shards(world.services.transactions) == ["ABSENT"] * 3 + ["ACTIVE"] * 3


async def test_a_marker_for_a_partition_elsewhere_is_not_taken_for_done(world):
    """There is such a partition, so the transaction is not over there until its leader says so."""
    await world.topic(partitions=6)
    outcomes = []
    for index in (0, 1, 99):
        marker = TransactionMarker(7, 0, 0, True, 0)
        world.host.write_marker(TopicPartition("t", index), marker, lambda offset, error: outcomes.append(error))
    world.run()
    assert sorted(outcomes) == sorted(
        [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    )


async def test_cleaning_and_snapshots_are_about_what_is_led(world):
    await world.topic(partitions=6, cleanup_policy="delete", retention_ms=1)
    for index in HERE:
        world.produced(batch(b"x"), partition=index)
    world.advance(10)
    await Cleaner(world.engine, world.topics, world, world.log).drop_expired()
    logs = [partition.log for partition in world.topics.topics["t"].partitions]
    assert [log.log_start_offset for log in logs] == [1, 0] * 3
    assert [one.tp.partition for one in world.topics.client_partitions()] == list(HERE)


async def test_a_node_that_goes_down_leads_nothing_and_its_last_epoch_is_known(world):
    topic = await world.topic(partitions=6)
    topic.described = ["as it was"]
    world.other_node("down", epoch=9)
    assert world.topics.leader(topic.partitions[1]) == (NOBODY, 9)
    assert topic.partitions[1].log.leader_epoch == 9
    assert topic.described is None
    assert world.standings("t") == ALTERNATING
    world.other_node("up", epoch=10)
    assert world.topics.leader(topic.partitions[1]) == (2, 10)


async def test_a_partition_that_goes_elsewhere_refuses_from_then_on(world):
    """And those who wait there hear of it."""
    topic = await world.topic(partitions=6)
    world.produced(batch(b"x"))
    waiting = world.fetch(1, max_wait_ms=10_000)
    assert not waiting.finished
    await world.rehome("t", 2, 2, 1, 2, 1, 2)
    assert waiting.finished
    assert world.standings("t")[0] == "ELSEWHERE"
    assert ("t", 0) not in world.engine.logs
    with pytest.raises(Unavailable):
        topic.partitions[0].log.read(0, max_bytes=100)
    world.run()
    await world.rehome("t", 1, 2, 1, 2, 1, 2)
    assert world.standings("t")[0] == "LEADING"
    assert world.fetched().high_watermark == 1


async def test_what_is_on_its_way_when_a_partition_goes_is_answered(world):
    await world.topic(partitions=6)
    produced = world.produce(batch(b"x", producer_id=5, producer_epoch=0, base_sequence=0))
    await world.rehome("t", 2, 2, 1, 2, 1, 2)
    assert produced.row.error_code == ErrorCode.NONE
    await world.rehome("t", 1, 2, 1, 2, 1, 2)
    # What it remembers of producers is read anew: a batch that is sent again is there once.
    again = world.produced(batch(b"x", producer_id=5, producer_epoch=0, base_sequence=0))
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    assert world.topics.partition(TopicPartition("t", 0)).log.high_watermark == 1


async def test_a_coordinator_that_goes_and_comes_back_knows_its_groups(world):
    await world.topic()
    group = world.group_in(0)
    assert await world.commit(group, 7) == ErrorCode.NONE
    await world.rehome(OFFSETS_TOPIC, 2, 2, 1, 2, 1, 2)
    assert world.groups.shards[0].state is ShardState.ABSENT
    assert await world.committed(group) == ErrorCode.NOT_COORDINATOR
    world.engine.leader_epoch += 1  # whoever led it meanwhile had an epoch of its own
    await world.rehome(OFFSETS_TOPIC, 1, 2, 1, 2, 1, 2)
    assert world.groups.shards[0].state is ShardState.ACTIVE
    assert world.standings(OFFSETS_TOPIC) == ALTERNATING
    assert await world.committed(group) == 7


async def test_what_cannot_be_opened_now_is_opened_later(world, monkeypatch):
    await world.topic(partitions=6)
    open_log = world.engine.open_log

    async def failing(*args):
        raise Unavailable("no handle")

    monkeypatch.setattr(world.engine, "open_log", failing)
    await world.rehome("t", 1, 1, 1, 2, 1, 2)
    assert world.standings("t")[:2] == ["LEADING", "ELSEWHERE"]
    assert "partitions could not be opened" in [event for event, _ in world.log.lines]
    monkeypatch.setattr(world.engine, "open_log", open_log)
    world.advance(AGAIN_MS)
    await world.idle()
    assert world.standings("t")[:2] == ["LEADING", "LEADING"]


async def test_who_has_stopped_follows_nothing(world):
    await world.topic(partitions=6)
    world.leadership.stop()
    await world.rehome("t", 2, 2, 2, 2, 2, 2)
    assert world.standings("t") == ALTERNATING


async def test_a_restart_finds_what_is_at_home_here(world):
    await world.topic("kept", partitions=6)
    await world.topic("gone", partitions=6)
    for topic in ("kept", "gone"):
        for index in HERE:
            world.produced(batch(b"x"), topic=topic, partition=index)
    # While this node is down, another one deletes a topic, and partitions are given to it that lie here yet.
    world.topics.stop()
    await world.other.refresh()
    state = world.other.load()
    del state["topics"]["gone"]
    state["topics"]["kept"]["homes"] = [1, 2, 2, 2, 1, 2]
    await world.other.store(state, over=world.other.version)
    await world.restart()
    assert world.standings("kept") == ["LEADING", "ELSEWHERE", "ELSEWHERE", "ELSEWHERE", "LEADING", "ELSEWHERE"]
    removed = [fields for event, fields in world.log.lines if event == "removed the log of a deleted topic"]
    assert removed == [{"topic": "gone", "partition": index} for index in HERE]
    await world.rehome("kept", 1, 2, 1, 2, 1, 2)
    assert world.topics.topics["kept"].partitions[2].log.high_watermark == 1


async def test_a_damaged_log_of_a_coordinator_is_that_logs(world):
    await world.topic()
    for index in HERE:
        assert await world.commit(world.group_in(index), 5) == ErrorCode.NONE
    log = world.engine.logs[OFFSETS_TOPIC, 2]
    log._batches[0] = log._batches[0][:-1] + bytes([log._batches[0][-1] ^ 1])
    await world.restart()
    assert world.shards(world.groups) == ["ACTIVE", "ABSENT", "FAILED", "ABSENT", "ACTIVE", "ABSENT"]
    assert world.standings(OFFSETS_TOPIC)[:3] == ["LEADING", "ELSEWHERE", "OFFLINE"]
    assert await world.committed(world.group_in(0)) == 5
    assert await world.committed(world.group_in(2)) == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("method", ["open_log", "read"])
async def test_a_coordinators_log_that_cannot_be_read_for_a_while(world, monkeypatch, method):
    """It is tried again, less and less often; what else is led here is served meanwhile."""
    await world.topic()
    for index in HERE:
        assert await world.commit(world.group_in(index), 5) == ErrorCode.NONE
    log = world.engine.logs[OFFSETS_TOPIC, 2]
    owner = world.engine if method == "open_log" else log
    works, tried, ends = getattr(owner, method), [], []

    def fails(*args, **options):
        if not ends and (method == "read" or args[:1] + args[2:3] == (OFFSETS_TOPIC, 2)):
            tried.append(world.monotonic_ms())
            raise Corrupt("the disk does not answer") if method == "open_log" else Unavailable("no handle")
        return works(*args, **options)

    monkeypatch.setattr(owner, method, fails)
    await world.restart()
    began = tried[-1]
    for _ in range(40):
        world.advance(AGAIN_MS // 2)
        await world.idle()
    assert [when - began for when in tried] == [0, AGAIN_MS, 3 * AGAIN_MS, 7 * AGAIN_MS, 15 * AGAIN_MS]
    assert world.shards(world.groups) == ["ACTIVE", "ABSENT", "FAILED", "ABSENT", "ACTIVE", "ABSENT"]
    assert await world.committed(world.group_in(2)) == ErrorCode.NOT_COORDINATOR
    assert await world.committed(world.group_in(0)) == 5
    ends.append(True)
    world.advance(16 * AGAIN_MS)
    await world.idle()
    assert world.standings(OFFSETS_TOPIC) == ALTERNATING
    assert await world.committed(world.group_in(2)) == 5
    assert await world.commit(world.group_in(2), 6) == ErrorCode.NONE


async def test_topics_are_created_where_nodes_take_turns(world):
    outcomes = await world.topics.create([NewTopic("a", 3), NewTopic("b", 3)])
    assert [outcome.homes for outcome in outcomes] == [(1, 2, 1), (2, 1, 2)]
    assert Standing.ELSEWHERE.name == world.standings("b")[0]


async def test_a_view_that_changes_while_logs_are_opened_is_followed_after(world, monkeypatch):
    await world.topic(partitions=6)
    open_log, going_on = world.engine.open_log, asyncio.Event()

    async def slowly(*args):
        await going_on.wait()
        return await open_log(*args)

    monkeypatch.setattr(world.engine, "open_log", slowly)
    await world.rehome("t", 1, 1, 1, 2, 1, 2)
    assert world.standings("t")[1] == "LOADING"
    entry = world.topics.catalog.topics["t"]
    world.topics._catalog = world.topics.catalog.with_topics([entry._replace(homes=(1, 2, 1, 2, 1, 2))])
    world.leadership.look()
    assert world.standings("t")[1] == "ELSEWHERE"
    going_on.set()
    await world.idle()
    assert world.standings("t")[1] == "ELSEWHERE"
    assert ("t", 1) not in world.engine.logs
