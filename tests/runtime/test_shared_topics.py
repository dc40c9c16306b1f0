"""Several nodes over one catalog: what one changes the others put in force, and changes at once are all made."""

import asyncio
import itertools
import uuid
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ottla.broker.cluster.placement import Alone, Static
from ottla.broker.core.configs.alterations import Alteration, Change
from ottla.broker.core.configs.kinds import ResourceType
from ottla.broker.core.refusal import Refusal
from ottla.broker.core.security.acls import Acl
from ottla.broker.core.topics.catalog import PRODUCER_ID_BLOCK, BadCatalog, NewTopic, TopicEntry
from ottla.broker.core.topics.partition import Standing
from ottla.broker.engine import Outdated, Unavailable
from ottla.broker.runtime.catalog_in_force import FOLLOWED_AGAIN_MS, MOST_TRIES, REFRESH_MS
from ottla.broker.runtime.topics import TopicManager
from ottla.broker.settings import Settings
from ottla.broker.storage.local.catalog import FileCatalog
from ottla.broker.storage.memory import MemoryCatalog, MemoryDocument, MemoryEngine
from ottla.protocol.errors import ErrorCode
from ottla.protocol.sasl.scram import Credential, Mechanism
from tests.cluster.test_placement import document, row
from tests.shell.host import Log, Timer

NODES = (1, 2, 3)
SETTINGS = Settings(offsets_topic_num_partitions=6)


class Node:
    """The topics of one node, and what is told of them. Timers ring when the test says so."""

    def __init__(self, node_id, catalog, placement, settings=SETTINGS):
        self.log, self.told, self.timers = Log(), [], []
        ids = itertools.count(node_id * 1000)
        new_uuid = lambda: uuid.UUID(int=next(ids))  # noqa: E731
        self.catalog = catalog
        self.engine = MemoryEngine(new_uuid=new_uuid, node_id=node_id, catalog=catalog)
        self.now_ms = 0
        clock = SimpleNamespace(wall_ms=lambda: 0, monotonic_ms=lambda: self.now_ms, call_at=self._call_at)
        clock.real = clock
        self.topics = TopicManager(self.engine, settings, clock, self.log, new_topic_id=new_uuid, placement=placement)

    def _call_at(self, when_ms, callback):
        self.timers.append(Timer(when_ms, callback))
        return self.timers[-1]

    async def start(self):
        await self.engine.open()
        await self.topics.start()
        topics, tell = self.topics, self.told.append
        topics.on_changed = lambda *what: tell(("changed", *what))
        topics.on_deleted = lambda topic: tell(("deleted", topic.name))
        topics.on_served = lambda topic: tell(("served", topic.name, len(topic.partitions)))
        topics.on_touched = lambda tp: tell(("touched", *tp))
        topics.on_quotas = lambda quotas: tell(("quotas", quotas))
        topics.on_credentials = lambda changed: tell(("credentials", changed))
        topics.on_acls = lambda acls: tell(("acls", acls))
        topics.on_settings = lambda: tell(("settings",))
        return self

    def shown(self):
        """The topics as clients see them: ids, settings, and where their partitions are."""
        return {
            name: (
                topic.topic_id,
                dict(topic.overrides),
                [topics.leader(partition).node_id for partition in topic.partitions],
            )
            for topics in [self.topics]
            for name, topic in topics.topics.items()
        }

    def led(self):
        """The partitions that it has open, and those that it says it leads."""
        leading = {one.tp for one in self.topics.all_partitions() if one.standing is not Standing.ELSEWHERE}
        assert leading == set(self.engine.logs)
        return leading

    async def follow(self):
        """Hear what others have changed."""
        if isinstance(self.catalog, FileCatalog):
            self.catalog.look()
        await settled(self.topics)


async def settled(topics):
    """Wait until it has followed what it heard of."""
    while topics._tasks:
        await asyncio.wait(topics._tasks)


def static(node_id, nodes=NODES):
    return Static(node_id, document(*(row(one) for one in nodes)))


@pytest.fixture(params=["file", "memory"])
def new_catalog(request, tmp_path):
    shared = MemoryDocument()
    return lambda: FileCatalog(str(tmp_path)) if request.param == "file" else MemoryCatalog(shared)


@pytest.fixture
def new_node(new_catalog):
    return lambda node_id: Node(node_id, new_catalog(), static(node_id))


async def started(new_node, *ids):
    return await asyncio.gather(*(new_node(node_id).start() for node_id in ids or NODES))


async def test_nodes_that_start_together_have_one_catalog(new_node):
    nodes = await started(new_node)
    for node in nodes:
        await node.topics.refresh()
    assert nodes[0].shown() == nodes[1].shown() == nodes[2].shown()
    assert nodes[0].shown()["__consumer_offsets"][2] == [1, 2, 3, 1, 2, 3]
    assert [len(node.led()) for node in nodes] == [2, 2, 2]


async def test_what_one_creates_grows_and_deletes_the_others_serve(new_node):
    first, second = await started(new_node, 1, 2)
    await first.topics.create([NewTopic("t", 4), NewTopic("u", 2, configs=[("retention.ms", "5")])])
    await second.follow()
    assert second.shown() == first.shown()
    assert second.told == [
        ("served", "t", 4), ("served", "u", 2), ("changed", "t", 0, 4), ("changed", "u", 0, 2)
    ]  # fmt: skip
    assert {tp.partition for tp in second.led() if tp.topic == "t"} == {1}
    second.told.clear()
    await first.topics.grow([("t", 6, None)])
    await second.follow()
    assert second.told == [("served", "t", 6), ("changed", "t", 4, 6)]
    second.told.clear()
    await first.topics.delete(["t"])
    await second.follow()
    assert second.told == [*(("touched", "t", index) for index in range(6)), ("deleted", "t")]
    assert (second.topics.partition_count("t"), second.topics.was_deleted("t")) == (0, True)
    assert not [tp for tp in second.led() if tp.topic == "t"]


async def test_a_topic_that_was_made_anew_is_another(new_node):
    first, second = await started(new_node, 1, 2)
    await first.topics.create([NewTopic("t", 6)])
    await second.follow()
    second.told.clear()
    await first.topics.delete(["t"])
    await first.topics.create([NewTopic("t", 3)])
    await second.follow()
    assert [one for one in second.told if one[0] != "touched"] == [
        ("deleted", "t"), ("served", "t", 3), ("changed", "t", 0, 3)
    ]  # fmt: skip
    assert second.shown() == first.shown()
    assert {second.engine.logs[tp].topic_id for tp in second.led() if tp.topic == "t"} == {first.shown()["t"][0]}


def altered(kind, name, **configs):
    changes = [Change(key.replace("_", "."), value) for key, value in configs.items()]
    return Alteration(kind, name, changes)


async def test_settings_and_quotas_of_one_hold_at_the_others(new_node):
    first, second = await started(new_node, 1, 2)
    await first.topics.create([NewTopic("t", 3), NewTopic("other", 3)])
    await second.follow()
    second.told.clear()
    refusals = await first.topics.alter_configs(
        [
            altered(ResourceType.TOPIC, "t", retention_ms="7", segment_bytes="2000000"),
            altered(ResourceType.BROKER, "", log_retention_ms="9"),
            altered(ResourceType.BROKER, "1", message_max_bytes="5000"),
            altered(ResourceType.GROUP, "g", consumer_session_timeout_ms="45000"),
        ]
    )
    assert refusals == [None] * 4
    quotas = {(("user", None),): {"producer_byte_rate": 1.0}}
    await first.topics.change(lambda catalog: (replace(catalog, quotas=quotas), None))
    await second.follow()
    assert second.told == [("quotas", quotas), ("settings",)]
    topics = second.topics
    assert (topics.topics["t"].config.retention_ms, topics.topics["other"].config.retention_ms) == (7, 9)
    (log,) = [log for tp, log in second.engine.logs.items() if tp.topic == "t"]
    assert log.config.segment_bytes == 2_000_000
    assert topics.group_configs == {"g": {"consumer.session.timeout.ms": "45000"}}
    # What was set for one broker is not another's.
    most_bytes = [one.broker_configs.settings.message_max_bytes for one in (first.topics, topics)]
    assert most_bytes == [5000, SETTINGS.message_max_bytes]


async def test_users_and_rules_of_one_hold_at_the_others(new_node):
    first, second = await started(new_node, 1, 2)
    for passwords in ({"ann": b"1", "ben": b"2"}, {"ann": b"3"}):
        users = {(user, Mechanism.SCRAM_SHA_256): Credential(b"", 4096, word, word) for user, word in passwords.items()}
        await first.topics.change(lambda catalog, users=users: (replace(catalog, credentials=users), None))
        await second.follow()
    changed = [("ann", Mechanism.SCRAM_SHA_256), ("ben", Mechanism.SCRAM_SHA_256)]
    assert second.told == [("credentials", []), ("credentials", changed)]
    rule = Acl(2, "t", 3, "User:ann", "*", 3, 3)
    await first.topics.change(lambda catalog: (replace(catalog, acls=(rule,)), None))
    await second.follow()
    assert second.told[2:] == [("acls", (rule,))]


def limited(user, rate):
    """A change that adds a user's quota to those that there are."""
    quota = {(("user", str(user)),): {"producer_byte_rate": rate}}
    return lambda catalog: (replace(catalog, quotas=catalog.quotas | quota), None)


async def test_changes_at_the_same_time_are_all_made(new_node):
    nodes = await started(new_node)
    for round_ in range(3):
        changes = [
            node.topics.create([NewTopic(f"t-{round_}-{node.engine.node_id}-{number}", 2)])
            for number in range(3)
            for node in nodes
        ]
        quotas = [node.topics.change(limited(node.engine.node_id, round_)) for node in nodes]
        outcomes = await asyncio.gather(*changes, *quotas)
        assert all(isinstance(rows[0], TopicEntry) for rows in outcomes[:9])
    for node in nodes:
        await node.topics.refresh()
    shown = nodes[0].shown()
    assert len(shown) == 1 + 27
    for node in nodes:
        assert node.shown() == shown
        rates = {entity[0][1]: values["producer_byte_rate"] for entity, values in node.topics.catalog.quotas.items()}
        assert rates == {"1": 2, "2": 2, "3": 2}
    homes = [home for name, (_, _, rows) in shown.items() if name.startswith("t-") for home in rows]
    assert [homes.count(node) for node in NODES] == [18, 18, 18]
    assert sum(len(node.led()) for node in nodes) == 6 + 54


async def test_of_two_that_create_one_topic_one_does(new_node):
    nodes = await started(new_node)
    outcomes = await asyncio.gather(*(node.topics.create([NewTopic("t", 1)]) for node in nodes))
    assert sorted(type(rows[0]).__name__ for rows in outcomes) == ["Refusal", "Refusal", "TopicEntry"]
    assert {rows[0].error_code for rows in outcomes if isinstance(rows[0], Refusal)} == {ErrorCode.TOPIC_ALREADY_EXISTS}


async def test_of_two_that_delete_one_topic_one_does(new_node):
    nodes = await started(new_node)
    await nodes[0].topics.create([NewTopic("t", 1)])
    for node in nodes:
        await node.topics.refresh()
    outcomes = await asyncio.gather(*(node.topics.delete(["t"]) for node in nodes))
    codes = [rows[0].error_code for rows in outcomes if isinstance(rows[0], Refusal)]
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2


async def test_producer_ids_are_given_once(new_node):
    nodes = await started(new_node)

    async def take(node):
        return [await node.topics.new_producer_id() for _ in range(PRODUCER_ID_BLOCK + 10)]

    taken = [one for ids in await asyncio.gather(*map(take, nodes)) for one in ids]
    assert len(set(taken)) == len(taken) == 3 * (PRODUCER_ID_BLOCK + 10)
    assert max(taken) < 6 * PRODUCER_ID_BLOCK


async def test_a_request_that_is_planned_again_is_permitted_once(new_node):
    first, second = await started(new_node, 1, 2)
    asked = []

    def permit(partitions):
        asked.append(partitions)

    await first.topics.create([NewTopic("before")])
    (outcome,) = await second.topics.create([NewTopic("t", 4)], permit=permit)
    assert isinstance(outcome, TopicEntry) and asked == [4]


async def test_a_node_that_is_always_slower_gives_up():
    class Busy(MemoryCatalog):
        tries = 0

        async def store(self, state, *, over):
            Busy.tries += 1
            raise Outdated("somebody was faster")

    node = await Node(1, MemoryCatalog(), Alone(1)).start()
    node.engine.catalog = Busy()
    node.topics._version = 0
    (outcome,) = await node.topics.create([NewTopic("t")])
    assert (outcome.error_code, Busy.tries) == (ErrorCode.KAFKA_STORAGE_ERROR, MOST_TRIES)
    assert node.topics.partition_count("t") == 0


async def test_changes_that_cannot_be_read_are_read_later():
    shared = MemoryDocument()
    first, second = (Node(one, MemoryCatalog(shared), static(one)) for one in (1, 2))
    await first.start()
    await second.start()
    refresh = second.catalog.refresh

    async def failing():
        raise Unavailable("no handle")

    second.catalog.refresh = failing
    await first.topics.create([NewTopic("t", 2)])
    await second.follow()
    assert "t" not in second.shown()
    second.catalog.refresh = refresh
    (timer,) = second.timers
    assert timer.when_ms == FOLLOWED_AGAIN_MS
    timer.callback()
    await second.follow()
    assert second.shown() == first.shown()


async def test_those_who_ask_share_a_look_and_looks_are_few(tmp_path):
    first, second = (Node(one, FileCatalog(str(tmp_path)), static(one)) for one in (1, 2))
    await first.start()
    await second.start()
    await first.topics.create([NewTopic("t")])
    looks, refresh, told = [], second.catalog.refresh, []

    async def counted():
        looks.append(second.now_ms)
        await refresh()

    second.catalog.refresh = counted
    for _ in range(3):
        second.topics.refreshed(lambda: told.append("t" in second.topics.topics))
    await settled(second.topics)
    assert (looks, told) == ([0], [True] * 3)
    await first.topics.create([NewTopic("u")])
    for _ in range(2):
        second.topics.refreshed(lambda: told.append("u" in second.topics.topics))
    await settled(second.topics)
    (timer,) = second.timers
    assert (looks, timer.when_ms) == ([0], REFRESH_MS)
    second.now_ms = REFRESH_MS
    timer.callback()
    await settled(second.topics)
    assert (looks, told) == ([0, REFRESH_MS], [True] * 5)


async def test_those_who_ask_are_told_where_nothing_can_be_read(new_node):
    (node,) = await started(new_node, 1)

    async def failing():
        raise Unavailable("no handle")

    node.catalog.refresh = failing
    told = []
    node.topics.refreshed(lambda: told.append(True))
    await settled(node.topics)
    assert told == [True]


async def test_who_has_stopped_follows_nothing(new_node):
    first, second = await started(new_node, 1, 2)
    second.topics.stop()
    await first.topics.create([NewTopic("t", 2)])
    await second.follow()
    assert second.told == []


# -- a directory of one node, and of several


async def restarted(catalog, *placements, settings=SETTINGS):
    """Each starts after the other has been, with the catalog that there is."""
    for placement in placements:
        node = await Node(placement.view.me, catalog(), placement, settings).start()
        yield node
        node.topics.stop()


async def test_a_single_node_grows_to_several_and_back(new_catalog):
    shown = []
    async for node in restarted(new_catalog, Alone(1), static(2), Alone(1)):
        if not shown:
            await node.topics.create([NewTopic("t", 2)])
            await node.topics.create_internal("__ottla_group_events", 1, {})
        shown.append({name: rows for name, (_, _, rows) in node.shown().items()})
    assert shown[0] == {"__consumer_offsets": [1] * 6, "t": [1, 1], "__ottla_group_events": [1]}
    assert shown[1] == {"__consumer_offsets": [1] * 6, "t": [1, 1], "__ottla_group_events": [1] * 6}
    assert shown[2] == shown[1]


async def test_a_directory_of_several_nodes_is_not_one_nodes(new_catalog):
    async for node in restarted(new_catalog, static(1)):
        assert node.topics.catalog.state()["format"] == 2
    with pytest.raises(BadCatalog, match=r"at home on the nodes 1, 2, 3, and there is no node 2: say --nodes 3"):
        await Node(1, new_catalog(), Alone(1)).start()
    with pytest.raises(BadCatalog, match="there is no node 3: say --nodes 3"):
        await Node(1, new_catalog(), static(1, (1, 2))).start()
    async for node in restarted(new_catalog, static(1, (1, 2, 3, 4))):
        await node.topics.create([NewTopic("t", 4)])
        assert node.shown()["t"][2] == [1, 2, 3, 4]


async def test_the_events_of_groups_are_where_the_groups_are(new_node):
    first, second = await started(new_node, 1, 2)
    await asyncio.gather(*(one.topics.create_internal("__ottla_group_events", 1, {}) for one in (first, second)))
    for node in (first, second):
        await node.topics.refresh()
        shown = node.shown()
        assert shown["__ottla_group_events"][2] == shown["__consumer_offsets"][2]


async def test_partitions_that_are_assigned_by_hand(new_node):
    first, second = await started(new_node, 1, 2)
    await first.topics.create([NewTopic("t", assignments=[(0, [3]), (1, [2])])])
    await first.topics.grow([("t", 4, [[2], [1]])])
    await second.follow()
    assert second.shown()["t"][2] == [3, 2, 2, 1]
    (refusal,) = await second.topics.create([NewTopic("u", assignments=[(0, [4])])])
    assert refusal.error_code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
