"""Transactions with the stock clients: nothing of an aborted or open one is read, everything of a committed one is."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer, TopicPartition

from ottla.testing import Broker, BrokerProcess
from tests.e2e.inside import Staged, refusal
from tests.interop.python.harness import Scenario
from tests.interop.python.transactions import SCENARIOS
from tests.support.clients import confluent
from tests.support.kit import KINDS

pytestmark = pytest.mark.e2e

PATIENCE_S = 30


def producer(broker: Broker | BrokerProcess, transactional_id: str, **options: object) -> Producer:
    """A producer whose transactions are initialised."""
    return confluent.producer(broker.bootstrap_servers, transactional_id, **options)


def read(broker: Broker | BrokerProcess, topic: str) -> list[str]:
    """Everything in partition 0 that a reader of committed records is shown."""
    found = confluent.read_all(broker.bootstrap_servers, topic, isolation_level="read_committed")[0]
    return [message.value().decode() for message in found]


def send(made: Producer, topic: str, *values: str) -> None:
    for value in values:
        made.produce(topic, value.encode(), partition=0)


def begin(made: Producer, topic: str, value: str) -> None:
    """Begin a transaction with a record that is at the broker."""
    made.begin_transaction()
    send(made, topic, value)
    made.flush(PATIENCE_S)


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("scenario", [scenario for _, scenario in SCENARIOS], ids=lambda scenario: scenario.__name__)
def test_a_scenario(scenario: Scenario, kind: str, broker: Broker, name: str) -> None:
    Staged(kind, broker, name).play(scenario)


def test_the_error_of_a_producer_that_is_fenced_is_fatal(broker: Broker, name: str) -> None:
    """The shared scenario takes any error of the client's own; librdkafka must say that this producer cannot go on."""
    first = producer(broker, name)
    begin(first, name, "old")
    producer(broker, name)
    error = refusal(lambda: first.commit_transaction(PATIENCE_S))
    assert error.fatal()
    assert error.code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


def test_a_transaction_that_takes_too_long(name: str) -> None:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}
    with Broker(settings) as broker:
        made = producer(broker, name, transaction_timeout_ms=1_000)
        begin(made, name, "late")
        assert read(broker, name) == []
        time.sleep(1.5)
        error = refusal(lambda: made.commit_transaction(PATIENCE_S))
        assert error.fatal() or error.txn_requires_abort()
        other = producer(broker, name)
        begin(other, name, "next")
        other.commit_transaction(PATIENCE_S)
        assert read(broker, name) == ["next"]


def test_offsets_are_part_of_the_transaction(broker: Broker, name: str) -> None:
    source, sink, group = f"{name}-source", f"{name}-sink", f"{name}-group"
    plain = confluent.producer(broker.bootstrap_servers)
    send(plain, source, *"abcdef")
    plain.flush(PATIENCE_S)
    made = producer(broker, name)
    consumer = confluent.consumer(broker.bootstrap_servers, group, auto_offset_reset="earliest")
    consumer.subscribe([source])
    commits = []
    while sum(commits) < 3:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert not message.error()
        made.begin_transaction()
        send(made, sink, message.value().decode().upper())
        places = [TopicPartition(source, 0, message.offset() + 1)]
        made.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), PATIENCE_S)
        commits.append(len(commits) % 2 == 0)
        if commits[-1]:
            made.commit_transaction(PATIENCE_S)
        else:
            made.abort_transaction(PATIENCE_S)
    (place,) = consumer.committed([TopicPartition(source, 0)], PATIENCE_S)
    consumer.close()
    assert place.offset == 5
    assert read(broker, sink) == ["A", "C", "E"]


@pytest.mark.parametrize("decided", [False, True])
def test_a_broker_that_is_killed(tmp_path: Path, name: str, decided: bool) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        made = producer(broker, name)
        begin(made, name, "before")
        if decided:
            made.commit_transaction(PATIENCE_S)
        broker.kill()
        broker.start()
        if not decided:
            send(made, name, "after")
            made.commit_transaction(PATIENCE_S)
        assert read(broker, name) == (["before"] if decided else ["before", "after"])
        begin(made, name, "next")
        made.commit_transaction(PATIENCE_S)
        assert read(broker, name)[-1] == "next"
