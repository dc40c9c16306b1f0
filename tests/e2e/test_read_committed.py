"""Readers of committed records, of the stock clients: nothing aborted or open, everything committed, in order."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonTopicPartition
from kafka.admin import AbortTransactionSpec

from ottla.testing import Broker, BrokerProcess
from tests.support.clients import confluent
from tests.support.clients.confluent import producer
from tests.support.kit import KINDS, kit_of
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

PATIENCE_S = 30
SMALL_FETCH = 600
"""Bytes: the transactions of these tests are spread over many fetches, each with a list of its own."""

Read = Callable[[str, str, int], list[bytes | None]]
"""Bootstrap servers, topic, how many records: the first ones of partition 0, or as many as come in a while."""


def confluent_read(servers: str, topic: str, count: int) -> list[bytes | None]:
    def enough() -> list[list[bytes | None]]:
        options = {"isolation_level": "read_committed", "max_partition_fetch_bytes": SMALL_FETCH}
        found = [message.value() for message in confluent.read_all(servers, topic, **options)[0]]
        return [found] if len(found) >= count else []

    return wait_for(enough, f"{count} records", timeout_s=PATIENCE_S)[0]


def reader(kind: str) -> Read:
    """A stock client as a reader; one in pure Python is not told of the end, so nothing more may come for a while."""
    if kind == "confluent":
        return confluent_read

    def read(servers: str, topic: str, count: int) -> list[bytes | None]:
        options = {"quiet_s": 1.0, "patience_s": PATIENCE_S, "max_partition_fetch_bytes": SMALL_FETCH}
        found = kit_of(kind, servers).read({(topic, 0): 0}, count, committed=True, **options)
        return [row.value for row in found]

    return read


READERS = pytest.mark.parametrize("read", [reader(kind) for kind in KINDS[:3]], ids=KINDS[:3])


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
    options = {"isolation_level": "read_committed", "fetch_wait_max_ms": 20_000, "fetch_min_bytes": 70}
    with closing(confluent.consumer(servers, name, **options)) as consumer:
        consumer.assign([TopicPartition(name, 0, 0)])
        assert consumer.poll(1.5) is None
        began = time.monotonic()
        writer.commit_transaction(PATIENCE_S)
        message = consumer.poll(PATIENCE_S)
        assert message is not None and message.error() is None and message.value() == b"late"
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("orderly", [True, False], ids=["stopped", "killed"])
def test_after_the_broker_comes_back(tmp_path: Path, name: str, orderly: bool) -> None:
    with BrokerProcess(tmp_path) as broker:
        wanted = tangle(broker.bootstrap_servers, name, 6)
        writer = producer(broker.bootstrap_servers, f"{name}-open")
        writer.begin_transaction()
        say(writer, name, "open")
        if orderly:
            broker.stop()
        else:
            broker.kill()
        broker.start()
        assert list((tmp_path / "producers").glob("*.snapshot")) != [] or not orderly
        for kind in KINDS[:3]:
            assert reader(kind)(broker.bootstrap_servers, name, len(wanted)) == wanted


def test_an_administrator_ends_a_hanging_transaction(broker: Broker, name: str) -> None:
    servers = broker.bootstrap_servers
    writer = producer(servers, name)
    writer.begin_transaction()
    say(writer, name, "hanging")
    say(producer(servers), name, "after")
    assert confluent_read(servers, name, 0) == []
    partition = PythonTopicPartition(name, 0)
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        states = admin.describe_producers([partition])[partition].active_producers
        (hanging,) = [state for state in states if state.current_transaction_start_offset == 0]
        assert hanging.last_sequence == 0
        admin.abort_transaction(AbortTransactionSpec(partition, hanging.producer_id, hanging.producer_epoch))
        states = admin.describe_producers([partition])[partition].active_producers
        assert all(state.current_transaction_start_offset == -1 for state in states)
    assert confluent_read(servers, name, 1) == [b"after"]
