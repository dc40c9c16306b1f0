"""Transactions of which a part is at another node: two data planes, and what each asks the other."""

import asyncio

import pytest
import pytest_asyncio

from ottla.broker.cluster.view import NOBODY
from ottla.broker.core.security.authorizer import Authorizer
from ottla.broker.core.topics.partition import Standing
from ottla.broker.core.transactions.machine import RETRY_BACKOFF_MS
from ottla.broker.runtime.peer_transactions import PeerTransactions
from ottla.broker.runtime.peers import BACKOFF_MS, Peers
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.protocol.records import TopicPartition, iter_batches, parse_marker
from tests.handlers.test_transactions_of_partitions import Tx
from tests.support.client import values
from tests.support.requests import offset_fetch_fields

E = ErrorCode
HERE, THERE = 1, 2


class Cable:
    """A connection to a world, over which requests go as bytes."""

    def __init__(self, nodes, node_id):
        self.nodes, self.node_id, self.is_open = nodes, node_id, True

    async def ask(self, key, version, body):
        if self.node_id in self.nodes.cut:
            raise ConnectionResetError("cut")
        row = api(key)
        request = row.request.layout(version).decode(body)
        self.nodes.asked.append(request)
        await self.nodes.held.get(key, self.nodes.free).wait()
        exchange = self.nodes.worlds[self.node_id].send(request, version)
        while not exchange.finished:  # noqa: ASYNC110 - the test says when
            await asyncio.sleep(0)
        return row.response.layout(version).encode(exchange.response)

    def close(self):
        self.is_open = False


class Nodes:
    """Two nodes. HERE coordinates all transactions and leads ``t-0``; THERE has all groups and leads ``t-1``.

    Attributes:
        cut: nodes that nobody reaches. down: those of which it is known.
        asked: the requests between them.
    """

    def __init__(self, new_world):
        self.worlds = {HERE: new_world(), THERE: new_world()}
        self.cut, self.down, self.asked = set(), set(), []
        self.held, self.free = {}, asyncio.Event()
        self.free.set()

    here = property(lambda self: self.worlds[HERE])
    there = property(lambda self: self.worlds[THERE])

    def leader(self, tp):
        return {TRANSACTIONS_TOPIC: HERE, OFFSETS_TOPIC: THERE}.get(tp.topic, (HERE, THERE)[tp.partition % 2])

    def known_leader(self, tp):
        """As both nodes see it."""
        return NOBODY if self.leader(tp) in self.down else self.leader(tp)

    async def start(self):
        for node_id, world in self.worlds.items():
            await world.start()
            await world.topics.create_transactions_topic()
            await world.transactions.load()
            peers = Peers(self._connect, lambda node: (str(node), 9092), world, world.log)
            elsewhere = PeerTransactions(
                peers, self.known_leader, world.topics.partition, world.topics.partition_count, world.log
            )
            world.services.elsewhere = elsewhere
            world.host.elsewhere = elsewhere.write_marker
            await self.topic("t", node_id, partitions=2)
            for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
                if self.leader(TopicPartition(name, 0)) != node_id:
                    self.stand_back(world, name, 0, len(world.topics.topics[name].partitions))
                    world.host.give_up(name)
        return self

    async def _connect(self, host, port):
        return Cable(self, int(host))

    async def topic(self, name, node_id, partitions):
        world = self.worlds[node_id]
        await world.topic(name, partitions=partitions)
        for partition in range(partitions):
            if self.leader(TopicPartition(name, partition)) != node_id:
                self.stand_back(world, name, partition, partition + 1)

    def stand_back(self, world, name, first, end):
        for partition in world.topics.topics[name].partitions[first:end]:
            partition.standing = Standing.ELSEWHERE

    def hold(self, key):
        """Requests of a kind are under way until the event is set."""
        self.held[key] = asyncio.Event()
        return self.held[key]

    async def idle(self):
        for _ in range(4):
            for world in self.worlds.values():
                await world.idle()

    async def pass_ms(self, ms):
        for world in self.worlds.values():
            world.advance(ms)
        await self.idle()

    def kinds(self):
        """What was asked since the last time."""
        asked, self.asked = self.asked, []
        return [type(request).__name__.removesuffix("Request") for request in asked]


class SpreadTx(Tx):
    """A producer whose coordinator is HERE and that writes to both nodes."""

    def __init__(self, nodes, make_batch, name="x"):
        super().__init__(nodes.here, make_batch, name)
        self.nodes = nodes

    def send_to(self, partition, *values, version=12):
        options = self.producer | {"base_sequence": self.sequences.get(partition, 0)}
        batch = self.make_batch(*values, is_transactional=True, **options)
        world = self.nodes.worlds[self.nodes.leader(TopicPartition("t", partition))]
        return world.produce_all(("t", [(partition, batch)]), transactional_id=self.name, version=version)

    async def produce(self, partition, *values, version=12):
        exchange = self.send_to(partition, *values, version=version)
        await self.nodes.idle()
        if not exchange.row.error_code:
            self.sequences[partition] = self.sequences.get(partition, 0) + len(values)
        return E(exchange.row.error_code)

    async def end(self, *, commit, version=5):
        await super().end(commit=commit, version=version)
        await self.nodes.idle()


@pytest_asyncio.fixture
async def nodes(new_world):
    return await Nodes(new_world).start()


@pytest_asyncio.fixture
async def tx(nodes, make_batch):
    return await SpreadTx(nodes, make_batch).init()


def committed(nodes, partition):
    world = nodes.worlds[nodes.leader(TopicPartition("t", partition))]
    row = world.fetch(partitions=(partition,), isolation_level=1).row
    return values(row.records), row.last_stable_offset


@pytest.mark.parametrize("commit", [True, False])
async def test_a_transaction_over_two_nodes(nodes, tx, commit):
    assert await tx.produce(0, b"a") is E.NONE
    assert nodes.kinds() == []
    assert await tx.produce(1, b"b") is E.NONE
    assert await tx.produce(1, b"c") is E.NONE
    assert nodes.kinds() == ["AddPartitionsToTxn"]  # the partition takes part from then on
    assert committed(nodes, 0) == committed(nodes, 1) == ([], 0)
    await tx.end(commit=commit)
    assert nodes.kinds() == ["WriteTxnMarkers"]
    assert [committed(nodes, partition)[1] for partition in (0, 1)] == [2, 3]
    if commit:
        assert [committed(nodes, partition)[0] for partition in (0, 1)] == [[b"a"], [b"b", b"c"]]


@pytest.mark.parametrize(("version", "error"), [(9, E.INVALID_TXN_STATE), (11, E.TRANSACTION_ABORTABLE)])
async def test_older_producers_are_asked_about_and_no_more(nodes, tx, version, error):
    assert await tx.produce(1, b"a", version=version) is error
    await nodes.here.call(
        ApiKey.ADD_PARTITIONS_TO_TXN, 3,
        v3_and_below_transactional_id="x", v3_and_below_producer_id=tx.producer_id,
        v3_and_below_producer_epoch=tx.producer_epoch, v3_and_below_topics=[{"name": "t", "partitions": [1]}],
    )  # fmt: skip
    assert await tx.produce(1, b"a", version=version) is E.NONE
    assert [transaction.verify_only for request in nodes.asked for transaction in request.transactions] == [True, True]


async def test_the_marker_has_the_leader_epoch_of_the_coordinators_log(nodes, tx):
    await tx.produce(1, b"a")
    await tx.end(commit=True)
    log = nodes.there.engine.logs["t", 1]
    header, marker = list(iter_batches(log.read(1, max_bytes=1000)))[-1]
    shard = nodes.here.transactions.coordinator.shard_of("x")
    epoch = nodes.here.engine.logs[TRANSACTIONS_TOPIC, shard.partition].leader_epoch
    assert header.is_control and parse_marker(marker).coordinator_epoch == epoch >= 0


async def group_offset(nodes):
    answer = await nodes.there.call(ApiKey.OFFSET_FETCH, 5, **offset_fetch_fields("g", {"t": [0]}))
    return answer.topics[0].partitions[0].committed_offset


async def test_offsets_of_a_group_at_the_other_node(nodes, tx):
    fields = tx.producer | {
        "transactional_id": "x", "group_id": "g", "generation_id": -1, "member_id": "", "group_instance_id": None,
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 7}]}],
    }  # fmt: skip
    commit = nodes.there.begin(ApiKey.TXN_OFFSET_COMMIT, 5, **fields)
    await nodes.idle()
    assert commit.response.topics[0].partitions[0].error_code == E.NONE
    assert await group_offset(nodes) == -1
    await tx.end(commit=True)
    assert nodes.kinds() == ["AddPartitionsToTxn", "WriteTxnMarkers"]
    assert await group_offset(nodes) == 7


async def test_what_is_asked_in_one_turn_goes_together(nodes, make_batch):
    producers = [await SpreadTx(nodes, make_batch, f"x-{number}").init() for number in range(3)]
    exchanges = [one.send_to(1, b"a") for one in producers]
    await nodes.idle()
    assert [exchange.row.error_code for exchange in exchanges] == [E.NONE] * 3
    assert [len(request.transactions) for request in nodes.asked] == [3]
    nodes.kinds()
    for one in producers:
        nodes.here.begin(ApiKey.END_TXN, 5, **one.who, committed=True)
    await nodes.idle()
    assert [len(request.markers) for request in nodes.asked] == [3]
    assert committed(nodes, 1) == ([b"a"] * 3, 6)


async def test_a_coordinator_that_does_not_answer_is_asked_again_by_the_producer(nodes, tx):
    nodes.cut.add(HERE)
    assert await tx.produce(1, b"a", version=9) is E.NOT_ENOUGH_REPLICAS
    assert await tx.produce(1, b"a") is E.NOT_ENOUGH_REPLICAS
    nodes.cut.clear()
    assert await tx.produce(1, b"a") is E.NOT_ENOUGH_REPLICAS  # nobody is connected to again so soon
    await nodes.pass_ms(BACKOFF_MS)
    assert await tx.produce(1, b"a") is E.NONE
    lines = [fields for event, fields in nodes.there.log.lines if event == "Another node does not answer"]
    assert lines == [{"node": HERE, "api": "ADD_PARTITIONS_TO_TXN", "reason": "cut"}]


async def test_a_coordinator_that_is_down_is_not_available(nodes, tx):
    nodes.down.add(HERE)
    assert await tx.produce(1, b"a") is E.NOT_ENOUGH_REPLICAS
    assert nodes.kinds() == []


async def test_a_marker_that_finds_no_way_is_written_later(nodes, tx):
    await tx.produce(1, b"a")
    nodes.cut.add(THERE)
    await tx.end(commit=True)
    assert committed(nodes, 1) == ([], 0)
    await nodes.pass_ms(RETRY_BACKOFF_MS)
    nodes.cut.clear()
    await nodes.pass_ms(2 * RETRY_BACKOFF_MS)
    assert committed(nodes, 1) == ([b"a"], 2)
    failed = [fields["error"] for event, fields in nodes.here.log.lines if "marker could not" in event]
    assert failed == ["NETWORK_EXCEPTION"]  # it is told once until one is written


async def test_a_leader_that_comes_back_gets_its_markers_at_once(nodes, tx):
    await tx.produce(1, b"a")
    nodes.down.add(THERE)
    await tx.end(commit=True)
    for _ in range(5):
        await nodes.pass_ms(10_000)  # it is tried less and less often
    assert nodes.kinds() == ["AddPartitionsToTxn"]
    nodes.down.clear()
    nodes.here.transactions.leaders_changed()
    await nodes.pass_ms(0)
    assert committed(nodes, 1) == ([b"a"], 2)


async def test_a_leader_that_leads_no_more_says_so(nodes, tx):
    await tx.produce(1, b"a")
    nodes.stand_back(nodes.there, "t", 1, 2)
    await tx.end(commit=True)
    failed = [fields["error"] for event, fields in nodes.here.log.lines if "marker could not" in event]
    assert failed == ["NOT_LEADER_OR_FOLLOWER"]


async def test_a_leader_that_has_not_heard_of_a_topic_is_asked_again(nodes, tx):
    await tx.produce(1, b"a")
    topic = nodes.there.topics.topics.pop("t")
    await tx.end(commit=True)
    nodes.there.topics.topics["t"] = topic
    assert (await described(nodes)) == "PrepareCommit"
    await nodes.pass_ms(RETRY_BACKOFF_MS)
    assert committed(nodes, 1) == ([b"a"], 2)
    assert (await described(nodes)) == "CompleteCommit"


@pytest.mark.parametrize("again", [False, True])
async def test_a_topic_that_is_gone_here_needs_no_marker(nodes, tx, again):
    await tx.produce(1, b"a")
    nodes.cut.add(THERE)
    await tx.end(commit=True)
    nodes.cut.clear()
    await nodes.there.delete("t")
    held = nodes.hold(ApiKey.WRITE_TXN_MARKERS)
    await nodes.pass_ms(RETRY_BACKOFF_MS)
    await nodes.here.delete("t")  # while the marker is on its way
    if again:
        await nodes.topic("t", HERE, partitions=2)
    held.set()
    await nodes.idle()
    assert (await described(nodes)) == "CompleteCommit"


async def described(nodes):
    answer = await nodes.here.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactional_ids=["x"])
    return answer.transaction_states[0].transaction_state


async def test_the_next_transaction_is_faster_than_the_marker_of_the_last(nodes, tx):
    """Its first batch asks the coordinator, which waits for that very marker (KIP-890: it has an epoch of its own)."""
    await tx.produce(1, b"a")
    held = nodes.hold(ApiKey.WRITE_TXN_MARKERS)
    await tx.end(commit=True)
    tx.sequences.clear()
    exchange = tx.send_to(1, b"b")
    await nodes.idle()
    assert not exchange.finished
    held.set()
    await nodes.idle()
    assert exchange.row.error_code == E.NONE, "it was verified after the decision"
    assert committed(nodes, 1) == ([b"a"], 2)
    await tx.end(commit=True)
    assert committed(nodes, 1) == ([b"a", b"b"], 4)


async def test_a_batch_of_the_last_transaction_does_not_pass_its_marker(nodes, tx, make_batch):
    """Its verification is void, and its epoch is the one before."""
    await tx.produce(0, b"a")
    late = tx.send_to(1, b"late")
    answers = nodes.hold(ApiKey.ADD_PARTITIONS_TO_TXN)
    await nodes.idle()
    await tx.end(commit=True)  # of what the coordinator knows
    answers.set()
    await nodes.idle()
    assert late.row.error_code in (E.INVALID_PRODUCER_EPOCH, E.INVALID_TXN_STATE)
    assert committed(nodes, 1) == ([], 0)


async def test_who_is_not_permitted_asks_in_vain(nodes, tx):
    nodes.here.services.authorizer = Authorizer((), frozenset())
    assert await tx.produce(1, b"a") is E.INVALID_TXN_STATE
    assert "Another node does not let this one add partitions to transactions" in nodes.there.log.events
