"""Metadata and DescribeCluster: what clients learn of brokers and topics, and topics that come to be by asking."""

import pytest

from ottla.broker.cluster.placement import Alone, Shared
from ottla.broker.cluster.view import ClusterView, NodeInfo, NodeState
from ottla.broker.core.topics.catalog import NewTopic
from ottla.broker.handlers.services import Cluster
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.primitives import ZERO_UUID

INT32_MIN = -(2**31)


def named(*names, **options):
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **options)


def by_name(response):
    return {topic.name: topic for topic in response.topics}


@pytest.mark.parametrize("version", range(13))
async def test_every_version_describes_a_topic(world, version):
    topic = await world.topic("t", 2)
    response = await world.ask(named("t"), version)
    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [(1, "127.0.0.1", 9092)]
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == (world.engine.cluster_id if version >= 2 else None)
    (row,) = response.topics
    assert (row.error_code, row.name, row.is_internal) == (0, "t", False)
    assert row.topic_id == (topic.topic_id if version >= 10 else ZERO_UUID)
    assert [(p.partition_index, p.leader_id, p.replica_nodes, p.isr_nodes) for p in row.partitions] == [
        (0, 1, [1], [1]),
        (1, 1, [1], [1]),
    ]
    assert [p.leader_epoch for p in row.partitions] == ([0, 0] if version >= 7 else [-1, -1])


async def test_all_topics_none_or_some(world, topic):
    everything = {"t", "__consumer_offsets"}
    assert set(by_name(await world.ask(MetadataRequest(topics=[]), 0))) == everything
    assert set(by_name(await world.ask(MetadataRequest(topics=None), 1))) == everything
    none = await world.ask(MetadataRequest(topics=[]), 1)
    assert (none.topics, len(none.brokers)) == ([], 1)


async def test_the_offsets_topic_is_there_from_the_start(world):
    row = by_name(await world.ask(MetadataRequest(topics=None), 12))["__consumer_offsets"]
    assert (row.is_internal, len(row.partitions)) == (True, 50)


async def test_the_advertised_address(world):
    told = {"PLAINTEXT": ("broker.example", 19092)}
    world.services.cluster = Cluster(Alone(1), "cluster", world.topics, told)
    response = await world.ask(MetadataRequest(topics=[]), 12)
    assert (response.brokers[0].host, response.brokers[0].port) == ("broker.example", 19092)


async def test_a_node_names_itself_as_the_others_name_it(world):
    """To librdkafka a node that has another name, depending on who is asked, is a new one each time."""
    placement = Shared(1, lambda topic_id: [])
    placement.look(ClusterView(1, {1: NodeInfo(1, NodeState.UP, {"PLAINTEXT": ("localhost", 1)})}))
    world.services.cluster = Cluster(placement, "cluster", world.topics)
    response = await world.ask(MetadataRequest(topics=[]), 12)
    assert response.brokers[0].host == "localhost"
    assert response.brokers[0].port != 1, "a listener may have another port in each life"


@pytest.mark.parametrize("version", [0, 3, 4, 12])
async def test_asking_creates_a_topic(new_world, version):
    world = await new_world(num_partitions=3).start()
    response = await world.ask(named("new", "new"), version)
    (row,) = response.topics
    assert (row.error_code, row.name, len(row.partitions)) == (0, "new", 3)
    assert world.topics.partition_count("new") == 3


async def test_two_who_ask_at_once_get_the_same_topic(world):
    first, second = world.send(named("new"), 12), world.send(named("new"), 12)
    assert not first.finished
    await world.idle()
    assert first.response.topics[0].topic_id == second.response.topics[0].topic_id != ZERO_UUID


async def test_not_created_when_the_client_or_the_broker_says_so(world, new_world):
    refusing = await new_world(auto_create_topics_enable=False).start()
    for where, request in ((world, named("new", allow_auto_topic_creation=False)), (refusing, named("new"))):
        (row,) = (await where.ask(request, 12)).topics
        assert (row.error_code, row.name) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "new")
        assert where.topics.partition_count("new") == 0


async def test_a_deleted_topic_is_created_anew_but_not_told_of_at_once(world, topic):
    """Else a producer would begin in the new topic before it repeats what it had sent to the old one."""
    old = world.id_of("t")
    await world.delete("t")
    assert world.topics.was_deleted("t")
    exchange = world.send(named("t"), 12)
    assert exchange.finished
    (row,) = exchange.response.topics
    assert (row.error_code, row.topic_id) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ZERO_UUID)
    await world.idle()
    (row,) = (await world.ask(named("t"), 12)).topics
    assert (row.error_code, row.topic_id) == (0, world.id_of("t"))
    assert world.id_of("t") != old
    assert not world.topics.was_deleted("t")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "ü", "x" * 250, "a b"])
async def test_invalid_names_are_never_created(world, name):
    for create in (True, False):
        (row,) = (await world.ask(named(name, allow_auto_topic_creation=create), 9)).topics
        assert row.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert set(world.topics.topics) == {"__consumer_offsets"}


@pytest.mark.parametrize(
    ("settings", "name", "error"),
    [
        ({"default_replication_factor": 3}, "new", ErrorCode.INVALID_REPLICATION_FACTOR),
        ({}, "a_b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({}, "__transaction_state", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
    ids=["too many replicas", "a colliding name", "an internal topic"],
)
async def test_why_a_topic_cannot_be_created(new_world, settings, name, error):
    world = await new_world(**settings).start()
    await world.topics.create([NewTopic("a.b", 1, 1)])
    (row,) = (await world.ask(named(name), 12)).topics
    assert (row.error_code, row.is_internal) == (error, name.startswith("__"))


async def test_by_id(world, topic):
    unknown = world.new_uuid()
    asked = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in (topic.topic_id, unknown)]
    first, second = (await world.ask(MetadataRequest(topics=asked), 12)).topics
    assert (first.error_code, first.name, first.topic_id) == (0, "t", topic.topic_id)
    assert (second.error_code, second.name, second.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, unknown)
    refused = await world.ask(MetadataRequest(topics=asked), 11)
    assert [row.error_code for row in refused.topics] == [ErrorCode.INVALID_REQUEST] * 2
    assert [row.topic_id for row in refused.topics] == [topic.topic_id, unknown]
    assert (refused.brokers, refused.cluster_id, refused.controller_id) == ([], None, -1)


async def test_authorized_operations_only_when_asked(world, topic):
    plain = await world.ask(named("t"), 8)
    assert plain.cluster_authorized_operations == plain.topics[0].topic_authorized_operations == INT32_MIN
    options = {"include_cluster_authorized_operations": True, "include_topic_authorized_operations": True}
    asked = await world.ask(named("t", **options), 8)
    # read, write, create, delete, alter, describe, describe configs, alter configs
    assert asked.topics[0].topic_authorized_operations == 0b1101_1111_1000
    absent = await world.ask(named("absent", allow_auto_topic_creation=False, **options), 8)
    assert absent.topics[0].topic_authorized_operations == asked.topics[0].topic_authorized_operations
    # create, alter, describe, cluster action, describe configs, alter configs, idempotent write
    assert asked.cluster_authorized_operations == 0b1_1111_1010_0000


async def test_partitions_that_were_added_are_described(world, topic):
    assert len((await world.ask(named("t"), 12)).topics[0].partitions) == 1
    await world.topics.grow([("t", 3, None)])
    assert len((await world.ask(named("t"), 12)).topics[0].partitions) == 3


async def test_leader_epochs_never_fall(world):
    topic_id = (await world.topic("t", 1)).topic_id
    for epoch in (1, 2, 3):
        await world.restart()
        (row,) = (await world.ask(named("t"), 12)).topics
        assert (row.topic_id, row.partitions[0].leader_epoch) == (topic_id, epoch)


async def test_version_13_can_say_that_nothing_is_wrong(world):
    topic = await world.topic("t", 2)
    by_id = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic.topic_id, name=None)])
    for request in (named("t"), by_id):
        response = await world.ask(request, 13)
        (row,) = response.topics
        assert (response.error_code, row.error_code, row.name, row.topic_id) == (0, 0, "t", topic.topic_id)
        assert len(row.partitions) == 2


# -- DescribeCluster


async def test_describe_cluster(world):
    response = await world.call(ApiKey.DESCRIBE_CLUSTER, 1)
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, world.engine.cluster_id, 1)
    assert [(b.broker_id, b.host, b.port) for b in response.brokers] == [(1, "127.0.0.1", 9092)]
    assert response.cluster_authorized_operations == INT32_MIN
    asked = await world.call(ApiKey.DESCRIBE_CLUSTER, 0, include_cluster_authorized_operations=True)
    assert asked.cluster_authorized_operations > 0


@pytest.mark.parametrize(
    ("endpoint_type", "error"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
async def test_describe_cluster_of_other_endpoints(world, endpoint_type, error):
    response = await world.call(ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=endpoint_type)
    assert (response.error_code, response.brokers, response.endpoint_type) == (error, [], 1)
    assert response.cluster_id == ""


@pytest.mark.parametrize("fenced", [False, True])
async def test_no_broker_is_fenced(world, fenced):
    response = await world.call(ApiKey.DESCRIBE_CLUSTER, 2, include_fenced_brokers=fenced)
    assert [(b.broker_id, b.is_fenced) for b in response.brokers] == [(1, False)]
