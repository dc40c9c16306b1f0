"""What aiokafka's AIOKafkaAdminClient and AIOKafkaConsumer can ask of a broker."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiokafka.errors
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, OffsetAndMetadata, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from ottla.testing import Broker
from tests.support.cast import Cast
from tests.support.kit import produce

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio]


@asynccontextmanager
async def admin_of(broker: Broker) -> Any:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


async def until(condition: Callable[[], Awaitable[object]], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not await condition():
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        await asyncio.sleep(0.02)


def codes(answer: Any) -> list[int]:
    return [code for _, code, *_ in answer.topic_errors]


async def test_topics_are_created_grown_and_deleted(broker: Broker, name: str) -> None:
    async with admin_of(broker) as admin:
        created = await admin.create_topics([NewTopic(name, 3, 1, topic_configs={"retention.ms": "123456"})])
        assert codes(created) == [0]
        assert codes(await admin.create_topics([NewTopic(name, 3, 1)])) == [
            aiokafka.errors.TopicAlreadyExistsError.errno
        ]
        refused = await admin.create_topics([NewTopic("no/slash", 1, 1), NewTopic(name + "-x", 1, 3)])
        assert codes(refused) == [17, 38]
        assert codes(await admin.create_topics([NewTopic(name + "-x", 1, 1)], validate_only=True)) == [0]
        assert name in await admin.list_topics()
        assert name + "-x" not in await admin.list_topics()

        (described,) = await admin.describe_topics([name])
        assert sorted(one["partition"] for one in described["partitions"]) == [0, 1, 2]
        assert {one["leader"] for one in described["partitions"]} == {1}
        await admin.create_partitions({name: NewPartitions(5)})
        (described,) = await admin.describe_topics([name])
        assert len(described["partitions"]) == 5
        with pytest.raises(aiokafka.errors.InvalidPartitionsError):
            await admin.create_partitions({name: NewPartitions(4)})

        told = await admin.delete_topics([name])
        assert [code for _, code in told.topic_error_codes] == [0]
        assert name not in await admin.list_topics()


async def test_cluster_and_configs(broker: Broker, name: str) -> None:
    async with admin_of(broker) as admin:
        described = await admin.describe_cluster()
        assert [(one["node_id"], one["host"], one["port"]) for one in described["brokers"]] == [
            (1, broker.host, broker.port)
        ]
        assert (described["controller_id"], len(described["cluster_id"])) == (1, 22)

        await admin.create_topics([NewTopic(name, 1, 1, topic_configs={"retention.ms": "123456"})])
        asked = [ConfigResource(ConfigResourceType.TOPIC, name), ConfigResource(ConfigResourceType.BROKER, "1")]
        values: dict[str, dict[str, str]] = {}
        for answer in await admin.describe_configs(asked):
            for code, _, _, resource, entries in answer.resources:
                assert code == 0
                values[resource] = {key: value for key, value, *_ in entries}
        assert values[name]["retention.ms"] == "123456"
        assert values["1"]["group.min.session.timeout.ms"] == "6000"


async def test_offsets_by_time_and_deleted_records(broker: Broker, name: str) -> None:
    place, empty = TopicPartition(name, 0), TopicPartition(name, 1)
    now = int(time.time() * 1000)
    times = [now - 5000, now - 4000, now - 1000, now - 3000]
    async with admin_of(broker) as admin:
        await admin.create_topics([NewTopic(name, 2, 1)])
        async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=50) as producer:
            for at, timestamp in enumerate(times):
                await producer.send(name, f"record {at}".encode(), partition=0, timestamp_ms=timestamp)
        async with AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            assert await consumer.beginning_offsets([place, empty]) == {place: 0, empty: 0}
            assert await consumer.end_offsets([place, empty]) == {place: 4, empty: 0}
            found = [(await consumer.offsets_for_times({place: timestamp}))[place].offset for timestamp in times]
            assert found == [0, 1, 2, 2]
            assert (await consumer.offsets_for_times({place: now}))[place] is None

            assert await admin.delete_records({place: RecordsToDelete(3)}) == {place: 3}
            with pytest.raises(aiokafka.errors.OffsetOutOfRangeError):
                await admin.delete_records({place: RecordsToDelete(9)})
            assert await consumer.beginning_offsets([place]) == {place: 3}
            consumer.assign([place])
            consumer.seek(place, 0)
            record = await asyncio.wait_for(consumer.getone(), 30)
            assert (record.offset, record.value) == (3, b"record 3"), "0 is out of range: reset to the earliest"
            assert consumer.highwater(place) == 4
            assert consumer.last_stable_offset(place) == 4
        assert await admin.delete_records({place: RecordsToDelete(-1)}) == {place: 4}


async def test_unknown_topics_and_auto_creation(broker: Broker, name: str) -> None:
    async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers) as consumer:
        assert name not in await consumer.topics()
        assert "__consumer_offsets" not in await consumer.topics(), "internal topics are not shown"
    async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        told = await producer.send_and_wait(name, b"first")
        assert (told.partition, told.offset) == (0, 0)
        assert await producer.partitions_for(name) == {0}
    async with admin_of(broker) as admin:
        assert name in await admin.list_topics()


async def test_groups(broker: Broker, cast: Cast, name: str) -> None:
    left, right = TopicPartition(name, 0), TopicPartition(name, 1)
    async with admin_of(broker) as admin:
        await admin.create_topics([NewTopic(name, 2, 1)])
        for partition in range(2):
            values = [f"{partition} {at}" for at in range(10)]
            options = {"kind": "aiokafka", "partition": partition}
            await asyncio.to_thread(produce, broker.bootstrap_servers, name, values, **options)
        one = cast.join("aiokafka")
        await asyncio.to_thread(
            cast.wait_seen_once, [f"{partition} {at}" for partition in range(2) for at in range(10)]
        )
        await asyncio.to_thread(one.commit)

        async def offsets() -> dict[TopicPartition, int]:
            return {place: told.offset for place, told in (await admin.list_consumer_group_offsets(name)).items()}

        async def describe() -> tuple[int, str, str, str, str, list[Any]]:
            (answer,) = await admin.describe_consumer_groups([name])
            (group,) = answer.groups
            return tuple(group)[:6]

        code, group, state, protocol_type, protocol, members = await describe()
        assert (code, group, state, protocol_type, protocol) == (0, name, "Stable", "consumer", "roundrobin")
        ((member_id, *_),) = members
        assert member_id.startswith(one.role.name)
        assert (name, "consumer") in await admin.list_consumer_groups()
        assert await admin.find_coordinator(name) == 1
        assert await offsets() == {left: 10, right: 10}

        async with AIOKafkaConsumer(bootstrap_servers=broker.bootstrap_servers, group_id=name) as outsider:
            outsider.assign([left])
            with pytest.raises(aiokafka.errors.CommitFailedError):
                await outsider.commit({left: 5})
        await asyncio.to_thread(one.stop)

        async def empty() -> bool:
            return (await describe())[2] == "Empty"

        await until(empty, "the group to be empty")
        async with AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers, group_id=name, enable_auto_commit=False
        ) as resetter:
            resetter.assign([left, right])
            await resetter.commit({left: OffsetAndMetadata(5, "ünïcode"), right: 0})
            assert await resetter.committed(left) == 5
        assert (await admin.list_consumer_group_offsets(name, partitions=[left]))[left].metadata == "ünïcode"
        again = cast.join("aiokafka")
        wanted = [f"0 {at}" for at in range(5, 10)] + [f"1 {at}" for at in range(10)]

        async def caught_up() -> bool:
            return len(again.seen) >= len(wanted)

        await until(caught_up, "what lies behind the new offsets")
        assert sorted(seen.value for seen in again.seen) == sorted(wanted)
