"""Readers of committed records, of the stock clients: nothing aborted or open, everything committed, in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaAdminClient, KafkaConsumer
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import AbortTransactionSpec

from ottla.testing import Broker, BrokerProcess
from tests.e2e.confluent_client import QUIET

pytestmark = pytest.mark.e2e

PATIENCE_S = 30
SMALL_FETCH = 600
"""Bytes: the transactions of these tests are spread over many fetches, each with a list of its own."""

Read = Callable[[str, str, int], list[bytes]]
"""Bootstrap servers, topic, how many records: the first ones of partition 0, or as many as come in a while."""


def confluent_read(servers: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"{topic}-confluent",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.message.max.bytes": SMALL_FETCH,
        }
        | QUIET
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                if len(found) >= count:
                    return found
                continue
            found.append(message.value())
    finally:
        consumer.close()
    return found


def kafka_python_read(servers: str, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        max_partition_fetch_bytes=SMALL_FETCH,
    )
    partition = PythonTopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    quiet = 0
    try:
        while time.monotonic() < deadline and quiet < 3:
            polled = consumer.poll(timeout_ms=300)
            found += [record.value for records in polled.values() for record in records]
            quiet = quiet + 1 if not polled and len(found) >= count else 0
    finally:
        consumer.close()
    return found


def aiokafka_read(servers: str, topic: str, count: int) -> list[bytes]:
    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_partition_fetch_bytes=SMALL_FETCH,
        )
        partition = AioTopicPartition(topic, 0)
        await consumer.start()
        found: list[bytes] = []
        try:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            deadline = time.monotonic() + PATIENCE_S
            quiet = 0
            while time.monotonic() < deadline and quiet < 3:
                polled = await consumer.getmany(timeout_ms=300)
                found += [record.value for records in polled.values() for record in records]
                quiet = quiet + 1 if not polled and len(found) >= count else 0
        finally:
            await consumer.stop()
        return found

    return asyncio.run(read())


READERS = pytest.mark.parametrize("read", [confluent_read, kafka_python_read, aiokafka_read])


def producer(servers: str, transactional_id: str | None = None) -> Producer:
    options: dict[str, object] = {"bootstrap.servers": servers, "linger.ms": 0} | QUIET
    if transactional_id is None:
        return Producer(options)
    made = Producer(options | {"transactional.id": transactional_id})
    made.init_transactions(PATIENCE_S)
    return made


def say(writer: Producer, topic: str, *values: str) -> None:
    for value in values:
        writer.produce(topic, value.encode(), partition=0)
        assert not writer.flush(PATIENCE_S)


def tangle(servers: str, topic: str, rounds: int = 12) -> list[bytes]:
    """Two transactional producers and a plain one in each other's way; what readers are to see, in its order."""
    first, second, plain = producer(servers, f"{topic}-1"), producer(servers, f"{topic}-2"), producer(servers)
    seen: list[bytes] = []
    for number in range(rounds):
        writers = [(first, "a", number % 3 != 0), (second, "b", number % 4 != 1)]
        for writer, _, _ in writers:
            writer.begin_transaction()
        for part in range(3):
            for writer, name, commits in writers:
                value = f"{name}{number}.{part}"
                say(writer, topic, value)
                seen += [value.encode()] if commits else []
            say(plain, topic, f"p{number}.{part}")
            seen.append(f"p{number}.{part}".encode())
        for writer, _, commits in writers if number % 2 else reversed(writers):
            (writer.commit_transaction if commits else writer.abort_transaction)(PATIENCE_S)
    return seen


@READERS
def test_a_tangle_of_transactions(broker: Broker, name: str, read: Read) -> None:
    wanted = tangle(broker.bootstrap_servers, name)
    assert read(broker.bootstrap_servers, name, len(wanted)) == wanted


@READERS
def test_an_open_transaction_hides_what_follows_it(broker: Broker, name: str, read: Read) -> None:
    servers = broker.bootstrap_servers
    plain, writer = producer(servers), producer(servers, name)
    say(plain, name, "before")
    writer.begin_transaction()
    say(writer, name, "in")
    say(plain, name, "after")
    assert read(servers, name, 1) == [b"before"]
    writer.commit_transaction(PATIENCE_S)
    assert read(servers, name, 3) == [b"before", b"in", b"after"]


def test_a_reader_that_waits_is_shown_the_transaction_when_it_commits(broker: Broker, name: str) -> None:
    servers = broker.bootstrap_servers
    writer = producer(servers, name)
    writer.begin_transaction()
    say(writer, name, "late")
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": name,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 20_000,
            "fetch.min.bytes": 70,
        }
        | QUIET
    )
    try:
        consumer.assign([TopicPartition(name, 0, 0)])
        assert consumer.poll(1.5) is None
        began = time.monotonic()
        writer.commit_transaction(PATIENCE_S)
        message = consumer.poll(PATIENCE_S)
        assert message is not None and message.error() is None and message.value() == b"late"
        assert time.monotonic() - began < 5
    finally:
        consumer.close()


@pytest.mark.parametrize("orderly", [True, False], ids=["stopped", "killed"])
def test_after_the_broker_comes_back(tmp_path: Path, name: str, orderly: bool) -> None:
    with BrokerProcess(tmp_path) as broker:
        wanted = tangle(broker.bootstrap_servers, name, 6)
        writer = producer(broker.bootstrap_servers, f"{name}-open")
        writer.begin_transaction()
        say(writer, name, "open")
        if orderly:
            broker.stop()
            broker.start()
        else:
            broker.kill()
            broker.start()
        assert list((tmp_path / "producers").glob("*.snapshot")) != [] or not orderly
        for read in (confluent_read, kafka_python_read, aiokafka_read):
            assert read(broker.bootstrap_servers, name, len(wanted)) == wanted


def test_an_administrator_ends_a_hanging_transaction(broker: Broker, name: str) -> None:
    servers = broker.bootstrap_servers
    writer = producer(servers, name)
    writer.begin_transaction()
    say(writer, name, "hanging")
    say(producer(servers), name, "after")
    assert confluent_read(servers, name, 0) == []
    partition = PythonTopicPartition(name, 0)
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        states = admin.describe_producers([partition])[partition].active_producers
        (hanging,) = [state for state in states if state.current_transaction_start_offset == 0]
        assert hanging.last_sequence == 0
        admin.abort_transaction(AbortTransactionSpec(partition, hanging.producer_id, hanging.producer_epoch))
        states = admin.describe_producers([partition])[partition].active_producers
        assert all(state.current_transaction_start_offset == -1 for state in states)
    finally:
        admin.close()
    assert confluent_read(servers, name, 1) == [b"after"]
