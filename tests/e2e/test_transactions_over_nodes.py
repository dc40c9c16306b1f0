"""Transactions of which the coordinator, the partitions and the group are at different nodes, with access rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.nodes import Nodes
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

RULES = (
    "--set", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "--set", "super.users=User:ANONYMOUS",
)  # fmt: skip
"""Everybody may do everything, but nodes, who are ``Node:1`` and so on, only what their own rule says."""


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    with Nodes(tmp_path / "data", 3, "--create-topic", "orders:6", *RULES) as started:
        yield started


def producer(nodes: Nodes, name: str) -> Producer:
    config = {
        "bootstrap.servers": nodes.process.bootstrap_servers,
        "transactional.id": name,
        "transaction.timeout.ms": 60_000,
    }
    made = Producer(config)
    made.init_transactions(30)
    return made


def send(one: Producer, text: str) -> None:
    for partition in range(6):
        one.produce("orders", f"{text} {partition}", partition=partition)
    one.flush(30)


def committed_texts(nodes: Nodes, count: int) -> list[str]:
    """So many records at least, of committed transactions, of all partitions."""
    config = {
        "bootstrap.servers": nodes.process.bootstrap_servers, "group.id": "reader", "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
    }  # fmt: skip
    consumer = Consumer(config)
    consumer.assign([TopicPartition("orders", partition, 0) for partition in range(6)])
    found: list[str] = []

    def read() -> bool:
        for message in consumer.consume(100, timeout=0.2):
            assert not message.error(), message.error()
            found.append((message.value() or b"").decode())
        return len(found) >= count

    try:
        wait_for(read, f"{count} records", show=lambda: found)
    finally:
        consumer.close()
    return sorted(found)


@pytest.mark.parametrize("name", ["a", "b", "c", "d"])
def test_commit_and_abort(nodes: Nodes, name: str) -> None:
    """Each id has its coordinator somewhere else."""
    one = producer(nodes, name)
    one.begin_transaction()
    send(one, "given up")
    one.abort_transaction(30)
    one.begin_transaction()
    send(one, "kept")
    reader = Consumer({"bootstrap.servers": nodes.process.bootstrap_servers, "group.id": f"group of {name}"})
    one.send_offsets_to_transaction([TopicPartition("orders", 0, 1)], reader.consumer_group_metadata(), 30)
    one.commit_transaction(30)
    assert committed_texts(nodes, 6) == [f"kept {partition}" for partition in range(6)]
    (place,) = reader.committed([TopicPartition("orders", 0)], timeout=30)
    assert place.offset == 1
    reader.close()


def test_a_node_dies_amid_a_transaction(nodes: Nodes) -> None:
    one = producer(nodes, "pen")
    one.begin_transaction()
    send(one, "kept")
    before = nodes.node(2)
    nodes.signal(2)
    one.commit_transaction(60)  # its markers come to that node when it is back
    nodes.wait_up(2, after=before)
    assert committed_texts(nodes, 6) == [f"kept {partition}" for partition in range(6)]
    assert "does not let this one" not in nodes.process.log_text()
