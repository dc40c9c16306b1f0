"""What kafka-python's KafkaAdminClient and KafkaConsumer can ask of a broker."""

import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, OffsetSpec, TopicPartition
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, MemberToRemove
from kafka.protocol.consumer import OffsetTimestamp

from ottla.testing import Broker
from tests.support.cast import Cast
from tests.support.kit import produce
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e


@pytest.fixture
def admin(broker: Broker) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    yield client
    client.close()


def create(admin: KafkaAdminClient, topic: str, partitions: int = 1, **configs: str) -> None:
    admin.create_topics({topic: {"num_partitions": partitions, "configs": configs}}, wait_for_metadata=True)


def test_topics_are_created_grown_and_deleted(admin: KafkaAdminClient, broker: Broker, name: str) -> None:
    told = admin.create_topics({name: {"num_partitions": 3, "configs": {"retention.ms": "123456"}}})
    (topic,) = told["topics"]
    assert (topic["num_partitions"], topic["replication_factor"]) == (3, 1)
    assert topic["configs"]["retention.ms"]["value"] == "123456"
    for error, refused in (
        (kafka_errors.TopicAlreadyExistsError, {name: {}}),
        (kafka_errors.InvalidTopicError, {"no/slash": {}}),
        (kafka_errors.InvalidReplicationFactorError, {name + "-x": {"replication_factor": 3}}),
        (kafka_errors.InvalidPartitionsError, {name + "-x": {"num_partitions": 0}}),
        (kafka_errors.InvalidConfigurationError, {name + "-x": {"configs": {"no.such.config": "1"}}}),
    ):
        with pytest.raises(error):
            admin.create_topics(refused)
    admin.create_topics([name + "-x"], validate_only=True)
    assert name in admin.list_topics()
    assert name + "-x" not in admin.list_topics(), "validated only, or refused"

    (described,) = admin.describe_topics([name])
    assert sorted(one["partition_index"] for one in described["partitions"]) == [0, 1, 2]
    assert {one["leader_id"] for one in described["partitions"]} == {1}
    (by_id,) = admin.describe_topics([UUID(described["topic_id"])])
    assert by_id["name"] == name

    admin.create_partitions({name: 5})
    assert len(admin.describe_topics([name])[0]["partitions"]) == 5
    with pytest.raises(kafka_errors.InvalidPartitionsError):
        admin.create_partitions({name: 4})

    admin.delete_topics([name])
    assert name not in admin.list_topics()
    with pytest.raises(kafka_errors.UnknownTopicOrPartitionError):
        admin.delete_topics([name])
    create(admin, name)
    assert admin.describe_topics([name])[0]["topic_id"] != described["topic_id"]


def test_cluster(admin: KafkaAdminClient, broker: Broker) -> None:
    described = admin.describe_cluster()
    assert described["controller_id"] == 1
    assert len(described["cluster_id"]) == 22
    assert [(one["broker_id"], one["host"], one["port"]) for one in described["brokers"]] == [
        (1, broker.host, broker.port)
    ]


def test_unknown_topics_and_auto_creation(admin: KafkaAdminClient, broker: Broker, name: str) -> None:
    (unknown,) = admin.describe_topics([name])
    assert unknown["error_code"] == kafka_errors.UnknownTopicOrPartitionError.errno
    assert name not in admin.list_topics()
    assert produce(broker.bootstrap_servers, name, ["first"], kind="kafka-python") == [(0, 0)]
    assert name in admin.list_topics()

    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)
    try:
        assert consumer.partitions_for_topic(name) == {0}
        consumer.subscribe([name + "-consumed"])
        wait_for(lambda: consumer.poll(100) or consumer.assignment(), "a topic made for a consumer")
        assert name + "-consumed" in consumer.topics()
    finally:
        consumer.close()


def test_configs(admin: KafkaAdminClient, broker: Broker, name: str) -> None:
    create(admin, name, **{"retention.ms": "123456"})
    configs = admin.describe_configs([ConfigResource("topic", name)])["topic"][name]
    assert {key: config["value"] for key, config in configs.items()} == {"retention.ms": "123456"}, "what differs"
    configs = admin.describe_configs([ConfigResource("topic", name)], config_filter="all")["topic"][name]
    assert configs["max.message.bytes"]["value"] == "1048588"
    configs = admin.describe_configs([ConfigResource("topic", name, ["cleanup.policy"])], config_filter="all")
    assert list(configs["topic"][name]) == ["cleanup.policy"], "only what was asked"
    configs = admin.describe_configs([ConfigResource("broker", "1")], config_filter="all", include_synonyms=True)
    assert configs["broker"]["1"]["group.min.session.timeout.ms"]["value"] == "6000"


def test_offsets_by_time_and_deleted_records(admin: KafkaAdminClient, broker: Broker, name: str) -> None:
    create(admin, name, 2)
    place, empty = TopicPartition(name, 0), TopicPartition(name, 1)
    now = int(time.time() * 1000)
    times = [now - 5000, now - 4000, now - 1000, now - 3000]
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=50)
    futures = [
        producer.send(name, f"record {at}".encode(), partition=0, timestamp_ms=timestamp)
        for at, timestamp in enumerate(times)
    ]
    assert [future.get(30).timestamp for future in futures] == times
    producer.close()

    def offset(spec: OffsetSpec | int, where: TopicPartition = place) -> int:
        found: int = admin.list_partition_offsets({where: spec})[where].offset
        return found

    assert [offset(spec) for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST, OffsetSpec.MAX_TIMESTAMP)] == [0, 4, 2]
    assert [offset(spec, empty) for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)] == [0, 0]
    assert [offset(OffsetTimestamp(timestamp)) for timestamp in times] == [0, 1, 2, 2]
    assert offset(OffsetTimestamp(now)) == -1

    assert admin.delete_records({place: 3})[place]["low_watermark"] == 3
    with pytest.raises(kafka_errors.OffsetOutOfRangeError):
        admin.delete_records({place: 9})
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", consumer_timeout_ms=30_000
    )
    try:
        assert consumer.beginning_offsets([place]) == {place: 3}
        assert consumer.end_offsets([place, empty]) == {place: 4, empty: 0}
        assert consumer.offsets_for_times({place: now - 3500})[place].offset == 3
        consumer.assign([place])
        consumer.seek(place, 0)
        record = next(consumer)
        assert (record.offset, record.value) == (3, b"record 3"), "0 is out of range: reset to the earliest"
    finally:
        consumer.close()
    assert admin.delete_records({place: -1})[place]["low_watermark"] == 4


@pytest.fixture
def read_group(admin: KafkaAdminClient, broker: Broker, cast: Cast, name: str) -> Cast:
    """A group of one member that has read and committed 10 records of each of 2 partitions."""
    create(admin, name, 2)
    for partition in range(2):
        values = [f"{partition} {at}" for at in range(10)]
        produce(broker.bootstrap_servers, name, values, partition=partition, kind="kafka-python")
    one = cast.join("kafka-python")
    cast.wait_seen_once([f"{partition} {at}" for partition in range(2) for at in range(10)])
    one.commit()
    return cast


def test_groups(admin: KafkaAdminClient, read_group: Cast, name: str) -> None:
    (one,) = read_group.everyone
    left, right = TopicPartition(name, 0), TopicPartition(name, 1)

    def offsets() -> dict[int, int]:
        return {place.partition: told.offset for place, told in admin.list_group_offsets(name)[name].items()}

    def listed(**options: Any) -> dict[str, str]:
        return {group["group_id"]: group["group_state"] for group in admin.list_groups(**options)}

    described = admin.describe_groups([name])[name]
    assert described["error"] is None
    assert (described["group_state"], described["protocol_type"]) == ("Stable", "consumer")
    (member,) = described["members"]
    assert (member["client_id"], member["client_host"]) == (one.role.name, "/127.0.0.1")
    assert member["member_metadata"]["topics"] == [name]
    (assigned,) = member["member_assignment"]["assigned_partitions"]
    assert (assigned["topic"], sorted(assigned["partitions"])) == (name, [0, 1])
    assert listed()[name] == "Stable"
    assert name in listed(states_filter=["stable"])
    assert name not in listed(states_filter=["empty"])

    assert offsets() == {0: 10, 1: 10}
    refused = admin.alter_group_offsets(name, {left: OffsetAndMetadata(5, "", -1)})
    assert refused[left] is kafka_errors.UnknownMemberIdError, "the group has members"
    assert admin.delete_group_offsets(name, [left])[left] is kafka_errors.GroupSubscribedToTopicError
    assert admin.delete_groups([name])[name] == "NonEmptyGroupError"

    one.stop()
    wait_for(lambda: listed()[name] == "Empty", "the group to be empty")
    assert admin.reset_group_offsets(name, {left: 5, right: OffsetSpec.EARLIEST}) == {
        left: {"error": kafka_errors.NoError, "offset": 5},
        right: {"error": kafka_errors.NoError, "offset": 0},
    }
    assert offsets() == {0: 5, 1: 0}
    again = read_group.join("kafka-python")
    wanted = [f"0 {at}" for at in range(5, 10)] + [f"1 {at}" for at in range(10)]
    wait_for(lambda: len(again.seen) >= len(wanted), "what lies behind the new offsets", show=read_group.describe)
    assert sorted(seen.value for seen in again.seen) == sorted(wanted)
    again.stop()

    assert admin.delete_group_offsets(name, [left])[left] is kafka_errors.NoError
    assert offsets() == {1: 10}
    assert admin.delete_groups([name])[name] == "OK"
    assert name not in listed()
    assert offsets() == {}
    assert admin.describe_groups([name])[name]["group_state"] == "Dead"
    assert admin.delete_groups([name])[name] == "GroupIdNotFoundError"


def test_a_member_is_removed(admin: KafkaAdminClient, read_group: Cast, name: str) -> None:
    """An administrator removes a static member, which then is no longer heard (KIP-345)."""
    read_group.everyone[0].stop()
    static = read_group.join("kafka-python", instance_id="one")
    wait_for(lambda: len(static.owned) == 2, "the static member to be assigned", show=read_group.describe)
    told = admin.remove_group_members(name, [MemberToRemove(group_instance_id="one", reason="a test")])
    assert list(told.values()) == [kafka_errors.NoError]
    told = admin.remove_group_members(name, [MemberToRemove(group_instance_id="nobody")])
    assert list(told.values()) == [kafka_errors.UnknownMemberIdError]
    wait_for(
        lambda: [change.kind for change in static.changes].count("assigned") == 2 and len(static.owned) == 2,
        "it to find out and join again",
        show=read_group.describe,
    )


def test_a_committed_note_comes_back(admin: KafkaAdminClient, broker: Broker, name: str) -> None:
    create(admin, name)
    place = TopicPartition(name, 0)
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=name)
    try:
        consumer.assign([place])
        consumer.commit({place: OffsetAndMetadata(7, "ünïcode", 0)})
        assert consumer.committed(place, metadata=True) == OffsetAndMetadata(7, "ünïcode", 0)
        assert admin.list_group_offsets([name])[name] == {place: OffsetAndMetadata(7, "ünïcode", 0)}
        with pytest.raises(kafka_errors.OffsetMetadataTooLargeError):
            consumer.commit({place: OffsetAndMetadata(8, "x" * 5000, -1)})
    finally:
        consumer.close()
