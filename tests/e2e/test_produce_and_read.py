"""Every client produces with every codec, with and without idempotence; what it produced reads the same everywhere."""

import asyncio
from collections.abc import Callable
from typing import Any

import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaTopicPartition

from ottla.protocol.compression import Codec
from ottla.testing import Broker
from tests.e2e import aiokafka_client, confluent_client, kafka_python_client, ottla_client
from tests.e2e.inside import stored_batches

pytestmark = pytest.mark.e2e

PRODUCE: dict[str, Callable[..., list[tuple[int, int]]]] = {
    "confluent": confluent_client.produce,
    "kafka-python": kafka_python_client.produce,
    "aiokafka": aiokafka_client.produce,
    "ottla": ottla_client.produce,
}
CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
PER_ROUND = 20

Row = tuple[int, str, str, list[tuple[str, bytes]]]
"""Offset, key, value, headers."""


def read_confluent(bootstrap: str, topic: str, end: int) -> list[Row]:
    return [
        (one.offset(), one.key().decode(), one.value().decode(), list(one.headers()))
        for one in confluent_client.read_all(bootstrap, topic, {0: end})[0]
    ]


def read_kafka_python(bootstrap: str, topic: str, end: int) -> list[Row]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=30_000
    )
    rows: list[Row] = []
    try:
        consumer.assign([kafka.TopicPartition(topic, 0)])
        for one in consumer:
            rows.append((one.offset, one.key.decode(), one.value.decode(), list(one.headers)))
            if one.offset + 1 >= end:
                break
    finally:
        consumer.close()
    return rows


def read_aiokafka(bootstrap: str, topic: str, end: int) -> list[Row]:
    async def work() -> list[Row]:
        rows: list[Row] = []
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([AiokafkaTopicPartition(topic, 0)])
            while len(rows) < end:
                one = await asyncio.wait_for(consumer.getone(), 30)
                rows.append((one.offset, one.key.decode(), one.value.decode(), list(one.headers)))
        return rows

    return aiokafka_client.run(work)


@pytest.mark.parametrize("kind", PRODUCE)
def test_codecs(kind: str, broker: Broker, name: str) -> None:
    confluent_client.create_topics(broker.bootstrap_servers, {name: 1})
    wanted: list[Row] = []
    rounds: list[tuple[Codec, bool]] = [(codec, idempotent) for codec in CODECS for idempotent in (True, False)]
    for codec, idempotent in rounds:
        values = [f"{codec.name} {idempotent} {number:03} " + "ottla " * 40 for number in range(PER_ROUND)]
        named: Any = codec.name.lower() if codec or kind == "confluent" else None
        acks = PRODUCE[kind](broker.bootstrap_servers, name, values, codec=named, idempotent=idempotent, partition=0)
        assert acks == [(0, len(wanted) + at) for at in range(PER_ROUND)]
        wanted += [(len(wanted) + at, value, value, [("by", kind.encode())]) for at, value in enumerate(values)]

    batches = stored_batches(broker, name)
    assert [(batch.codec, batch.producer_id >= 0) for batch in batches if batch.base_offset % PER_ROUND == 0] == rounds
    assert sum(batch.record_count for batch in batches) == len(wanted)

    for read in (read_confluent, read_kafka_python, read_aiokafka):
        assert read(broker.bootstrap_servers, name, len(wanted)) == wanted


@pytest.mark.parametrize("kind", PRODUCE)
@pytest.mark.parametrize("acks", [0, 1])
def test_acks(kind: str, acks: int, broker: Broker, name: str) -> None:
    confluent_client.create_topics(broker.bootstrap_servers, {name: 1})
    values = [f"value {number}" for number in range(50)]
    PRODUCE[kind](broker.bootstrap_servers, name, values, idempotent=False, partition=0, acks=acks)
    assert [row[2] for row in read_confluent(broker.bootstrap_servers, name, len(values))] == values


@pytest.mark.parametrize("kind", PRODUCE)
def test_a_batch_near_the_limit(kind: str, broker: Broker, name: str) -> None:
    """A record of nearly a megabyte is stored, and reaches consumers that ask for less at a time."""
    confluent_client.create_topics(broker.bootstrap_servers, {name: 1})
    values = ["x" * 490_000]  # as key and as value
    assert PRODUCE[kind](broker.bootstrap_servers, name, values, idempotent=True, partition=0) == [(0, 0)]
    for read in (read_confluent, read_kafka_python, read_aiokafka):
        assert [row[2] for row in read(broker.bootstrap_servers, name, 1)] == values
