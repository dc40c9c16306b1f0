"""What clients are told of three nodes, of which one is down; see `tests.handlers.spread`."""

import pytest
import pytest_asyncio

from ottla.broker.core.security.session import Session
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tests.handlers.spread import DOWN, EPOCHS, HERE, THERE, Spread, name_in

E = ErrorCode
HOST = "127.0.0.1"


@pytest_asyncio.fixture
async def world():
    world = await Spread().start()
    await world.topic("t", 4)
    return world


async def partitions(world, version=12):
    response = await world.call(ApiKey.METADATA, version, topics=[{"name": "t"}])
    return response.topics[0].partitions


# -- Metadata and DescribeCluster


@pytest.mark.parametrize("version", range(1, 14))
async def test_brokers_are_those_that_are_up(world, version):
    for node_id in (HERE, THERE):
        world.turn(node_id, rack=f"r{node_id}")
    response = await world.call(ApiKey.METADATA, version, topics=[])
    rows = [(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers]
    assert rows == [(HERE, HOST, 9092, "r1"), (THERE, HOST, 9093, "r2")]
    assert response.controller_id == HERE


async def test_a_node_with_a_name_is_told_by_it(world):
    world.turn(THERE, endpoints={"PLAINTEXT": ["b.example", 19092]})
    response = await world.call(ApiKey.METADATA, 12, topics=[])
    assert [(broker.host, broker.port) for broker in response.brokers] == [(HOST, 9092), ("b.example", 19092)]


async def test_brokers_are_told_at_the_listener_by_which_a_client_came(world):
    world.turn(THERE, endpoints={"PLAINTEXT": ["", 1], "INSIDE": ["b.inside", 2]})
    world.session = Session("User:ANONYMOUS", "INSIDE")
    response = await world.call(ApiKey.METADATA, 12, topics=[])
    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [
        (HERE, HOST, 9092),
        (THERE, "b.inside", 2),
    ]
    world.session = Session("User:ANONYMOUS", "OUTSIDE")
    response = await world.call(ApiKey.METADATA, 12, topics=[])
    assert [broker.node_id for broker in response.brokers] == [HERE], "the other one does not have that listener"


async def test_a_node_that_drains_is_still_told(world):
    world.turn(THERE, state="draining")
    response = await world.call(ApiKey.METADATA, 12, topics=[])
    assert [broker.node_id for broker in response.brokers] == [HERE, THERE]


@pytest.mark.parametrize("version", range(7, 14))
async def test_each_partition_has_its_leader_and_epoch(world, version):
    rows = await partitions(world, version)
    assert [(row.error_code, row.leader_id, row.leader_epoch) for row in rows] == [
        (0, HERE, EPOCHS[HERE]),
        (0, THERE, EPOCHS[THERE]),
        (E.LEADER_NOT_AVAILABLE, -1, EPOCHS[DOWN]),
        (0, HERE, EPOCHS[HERE]),
    ]
    assert [(row.replica_nodes, row.isr_nodes, row.offline_replicas) for row in rows] == [
        ([HERE], [HERE], []),
        ([THERE], [THERE], []),
        ([DOWN], [], [DOWN]),
        ([HERE], [HERE], []),
    ]


async def test_the_oldest_version_names_replicas_that_are_up(world):
    assert [row.replica_nodes for row in await partitions(world, 0)] == [[HERE], [THERE], [], [HERE]]
    assert [row.replica_nodes for row in await partitions(world, 1)] == [[HERE], [THERE], [DOWN], [HERE]]


async def test_what_was_told_falls_when_a_node_comes_or_goes(world):
    assert (await partitions(world))[2].leader_id == -1
    told = world.topics.topics["t"].described
    await partitions(world)
    assert world.topics.topics["t"].described is told, "it is kept as long as nothing changes"
    world.turn(DOWN, state="up", epoch=5)
    row = (await partitions(world))[2]
    assert (row.error_code, row.leader_id, row.leader_epoch) == (0, DOWN, 5)
    world.turn(THERE, state="down")
    row = (await partitions(world))[1]
    assert (row.error_code, row.leader_id, row.leader_epoch) == (E.LEADER_NOT_AVAILABLE, -1, EPOCHS[THERE])


async def test_the_controller_is_the_smallest_that_is_up(world):
    assert (await world.call(ApiKey.DESCRIBE_CLUSTER, 1)).controller_id == HERE


async def test_pages_of_partitions_have_their_leaders(world):
    response = await world.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": "t"}], response_partition_limit=9)
    assert [
        (row.error_code, row.leader_id, row.leader_epoch, row.replica_nodes, row.isr_nodes, row.offline_replicas)
        for row in response.topics[0].partitions
    ] == [
        (0, HERE, EPOCHS[HERE], [HERE], [HERE], []),
        (0, THERE, EPOCHS[THERE], [THERE], [THERE], []),
        (0, -1, EPOCHS[DOWN], [DOWN], [], [DOWN]),
        (0, HERE, EPOCHS[HERE], [HERE], [HERE], []),
    ]
    assert [row.eligible_leader_replicas for row in response.topics[0].partitions] == [[], [], [DOWN], []]


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster(world, version):
    response = await world.call(ApiKey.DESCRIBE_CLUSTER, version, endpoint_type=1)
    rows = [(row.broker_id, row.host, row.port) for row in response.brokers]
    assert rows == [(HERE, HOST, 9092), (THERE, HOST, 9093)]


async def test_nodes_that_are_down_are_fenced_to_those_who_ask(world):
    response = await world.call(ApiKey.DESCRIBE_CLUSTER, 2, endpoint_type=1, include_fenced_brokers=True)
    assert [(row.broker_id, row.port, row.is_fenced) for row in response.brokers] == [
        (HERE, 9092, False),
        (THERE, 9093, False),
        (DOWN, 9094, True),
    ]
    world.turn(THERE, state="draining")
    response = await world.call(ApiKey.DESCRIBE_CLUSTER, 2, endpoint_type=1, include_fenced_brokers=True)
    assert [(row.broker_id, row.is_fenced) for row in response.brokers] == [(HERE, False), (THERE, True), (DOWN, True)]
    response = await world.call(ApiKey.DESCRIBE_CLUSTER, 2, endpoint_type=1)
    assert [(row.broker_id, row.is_fenced) for row in response.brokers] == [(HERE, False), (THERE, False)]


# -- FindCoordinator


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize(("kind", "topic"), [(0, OFFSETS_TOPIC), (1, TRANSACTIONS_TOPIC)])
async def test_the_coordinator_leads_the_partition_of_the_key(world, version, kind, topic):
    await world.coordinate_transactions()
    names = [name_in(index) for index in range(3)]
    if version >= 4:
        response = await world.call(ApiKey.FIND_COORDINATOR, version, key_type=kind, coordinator_keys=names)
        rows = response.coordinators
        assert [row.key for row in rows] == names
    elif version or not kind:
        rows = [await world.call(ApiKey.FIND_COORDINATOR, version, key=name, key_type=kind) for name in names]
    else:
        return  # version 0 knows groups alone
    assert [(row.error_code, row.node_id, row.host, row.port) for row in rows] == [
        (0, HERE, HOST, 9092),
        (0, THERE, HOST, 9093),
        (E.COORDINATOR_NOT_AVAILABLE, -1, "", -1),
    ]
    if version:
        assert [row.error_message for row in rows][2] == E.COORDINATOR_NOT_AVAILABLE.text
    world.turn(DOWN, state="up")
    name = names[2]
    answer = await world.call(ApiKey.FIND_COORDINATOR, version, key=name, key_type=kind, coordinator_keys=[name])
    row = answer.coordinators[0] if version >= 4 else answer
    assert (row.error_code, row.node_id, row.port) == (0, DOWN, 9094)


async def test_a_coordinator_that_loads_is_named(world):
    world.reload(OFFSETS_TOPIC, 0)
    response = await world.call(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=[name_in(0)])
    assert [(row.error_code, row.node_id) for row in response.coordinators] == [(0, HERE)]


# -- settings


async def test_every_node_has_settings(world):
    response = await world.call(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[4, 8])
    rows = [(row.resource_type, row.resource_name) for row in response.config_resources]
    assert sorted(rows) == [(kind, str(node)) for kind in (4, 8) for node in (HERE, THERE, DOWN)]


@pytest.mark.parametrize("kind", [4, 8])
async def test_only_the_node_itself_tells_and_changes_its_settings(world, kind):
    """As in Kafka: tools send these requests to the node that they are about."""
    resource = {"resource_type": kind, "resource_name": str(THERE)}
    response = await world.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource])
    assert [row.error_code for row in response.results] == [E.INVALID_REQUEST]
    change = [{"name": "num.io.threads", "value": "9"}]
    response = await world.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource | {"configs": change}])
    assert [row.error_code for row in response.responses] == [E.INVALID_REQUEST]


# -- replicas


async def test_replicas_stay_at_home(world):
    wanted = [(0, [HERE]), (1, [THERE]), (2, [DOWN]), (3, [THERE]), (1, [9]), (0, [HERE, THERE]), (2, None)]
    rows = [{"partition_index": index, "replicas": replicas} for index, replicas in wanted]
    response = await world.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, topics=[{"name": "t", "partitions": rows}])
    refused = E.INVALID_REPLICA_ASSIGNMENT
    answered = response.responses[0].partitions
    assert [row.error_code for row in answered] == [0, 0, 0, *[refused] * 3, E.NO_REASSIGNMENT_IN_PROGRESS]
    assert "`ottla cluster spread`" in answered[3].error_message
    assert answered[4].error_message == "There is no broker 9: this cluster is nodes 1, 2, 3"
    listed = await world.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None)
    assert (listed.error_code, listed.topics) == (0, [])


@pytest.mark.parametrize(
    ("kind", "error"), [(0, E.PREFERRED_LEADER_NOT_AVAILABLE), (1, E.ELIGIBLE_LEADERS_NOT_AVAILABLE)]
)
async def test_nobody_is_elected_where_the_home_is_down(world, kind, error):
    asked = [{"topic": "t", "partitions": [0, 1, 2]}]
    response = await world.call(ApiKey.ELECT_LEADERS, 2, election_type=kind, topic_partitions=asked)
    (result,) = response.replica_election_results
    assert [row.error_code for row in result.partition_result] == [*[E.ELECTION_NOT_NEEDED] * 2, error]
    everywhere = await world.call(ApiKey.ELECT_LEADERS, 2, election_type=kind, topic_partitions=None)
    rows = {
        row.topic: [each.partition_id for each in row.partition_result] for row in everywhere.replica_election_results
    }
    assert rows == {"t": [2], OFFSETS_TOPIC: [2]}


async def test_a_directory_has_what_is_led_here(world):
    response = await world.call(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None)
    (directory,) = response.results
    found = {topic.name: [row.partition_index for row in topic.partitions] for topic in directory.topics}
    assert found == {"t": [0, 3], OFFSETS_TOPIC: [0]}
    moved = [{"path": directory.log_dir, "topics": [{"name": "t", "partitions": [0, 1, 9]}]}]
    response = await world.call(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=moved)
    assert [row.error_code for row in response.results[0].partitions] == [
        0,
        E.REPLICA_NOT_AVAILABLE,
        E.UNKNOWN_TOPIC_OR_PARTITION,
    ]
