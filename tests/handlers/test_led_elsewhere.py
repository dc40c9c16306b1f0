"""Data requests for partitions that another node leads, that nobody leads, and that are not loaded yet.

What Apache Kafka says was asked of three of its brokers; see `tests/differential/three_kafkas.py`.
"""

import pytest
import pytest_asyncio

from ottla.broker.core.topics.partition import Standing
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from tests.handlers.spread import DOWN, EPOCHS, HERE, THERE, Spread
from tests.support.requests import delete_records_fields

E = ErrorCode
MOVED = E.NOT_LEADER_OR_FOLLOWER


@pytest_asyncio.fixture
async def world():
    world = await Spread().start()
    await world.topic()
    return world


def leader(row):
    return row.current_leader.leader_id, row.current_leader.leader_epoch


def endpoints(response):
    return [(node.node_id, node.host, node.port) for node in response.node_endpoints]


# -- Produce


@pytest.mark.parametrize("version", range(3, 14))
async def test_a_batch_for_another_node(world, make_batch, version):
    exchange = world.produce(make_batch(b"a"), partition=1, version=version)
    assert exchange.row.error_code == MOVED
    knows = version >= 10
    assert leader(exchange.row) == ((THERE, EPOCHS[THERE]) if knows else (-1, -1))
    assert endpoints(exchange.response) == ([(THERE, "127.0.0.1", 9093)] if knows else [])


async def test_a_batch_that_nobody_takes(world, make_batch):
    exchange = world.produce(make_batch(b"a"), partition=2, version=10)
    assert (exchange.row.error_code, leader(exchange.row)) == (MOVED, (-1, EPOCHS[DOWN]))
    assert endpoints(exchange.response) == []


async def test_a_batch_for_what_is_not_loaded_yet(world, make_batch):
    world.topics.topics["t"].partitions[0].standing = Standing.LOADING
    exchange = world.produce(make_batch(b"a"), version=10)
    assert (exchange.row.error_code, leader(exchange.row)) == (MOVED, (HERE, EPOCHS[HERE]))


async def test_each_leader_is_named_once(world, make_batch):
    batches = [(index, make_batch(b"a")) for index in (1, 0, 2)]
    batches = [(index, make_batch(b"a")) for index in (1, 0, 2)]
    exchange = world.produced_all(("t", batches), ("t", [(1, make_batch(b"b"))]), version=10)
    rows = [row for topic in exchange.response.responses for row in topic.partition_responses]
    assert [row.error_code for row in rows] == [MOVED, 0, MOVED, MOVED]
    assert endpoints(exchange.response) == [(THERE, "127.0.0.1", 9093)]


async def test_what_is_no_batch_is_refused_first(world):
    assert world.produce(b"", partition=1).row.error_code == E.INVALID_RECORD


async def test_a_batch_without_an_answer_closes_the_connection(world, make_batch):
    exchange = world.produce(make_batch(b"a"), partition=1, acks=0)
    assert exchange.aborted is not None
    assert not exchange.finished


async def test_a_transactional_batch_asks_nobody(world, make_batch):
    batch = make_batch(b"a", is_transactional=True, producer_id=7, producer_epoch=0)
    exchange = world.produce_all(("t", [(1, batch)]), transactional_id="x")
    assert exchange.row.error_code == MOVED


async def test_a_batch_under_way_when_the_log_moves(world, make_batch):
    exchange = world.produce(make_batch(b"a"), version=10)
    partition = world.topics.topics["t"].partitions[0]
    await world.engine.delete_log(partition.tp)  # what is queued fails
    world.lose(partition)
    world.run()
    assert exchange.row.error_code == MOVED


# -- Fetch


@pytest.mark.parametrize("version", range(4, 19))
async def test_a_fetch_from_another_node(world, version):
    exchange = world.fetch(partitions=(1,), version=version, max_wait_ms=500)
    assert (exchange.row.error_code, exchange.row.high_watermark, exchange.row.records) == (MOVED, -1, b"")
    knows = version >= 16
    assert leader(exchange.row) == ((THERE, EPOCHS[THERE]) if knows else (-1, -1))
    assert endpoints(exchange.response) == ([(THERE, "127.0.0.1", 9093)] if knows else [])


async def test_a_fetch_that_nobody_serves(world):
    exchange = world.fetch(partitions=(2,), version=16)
    assert (exchange.row.error_code, leader(exchange.row)) == (MOVED, (-1, EPOCHS[DOWN]))
    assert endpoints(exchange.response) == []


def fetched_under(world, epoch, partition=0, **options):
    """Fetch as somebody who takes this for the leader's epoch; the exchange."""
    rows = [{"partition": partition, "fetch_offset": 0, "partition_max_bytes": 100, "current_leader_epoch": epoch}]
    topics = [{"topic_id": world.id_of("t"), "partitions": rows}]
    return world.begin(ApiKey.FETCH, 16, topics=topics, **options)


async def test_epochs_are_compared_where_the_leader_is(world):
    partition = world.topics.topics["t"].partitions[0]
    partition.log.leader_epoch = 5
    assert fetched_under(world, 5).row.error_code == 0
    assert fetched_under(world, 4).row.error_code == E.FENCED_LEADER_EPOCH
    assert fetched_under(world, 6).row.error_code == E.UNKNOWN_LEADER_EPOCH
    for epoch in (-1, 0, EPOCHS[THERE], EPOCHS[THERE] + 1):
        assert fetched_under(world, epoch, 1).row.error_code == MOVED
    partition.standing = Standing.LOADING
    assert fetched_under(world, 4).row.error_code == MOVED


async def test_a_follower_is_told_the_leader_and_no_address(world):
    exchange = fetched_under(world, -1, 1, replica_state={"replica_id": 3})
    assert (exchange.row.error_code, leader(exchange.row)) == (MOVED, (THERE, EPOCHS[THERE]))
    assert endpoints(exchange.response) == []


async def test_a_fetch_that_waits_hears_that_the_log_moves(world):
    exchange = world.fetch(version=16, max_wait_ms=500)
    assert not exchange.finished
    world.lose(world.topics.topics["t"].partitions[0])
    assert exchange.row.error_code == MOVED


async def test_a_session_goes_on_without_what_moved(world, make_batch):
    """Each answer says it again until the client takes the partition out, as clients do."""
    world.produced(make_batch(b"a"))
    first = world.fetch(partitions=(0,), session_epoch=0, version=15).response
    assert first.session_id
    partition = world.topics.topics["t"].partitions[0]

    def go_on(epoch, **more):
        return world.begin(ApiKey.FETCH, 15, session_id=first.session_id, session_epoch=epoch, topics=[],
                           max_bytes=1 << 20, **more).response  # fmt: skip

    world.lose(partition)
    for epoch in (1, 2):
        (topic,) = go_on(epoch).responses
        assert [row.error_code for row in topic.partitions] == [MOVED]
    forgotten = [{"topic_id": world.id_of("t"), "partitions": [0]}]
    rows = [{"topic_id": world.id_of("t"), "partitions": [{"partition": 1, "partition_max_bytes": 9}]}]
    kept = world.begin(ApiKey.FETCH, 15, session_id=first.session_id, session_epoch=3, topics=rows,
                       forgotten_topics_data=forgotten, max_bytes=1 << 20).response  # fmt: skip
    assert [row.partition_index for row in kept.responses[0].partitions] == [1]


# -- the others


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.parametrize("timestamp", [-1, -2, 0])
async def test_offsets_of_another_node(world, version, timestamp):
    rows = await world.offsets(timestamp, 0, 1, 2, version=version)
    assert [row.error_code for row in rows] == [0, MOVED, MOVED]
    assert (rows[1].offset, rows[1].timestamp, rows[1].leader_epoch) == (-1, -1, -1)


async def test_ends_of_epochs_of_another_node(world):
    wanted = [{"partition": index, "current_leader_epoch": -1, "leader_epoch": 0} for index in range(3)]
    topics = [{"topic": "t", "partitions": wanted}]
    response = await world.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=topics)
    rows = response.topics[0].partitions
    assert [row.error_code for row in rows] == [0, MOVED, MOVED]
    assert [(row.leader_epoch, row.end_offset) for row in rows[1:]] == [(-1, -1)] * 2


async def test_records_of_another_node_are_not_deleted(world):
    row = await world.trim(0, partition=1)
    assert (row.error_code, row.low_watermark) == (MOVED, -1)
    fields = delete_records_fields(OFFSETS_TOPIC, 0, 1)
    answer = await world.call(ApiKey.DELETE_RECORDS, 2, **fields)
    assert answer.topics[0].partitions[0].error_code == E.INVALID_TOPIC_EXCEPTION, "whoever leads it"


async def test_producers_of_another_node(world):
    topics = [{"name": "t", "partition_indexes": [0, 1, 2, 3]}]
    response = await world.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics)
    rows = response.topics[0].partitions
    assert [row.error_code for row in rows] == [0, MOVED, MOVED, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert [row.error_message for row in rows] == [None] * 4


async def test_markers_are_for_what_is_led_here(world):
    """Kafka says that there is no such partition: coordinators and administrators look for the leader then."""
    world.reload(OFFSETS_TOPIC, 0)
    marker = {"producer_id": 7, "producer_epoch": 0, "transaction_result": False, "coordinator_epoch": 0}
    topics = [{"name": "t", "partition_indexes": [0, 1, 2]}, {"name": OFFSETS_TOPIC, "partition_indexes": [0, 1]}]
    exchange = world.begin(ApiKey.WRITE_TXN_MARKERS, 1, markers=[{**marker, "topics": topics}])
    world.run()
    found = {topic.name: [row.error_code for row in topic.partitions] for topic in exchange.response.markers[0].topics}
    unknown = E.UNKNOWN_TOPIC_OR_PARTITION
    assert found == {"t": [0, unknown, unknown], OFFSETS_TOPIC: [MOVED, unknown]}
