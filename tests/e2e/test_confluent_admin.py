"""What confluent-kafka's AdminClient can ask of a broker."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_END,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, OffsetSpec

from ottla.testing import Broker
from tests.support.cast import Cast
from tests.support.clients import confluent
from tests.support.clients.confluent import result
from tests.support.kit import produce
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e


@pytest.fixture
def admin(broker: Broker) -> AdminClient:
    return confluent.admin(broker.bootstrap_servers)


def refusal(futures: dict[Any, Any]) -> int:
    """The error code of the only future, which must have failed."""
    with pytest.raises(KafkaException) as caught:
        result(futures)
    code: int = caught.value.args[0].code()
    return code


def partition_count(admin: AdminClient, topic: str) -> int:
    return len(admin.list_topics(topic, timeout=30).topics[topic].partitions)


def test_topics_are_created_grown_and_deleted(admin: AdminClient, broker: Broker, name: str) -> None:
    result(admin.create_topics([NewTopic(name, 3, 1, config={"retention.ms": "123456"})]))
    assert refusal(admin.create_topics([NewTopic(name, 3)])) == KafkaError.TOPIC_ALREADY_EXISTS
    assert refusal(admin.create_topics([NewTopic("no/slash", 1)])) == KafkaError.TOPIC_EXCEPTION
    assert refusal(admin.create_topics([NewTopic(name + "-x", 1, 3)])) == KafkaError.INVALID_REPLICATION_FACTOR
    assert refusal(admin.create_topics([NewTopic(name + "-x", 0)])) == KafkaError.INVALID_PARTITIONS
    bad = NewTopic(name + "-x", 1, 1, config={"no.such.config": "1"})
    assert refusal(admin.create_topics([bad])) == KafkaError.INVALID_CONFIG
    result(admin.create_topics([NewTopic(name + "-x", 1)], validate_only=True))
    assert name in admin.list_topics(timeout=30).topics
    assert name + "-x" not in admin.list_topics(timeout=30).topics, "validated only, or refused"

    described = result(admin.describe_topics(TopicCollection([name])))
    assert [(one.id, one.leader.id) for one in described.partitions] == [(at, 1) for at in range(3)]
    first_id = described.topic_id
    assert str(first_id) != "AAAAAAAAAAAAAAAAAAAAAA"

    result(admin.create_partitions([NewPartitions(name, 5)]))
    assert partition_count(admin, name) == 5
    assert refusal(admin.create_partitions([NewPartitions(name, 5)])) == KafkaError.INVALID_PARTITIONS
    assert refusal(admin.create_partitions([NewPartitions(name, 4)])) == KafkaError.INVALID_PARTITIONS
    assert produce(broker.bootstrap_servers, name, ["a"], partition=4) == [(4, 0)]

    result(admin.delete_topics([name]))
    assert name not in admin.list_topics(timeout=30).topics
    assert refusal(admin.delete_topics([name])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    result(admin.create_topics([NewTopic(name, 1)]))
    described = result(admin.describe_topics(TopicCollection([name])))
    assert described.topic_id != first_id
    assert produce(broker.bootstrap_servers, name, ["b"]) == [(0, 0)], "it starts at 0 again"


def test_cluster(admin: AdminClient, broker: Broker) -> None:
    described = admin.describe_cluster().result(30)
    assert [(node.id, node.host, node.port) for node in described.nodes] == [(1, broker.host, broker.port)]
    assert described.controller.id == 1
    assert len(described.cluster_id) == 22
    assert admin.list_topics(timeout=30).cluster_id == described.cluster_id
    assert admin.describe_cluster(include_authorized_operations=True).result(30).authorized_operations


def test_unknown_topics_and_auto_creation(admin: AdminClient, broker: Broker, name: str) -> None:
    bootstrap = broker.bootstrap_servers
    assert refusal(admin.describe_topics(TopicCollection([name]))) == KafkaError.UNKNOWN_TOPIC_OR_PART

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([name])
        message = consumer.poll(30)
        assert message is not None
        assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART, "a consumer creates nothing by itself"
    finally:
        consumer.close()
    assert name not in admin.list_topics(timeout=30).topics

    assert produce(bootstrap, name, ["first"]) == [(0, 0)], "a producer does"
    assert partition_count(admin, name) == 1


def test_configs(admin: AdminClient, broker: Broker, name: str) -> None:
    result(admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "123456", "cleanup.policy": "compact"})]))
    configs = result(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name)]))
    assert configs["retention.ms"].value == "123456"
    assert configs["cleanup.policy"].value == "compact"
    assert not configs["retention.ms"].is_default
    assert configs["max.message.bytes"].value == "1048588"
    assert configs["max.message.bytes"].is_default

    configs = result(admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]))
    assert configs["group.min.session.timeout.ms"].value == "6000"
    assert configs["advertised.listeners"].value.endswith(f":{broker.port}")
    missing = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name + "-x")])
    assert refusal(missing) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_offsets_by_time_and_deleted_records(admin: AdminClient, broker: Broker, name: str) -> None:
    result(admin.create_topics([NewTopic(name, 2)]))
    now = int(time.time() * 1000)
    times = [now - 5000, now - 4000, now - 1000, now - 3000]
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50})
    for at, timestamp in enumerate(times):
        producer.produce(name, f"record {at}", partition=0, timestamp=timestamp)
    assert producer.flush(30) == 0
    place = TopicPartition(name, 0)

    def offset(spec: OffsetSpec, partition: int = 0) -> int:
        found: int = result(admin.list_offsets({TopicPartition(name, partition): spec})).offset
        return found

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 4
    assert offset(OffsetSpec.max_timestamp()) == 2
    assert [offset(OffsetSpec.for_timestamp(timestamp)) for timestamp in times] == [0, 1, 2, 2]
    assert offset(OffsetSpec.for_timestamp(now)) == -1, "nothing is that young"
    assert (offset(OffsetSpec.earliest(), 1), offset(OffsetSpec.latest(), 1)) == (0, 0)
    assert offset(OffsetSpec.max_timestamp(), 1) == -1, "there is nothing in it"

    assert result(admin.delete_records([TopicPartition(name, 0, 3)])).low_watermark == 3
    assert (offset(OffsetSpec.earliest()), offset(OffsetSpec.latest())) == (3, 4)
    assert refusal(admin.delete_records([TopicPartition(name, 0, 9)])) == KafkaError.OFFSET_OUT_OF_RANGE
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": name, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.assign([TopicPartition(name, 0, 0)])
        message = consumer.poll(30)
        assert (message.offset(), message.value()) == (3, b"record 3"), "0 is out of range: reset to the earliest"
        assert consumer.get_watermark_offsets(place, timeout=30) == (3, 4)
        (found,) = consumer.offsets_for_times([TopicPartition(name, 0, now - 3500)], timeout=30)
        assert found.offset == 3
    finally:
        consumer.close()
    assert result(admin.delete_records([TopicPartition(name, 0, OFFSET_END)])).low_watermark == 4
    assert offset(OffsetSpec.earliest()) == 4


@pytest.fixture
def read_group(broker: Broker, cast: Cast, name: str) -> Iterator[Cast]:
    """A group of one member that has read and committed 10 records of each of 2 partitions."""
    confluent.create_topics(broker.bootstrap_servers, {name: 2})
    for partition in range(2):
        produce(broker.bootstrap_servers, name, [f"{partition} {at}" for at in range(10)], partition=partition)
    one = cast.join("confluent")
    cast.wait_seen_once([f"{partition} {at}" for partition in range(2) for at in range(10)])
    one.commit()
    return cast


def test_groups(admin: AdminClient, broker: Broker, read_group: Cast, name: str) -> None:
    (one,) = read_group.everyone

    def offsets(*places: TopicPartition) -> dict[int, int]:
        asked = ConsumerGroupTopicPartitions(name, list(places) or None)
        told = result(admin.list_consumer_group_offsets([asked]))
        return {place.partition: place.offset for place in told.topic_partitions}

    def alter(*places: TopicPartition) -> list[int | None]:
        told = result(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, list(places))]))
        return [place.error and place.error.code() for place in told.topic_partitions]

    described = result(admin.describe_consumer_groups([name]))
    assert (described.state, described.partition_assignor) == (ConsumerGroupState.STABLE, "range")
    assert described.coordinator.id == 1
    (member,) = described.members
    assert (member.client_id, member.host) == (one.role.name, "/127.0.0.1")
    assert {(place.topic, place.partition) for place in member.assignment.topic_partitions} == one.owned
    with_operations = result(admin.describe_consumer_groups([name], include_authorized_operations=True))
    assert with_operations.authorized_operations

    def listed(**options: Any) -> dict[str, ConsumerGroupState]:
        return {group.group_id: group.state for group in admin.list_consumer_groups(**options).result(30).valid}

    assert listed()[name] == ConsumerGroupState.STABLE
    assert name in listed(states={ConsumerGroupState.STABLE})
    assert name not in listed(states={ConsumerGroupState.EMPTY})
    (legacy,) = admin.list_groups(name, timeout=30)
    assert (legacy.id, legacy.state, legacy.protocol_type) == (name, "Stable", "consumer")

    assert offsets() == {0: 10, 1: 10}
    assert alter(TopicPartition(name, 0, 5)) == [KafkaError.UNKNOWN_MEMBER_ID], "the group has members"
    assert refusal(admin.delete_consumer_groups([name])) == KafkaError.NON_EMPTY_GROUP

    one.stop()
    wait_for(lambda: listed()[name] == ConsumerGroupState.EMPTY, "the group to be empty")
    assert alter(TopicPartition(name, 0, 5, "a note"), TopicPartition(name, 1, 0)) == [None, None]
    assert offsets() == {0: 5, 1: 0}
    again = read_group.join("confluent")
    wanted = [f"0 {at}" for at in range(5, 10)] + [f"1 {at}" for at in range(10)]
    wait_for(lambda: len(again.seen) == len(wanted), "what lies behind the new offsets", show=read_group.describe)
    assert sorted(seen.value for seen in again.seen) == sorted(wanted)
    again.stop()

    result(admin.delete_consumer_groups([name]))
    assert name not in listed()
    assert offsets(TopicPartition(name, 0)) == {0: -1001}
    assert result(admin.describe_consumer_groups([name])).state == ConsumerGroupState.DEAD
    assert refusal(admin.delete_consumer_groups([name])) == KafkaError.GROUP_ID_NOT_FOUND


def test_a_committed_note_comes_back(broker: Broker, name: str) -> None:
    confluent.create_topics(broker.bootstrap_servers, {name: 1})
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": name})
    try:
        place = TopicPartition(name, 0, 7, "ünïcode", leader_epoch=0)
        (told,) = consumer.commit(offsets=[place], asynchronous=False)
        assert told.error is None
        (found,) = consumer.committed([TopicPartition(name, 0)], timeout=30)
        assert (found.offset, found.metadata, found.leader_epoch) == (7, "ünïcode", 0)
        with pytest.raises(KafkaException) as caught:
            consumer.commit(offsets=[TopicPartition(name, 0, 8, "x" * 5000)], asynchronous=False)
        assert caught.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE
    finally:
        consumer.close()
