"""Stock admin clients: the scenarios of tests/interop that all share, and features that only one has."""

import asyncio
import time
from contextlib import closing
from typing import Any
from uuid import UUID

import aiokafka
import kafka
import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec
from kafka import KafkaAdminClient, OffsetAndMetadata
from kafka import OffsetSpec as PythonSpec
from kafka import TopicPartition as Place
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource as PythonResource
from kafka.admin import MemberToRemove
from kafka.protocol.consumer import OffsetTimestamp

from ottla.testing import Broker
from tests.e2e.inside import Staged, refusal
from tests.interop.python import administration, groups, records
from tests.support.cast import Cast
from tests.support.clients import confluent
from tests.support.clients.confluent import result
from tests.support.kit import KINDS, Row, kit_of, produce
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

STOCK = KINDS[:3]
SCENARIOS = [
    *(scenario for _, scenario in administration.SCENARIOS),
    records.read_from_timestamp,
    records.topics_on_demand,
    groups.commit_with_note,
]


@pytest.mark.parametrize("kind", STOCK)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_what_all_can_ask(scenario: Any, kind: str, broker: Broker, name: str) -> None:
    Staged(kind, broker, name).play(scenario)


@pytest.mark.parametrize("kind", STOCK)
def test_configs_of_the_broker(kind: str, broker: Broker) -> None:
    configs = kit_of(kind, broker.bootstrap_servers).configs("1", "broker")
    assert configs["group.min.session.timeout.ms"] == "6000"
    assert (configs["advertised.listeners"] or "").endswith(f":{broker.port}")


# Topics and the cluster


def test_topics_with_confluent(admin: AdminClient, broker: Broker, name: str) -> None:
    unknown = admin.describe_topics(TopicCollection([name]))
    assert refusal(lambda: result(unknown)).code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    reader = confluent.consumer(broker.bootstrap_servers, name, auto_offset_reset="earliest")
    with closing(reader):
        reader.subscribe([name])
        message = reader.poll(30)
        assert message is not None
        assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART, "a consumer creates nothing by itself"
    assert name not in admin.list_topics(timeout=30).topics
    assert produce(broker.bootstrap_servers, name, ["first"]) == [(0, 0)], "a producer does"
    assert list(admin.list_topics(name, timeout=30).topics[name].partitions) == [0]

    ids = []
    for _ in range(2):
        described = result(admin.describe_topics(TopicCollection([name])))
        assert [(one.id, one.leader.id) for one in described.partitions] == [(0, 1)]
        ids.append(str(described.topic_id))
        result(admin.delete_topics([name]))
        confluent.create_topics(broker.bootstrap_servers, {name: 1})
        assert produce(broker.bootstrap_servers, name, ["b"]) == [(0, 0)], "it starts at 0 again"
    assert len({*ids, "AAAAAAAAAAAAAAAAAAAAAA"}) == 3


def test_topics_with_kafka_python(python_admin: KafkaAdminClient, broker: Broker, name: str) -> None:
    (unknown,) = python_admin.describe_topics([name])
    assert unknown["error_code"] == kafka_errors.UnknownTopicOrPartitionError.errno
    told = python_admin.create_topics({name: {"num_partitions": 3, "configs": {"retention.ms": "123456"}}})
    (topic,) = told["topics"]
    assert (topic["num_partitions"], topic["replication_factor"]) == (3, 1)
    assert topic["configs"]["retention.ms"]["value"] == "123456"
    (described,) = python_admin.describe_topics([name])
    (by_id,) = python_admin.describe_topics([UUID(described["topic_id"])])
    assert by_id["name"] == name
    python_admin.delete_topics([name])
    python_admin.create_topics([name], wait_for_metadata=True)
    assert python_admin.describe_topics([name])[0]["topic_id"] != described["topic_id"]

    with closing(kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)) as consumer:
        assert consumer.partitions_for_topic(name) == {0}
        consumer.subscribe([name + "-consumed"])
        wait_for(lambda: consumer.poll(100) or consumer.assignment(), "a topic made for a consumer")
        assert name + "-consumed" in consumer.topics()


async def test_topics_with_aiokafka(broker: Broker, name: str) -> None:
    async with aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        assert name not in await consumer.topics()
        assert "__consumer_offsets" not in await consumer.topics(), "internal topics are not shown"
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        told = await producer.send_and_wait(name, b"first")
        assert (told.partition, told.offset) == (0, 0)
        assert await producer.partitions_for(name) == {0}


def test_the_cluster(admin: AdminClient, python_admin: KafkaAdminClient, broker: Broker) -> None:
    nodes = [(1, broker.host, broker.port)]
    described = admin.describe_cluster().result(30)
    assert [(node.id, node.host, node.port) for node in described.nodes] == nodes
    assert described.controller.id == 1
    assert len(described.cluster_id) == 22
    assert admin.list_topics(timeout=30).cluster_id == described.cluster_id
    assert admin.describe_cluster(include_authorized_operations=True).result(30).authorized_operations

    by_python = python_admin.describe_cluster()
    by_aiokafka = kit_of("aiokafka", broker.bootstrap_servers).administer(lambda client: client.describe_cluster())
    for told, node_id in ((by_python, "broker_id"), (by_aiokafka, "node_id")):
        assert (told["controller_id"], told["cluster_id"]) == (1, described.cluster_id)
        assert [(one[node_id], one["host"], one["port"]) for one in told["brokers"]] == nodes


def test_configs_with_confluent(admin: AdminClient, broker: Broker, name: str) -> None:
    confluent.create_topics(broker.bootstrap_servers, {name: 1}, retention_ms=123456)
    configs = result(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name)]))
    assert not configs["retention.ms"].is_default
    assert configs["max.message.bytes"].is_default
    missing = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, name + "-x")])
    assert refusal(lambda: result(missing)).code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_configs_with_kafka_python(python_admin: KafkaAdminClient, broker: Broker, name: str) -> None:
    confluent.create_topics(broker.bootstrap_servers, {name: 1}, retention_ms=123456)
    configs = python_admin.describe_configs([PythonResource("topic", name)])["topic"][name]
    assert {key: config["value"] for key, config in configs.items()} == {"retention.ms": "123456"}, "what differs"
    asked = [PythonResource("topic", name, ["cleanup.policy"])]
    configs = python_admin.describe_configs(asked, config_filter="all")["topic"][name]
    assert list(configs) == ["cleanup.policy"], "only what was asked"
    asked = [PythonResource("broker", "1")]
    assert python_admin.describe_configs(asked, config_filter="all", include_synonyms=True)["broker"]["1"]


# Offsets by time


@pytest.fixture
def timed(broker: Broker, name: str) -> list[int]:
    """The times of four records, of which the third is the youngest; partition 1 has none."""
    now = int(time.time() * 1000)
    times = [now - 5000, now - 4000, now - 1000, now - 3000]
    kit = kit_of("confluent", broker.bootstrap_servers)
    kit.create(name, 2)
    kit.produce(name, [Row(b"record %d" % at, timestamp_ms=when) for at, when in enumerate(times)], partition=0)
    return times


def test_offsets_with_confluent(admin: AdminClient, timed: list[int], broker: Broker, name: str) -> None:
    def offset(spec: OffsetSpec, partition: int = 0) -> int:
        found: int = result(admin.list_offsets({TopicPartition(name, partition): spec})).offset
        return found

    assert offset(OffsetSpec.max_timestamp()) == 2
    assert [offset(OffsetSpec.for_timestamp(when)) for when in timed] == [0, 1, 2, 2]
    assert offset(OffsetSpec.for_timestamp(timed[2] + 1)) == -1, "nothing is that young"
    assert (offset(OffsetSpec.earliest(), 1), offset(OffsetSpec.latest(), 1)) == (0, 0)
    assert offset(OffsetSpec.max_timestamp(), 1) == -1, "there is nothing in it"
    assert result(admin.delete_records([TopicPartition(name, 0, 3)])).low_watermark == 3
    assert confluent.watermarks(broker.bootstrap_servers, name) == (3, 4)
    with closing(confluent.consumer(broker.bootstrap_servers, name)) as consumer:
        (found,) = consumer.offsets_for_times([TopicPartition(name, 0, timed[3] - 500)], timeout=30)
        assert found.offset == 3


def test_offsets_with_kafka_python(python_admin: KafkaAdminClient, timed: list[int], broker: Broker, name: str) -> None:
    place, empty = Place(name, 0), Place(name, 1)

    def offset(spec: Any, where: Place = place) -> int:
        found: int = python_admin.list_partition_offsets({where: spec})[where].offset
        return found

    assert [offset(spec) for spec in (PythonSpec.EARLIEST, PythonSpec.LATEST, PythonSpec.MAX_TIMESTAMP)] == [0, 4, 2]
    assert [offset(spec, empty) for spec in (PythonSpec.EARLIEST, PythonSpec.LATEST)] == [0, 0]
    assert [offset(OffsetTimestamp(when)) for when in timed] == [0, 1, 2, 2]
    assert offset(OffsetTimestamp(timed[2] + 1)) == -1
    with closing(kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers)) as producer:
        assert producer.send(name, b"late", partition=0, timestamp_ms=timed[0]).get(30).timestamp == timed[0]
    assert python_admin.delete_records({place: 3})[place]["low_watermark"] == 3
    with closing(kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers)) as consumer:
        assert consumer.end_offsets([place, empty]) == {place: 5, empty: 0}
        assert consumer.offsets_for_times({place: timed[3] - 500})[place].offset == 3


async def test_offsets_with_aiokafka(timed: list[int], broker: Broker, name: str) -> None:
    place, empty = aiokafka.TopicPartition(name, 0), aiokafka.TopicPartition(name, 1)
    async with aiokafka.AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        assert await consumer.beginning_offsets([place, empty]) == {place: 0, empty: 0}
        assert await consumer.end_offsets([place, empty]) == {place: 4, empty: 0}
        assert [(await consumer.offsets_for_times({place: when}))[place].offset for when in timed] == [0, 1, 2, 2]
        assert (await consumer.offsets_for_times({place: timed[2] + 1}))[place] is None
        consumer.assign([place])
        consumer.seek(place, 3)
        record = await asyncio.wait_for(consumer.getone(), 30)
        assert (record.offset, record.value) == (3, b"record 3")
        assert consumer.highwater(place) == 4
        assert consumer.last_stable_offset(place) == 4


# Groups


def read_group(kind: str, cast: Cast, count: int = 10) -> Any:
    """The only member of a group, which has read and committed so many records of each of 2 partitions."""
    kit = kit_of(kind, cast.bootstrap)
    kit.create(cast.group, 2)
    known = [[f"{partition} {at}" for at in range(count)] for partition in range(2)]
    for partition, values in enumerate(known):
        kit.say(cast.group, values, partition=partition)
    one = cast.join(kind)
    cast.wait_seen_once([*known[0], *known[1]])
    one.commit()
    return one


def reads_again(kind: str, cast: Cast) -> None:
    """A member that comes finds what lies behind the offsets 5 and 0."""
    again = cast.join(kind)
    wanted = [f"0 {at}" for at in range(5, 10)] + [f"1 {at}" for at in range(10)]
    wait_for(lambda: len(again.seen) >= len(wanted), "what lies behind the new offsets", show=cast.describe)
    assert sorted(seen.value for seen in again.seen) == sorted(wanted)
    again.stop()


def test_groups_with_confluent(admin: AdminClient, cast: Cast, name: str) -> None:
    one = read_group("confluent", cast)

    def offsets(*places: TopicPartition) -> dict[int, int]:
        asked = ConsumerGroupTopicPartitions(name, list(places) or None)
        told = result(admin.list_consumer_group_offsets([asked]))
        return {place.partition: place.offset for place in told.topic_partitions}

    def alter(*places: TopicPartition) -> list[int | None]:
        told = result(admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(name, list(places))]))
        return [place.error and place.error.code() for place in told.topic_partitions]

    described = result(admin.describe_consumer_groups([name], include_authorized_operations=True))
    assert (described.state, described.partition_assignor) == (ConsumerGroupState.STABLE, "range")
    assert described.coordinator.id == 1
    assert described.authorized_operations
    (member,) = described.members
    assert (member.client_id, member.host) == (one.role.name, "/127.0.0.1")
    assert {(place.topic, place.partition) for place in member.assignment.topic_partitions} == one.owned

    def listed(**options: Any) -> dict[str, ConsumerGroupState]:
        return {group.group_id: group.state for group in admin.list_consumer_groups(**options).result(30).valid}

    assert listed()[name] == ConsumerGroupState.STABLE
    assert name in listed(states={ConsumerGroupState.STABLE})
    assert name not in listed(states={ConsumerGroupState.EMPTY})
    (legacy,) = admin.list_groups(name, timeout=30)
    assert (legacy.id, legacy.state, legacy.protocol_type) == (name, "Stable", "consumer")

    assert offsets() == {0: 10, 1: 10}
    assert alter(TopicPartition(name, 0, 5)) == [KafkaError.UNKNOWN_MEMBER_ID], "the group has members"
    one.stop()
    wait_for(lambda: listed()[name] == ConsumerGroupState.EMPTY, "the group to be empty")
    assert alter(TopicPartition(name, 0, 5, "a note"), TopicPartition(name, 1, 0)) == [None, None]
    assert offsets() == {0: 5, 1: 0}
    reads_again("confluent", cast)
    result(admin.delete_consumer_groups([name]))
    assert name not in listed()
    assert offsets(TopicPartition(name, 0)) == {0: -1001}


def test_groups_with_kafka_python(python_admin: KafkaAdminClient, cast: Cast, name: str) -> None:
    admin, one = python_admin, read_group("kafka-python", cast)
    left, right = Place(name, 0), Place(name, 1)

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
    one.stop()
    wait_for(lambda: listed()[name] == "Empty", "the group to be empty")
    assert admin.reset_group_offsets(name, {left: 5, right: PythonSpec.EARLIEST}) == {
        left: {"error": kafka_errors.NoError, "offset": 5},
        right: {"error": kafka_errors.NoError, "offset": 0},
    }
    assert offsets() == {0: 5, 1: 0}
    reads_again("kafka-python", cast)
    assert admin.delete_group_offsets(name, [left])[left] is kafka_errors.NoError
    assert offsets() == {1: 10}


def test_groups_with_aiokafka(broker: Broker, cast: Cast, name: str) -> None:
    one, kit = read_group("aiokafka", cast), kit_of("aiokafka", broker.bootstrap_servers)
    (answer,) = kit.administer(lambda admin: admin.describe_consumer_groups([name]))
    code, group, state, protocol_type, protocol, members = tuple(answer.groups[0])[:6]
    assert (code, group, state, protocol_type, protocol) == (0, name, "Stable", "consumer", "roundrobin")
    ((member_id, *_),) = members
    assert member_id.startswith(one.role.name)
    assert (name, "consumer") in kit.administer(lambda admin: admin.list_consumer_groups())
    assert kit.administer(lambda admin: admin.find_coordinator(name)) == 1
    assert kit.group_offsets(name) == {(name, 0): 10, (name, 1): 10}
    with pytest.raises(aiokafka.errors.CommitFailedError):
        kit.commit(name, {(name, 0): (5, "")})
    one.stop()
    wait_for(lambda: kit.describe(name)[0] == "Empty", "the group to be empty")
    kit.commit(name, {(name, 0): (5, "ünïcode"), (name, 1): (0, "")})
    assert kit.committed(name, (name, 0)) == (5, "ünïcode")
    reads_again("aiokafka", cast)


def test_a_member_is_removed(python_admin: KafkaAdminClient, cast: Cast, name: str) -> None:
    """An administrator removes a static member, which then is no longer heard (KIP-345)."""
    read_group("kafka-python", cast).stop()
    static = cast.join("kafka-python", instance_id="one")
    wait_for(lambda: len(static.owned) == 2, "the static member to be assigned", show=cast.describe)
    told = python_admin.remove_group_members(name, [MemberToRemove(group_instance_id="one", reason="a test")])
    assert list(told.values()) == [kafka_errors.NoError]
    told = python_admin.remove_group_members(name, [MemberToRemove(group_instance_id="nobody")])
    assert list(told.values()) == [kafka_errors.UnknownMemberIdError]
    wait_for(
        lambda: [change.kind for change in static.changes].count("assigned") == 2 and len(static.owned) == 2,
        "it to find out and join again",
        show=cast.describe,
    )


def test_notes_with_confluent(broker: Broker, name: str) -> None:
    confluent.create_topics(broker.bootstrap_servers, {name: 1})
    with closing(confluent.consumer(broker.bootstrap_servers, name)) as consumer:
        place = TopicPartition(name, 0, 7, "ünïcode", leader_epoch=0)
        (told,) = consumer.commit(offsets=[place], asynchronous=False)
        assert told.error is None
        (found,) = consumer.committed([TopicPartition(name, 0)], timeout=30)
        assert (found.offset, found.metadata, found.leader_epoch) == (7, "ünïcode", 0)
        large = [TopicPartition(name, 0, 8, "x" * 5000)]
        refused = refusal(lambda: consumer.commit(offsets=large, asynchronous=False))
        assert refused.code() == KafkaError.OFFSET_METADATA_TOO_LARGE


def test_notes_with_kafka_python(python_admin: KafkaAdminClient, broker: Broker, name: str) -> None:
    confluent.create_topics(broker.bootstrap_servers, {name: 1})
    place, noted = Place(name, 0), OffsetAndMetadata(7, "ünïcode", 0)
    with closing(kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=name)) as consumer:
        consumer.assign([place])
        consumer.commit({place: noted})
        assert consumer.committed(place, metadata=True) == noted
        assert python_admin.list_group_offsets([name])[name] == {place: noted}
        with pytest.raises(kafka_errors.OffsetMetadataTooLargeError):
            consumer.commit({place: OffsetAndMetadata(8, "x" * 5000, -1)})
