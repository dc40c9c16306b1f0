"""`ottla serve --cluster` as processes over a real PostgreSQL: nodes without state, which take over from each other."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest
from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer

from examples.cluster.postgresql import USER, PostgresServer, programs
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.testing.process import BrokerProcess
from tests.support.client import Client
from tests.support.postgresql import running_server
from tests.support.requests import list_offsets_fields, request
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(programs() is None, reason="there is no PostgreSQL on this machine: install it"),
]

SHARDS = 6
GROUP = "billing"
TOPIC = "orders"
PASSWORD = "top-secret"
# kafka-python may join before it knows the partitions of its topics: a group that waits a moment lets it learn of them.
SETTINGS = {"offsets.topic.num.partitions": SHARDS, "group.initial.rebalance.delay.ms": 1000}
FAILOVER_S = 3.0
"""A lease lasts so long; a takeover by the end of a connection must not wait for it."""


class NodeProcess(BrokerProcess):
    """A node of a cluster over a database."""

    def __init__(self, url: str, node_id: int) -> None:
        super().__init__(settings={**SETTINGS, "node.id": node_id}, topics={TOPIC: 6}, arguments=("--cluster", url))

    def command(self) -> list[str]:
        return [word for word in super().command() if word != "--ephemeral"]


class Rebalances(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.assigned = 0

    def on_partitions_revoked(self, revoked) -> None:
        pass

    def on_partitions_assigned(self, assigned) -> None:
        self.assigned += 1


class Orders:
    """A producer that goes on as long as it is in the ``with`` block; ``acknowledged`` are the values that are safe."""

    def __init__(self, bootstrap: list[str]) -> None:
        self.acknowledged: list[int] = []
        self._producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", max_in_flight_requests_per_connection=1)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def _go_on(self) -> None:
        number = 0
        while not self._ends.wait(0.002):
            sent = self._producer.send(TOPIC, str(number).encode(), partition=number % 6)
            sent.add_callback(lambda _, acknowledged=number: self.acknowledged.append(acknowledged))
            number += 1

    def __enter__(self) -> "Orders":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._thread.join()
        self._producer.flush(60)
        self._producer.close()


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


def url_of(server: PostgresServer) -> str:
    return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{server.port}/postgres"


@pytest.fixture
def nodes(server: PostgresServer) -> Iterator[dict[int, NodeProcess]]:
    nodes = {node_id: NodeProcess(url_of(server), node_id) for node_id in (1, 2, 3)}
    try:
        for node in nodes.values():
            node.start()
        yield nodes
    finally:
        for node in nodes.values():
            node.stop()


def leaders(admin: KafkaAdminClient, topic: str) -> dict[int, int]:
    (found,) = admin.describe_topics([topic])
    return {place["partition_index"]: place["leader_id"] for place in found["partitions"]}


def test_a_group_goes_on_when_its_coordinator_is_killed(nodes, record_property) -> None:
    bootstrap = [node.bootstrap_servers for node in nodes.values()]
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    # New nodes take their share once the set of nodes has been the same for ten seconds.
    wait_for(
        lambda: {*leaders(admin, TOPIC).values()} == {1, 2, 3} == {*leaders(admin, "__consumer_offsets").values()},
        "every node to lead its share",
        timeout_s=60,
    )
    rebalances = Rebalances()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=GROUP, auto_offset_reset="earliest", enable_auto_commit=False
    )
    consumer.subscribe([TOPIC], listener=rebalances)
    read: set[int] = set()

    def poll() -> None:
        for records in consumer.poll(100).values():
            read.update(int(record.value) for record in records)

    with Orders(bootstrap) as orders:
        wait_for(lambda: poll() or len(read) > 100, "records", timeout_s=60)
        consumer.commit()
        coordinator = leaders(admin, "__consumer_offsets")[coordinator_partition(GROUP, SHARDS)]
        assigned = rebalances.assigned
        nodes.pop(coordinator).kill()
        killed_s = time.monotonic()
        poll()
        consumer.commit()
        failover_s = time.monotonic() - killed_s
        after = len(read)
        wait_for(lambda: poll() or len(read) > after + 100, "records after the takeover", timeout_s=60)
    wait_for(lambda: poll() or read.issuperset(orders.acknowledged), "everything acknowledged", timeout_s=60)
    consumer.commit()
    record_property("failover_s", failover_s)
    print(f"commits were answered again after {failover_s:.3f} s")
    assert failover_s < FAILOVER_S
    assert rebalances.assigned == assigned
    assert not [line for node in nodes.values() for line in node.log_text().splitlines() if "rebalance" in line]
    assert all(consumer.committed(tp) == consumer.position(tp) for tp in consumer.assignment())
    consumer.close()
    admin.close()


def test_a_node_that_is_told_to_stop_hands_over_and_one_that_is_started_again_finds_everything(nodes) -> None:
    bootstrap = [node.bootstrap_servers for node in nodes.values()]
    with Orders(bootstrap) as orders:
        wait_for(lambda: len(orders.acknowledged) > 50, "acknowledged records", timeout_s=60)
        assert nodes[1].stop() == 0
        before = len(orders.acknowledged)
        wait_for(lambda: len(orders.acknowledged) > before + 50, "records at the others", timeout_s=60)
    for node in (nodes[2], nodes[3]):
        node.kill()
    node = nodes[1].start()
    consumer = KafkaConsumer(TOPIC, bootstrap_servers=node.bootstrap_servers, auto_offset_reset="earliest")
    read: list[int] = []

    def poll() -> bool:
        for records in consumer.poll(100).values():
            read.extend(int(record.value) for record in records)
        return set(orders.acknowledged).issubset(read)

    wait_for(poll, "everything acknowledged", timeout_s=60)
    consumer.close()


def test_a_node_goes_on_when_its_database_is_back(server) -> None:
    with NodeProcess(url_of(server), 1) as node:
        producer = KafkaProducer(bootstrap_servers=node.bootstrap_servers, acks="all")
        first = producer.send(TOPIC, b"before", partition=0).get(30)
        server.crash()
        sent = producer.send(TOPIC, b"while it was away", partition=0)
        server.start()
        assert sent.get(60).offset == first.offset + 1
        producer.close()


def test_a_node_that_stood_still_shows_nothing_of_what_others_lead_by_now(nodes) -> None:
    ends = request(ApiKey.LIST_OFFSETS, list_offsets_fields(TOPIC, -1, 0))
    with Client(port_of(nodes[1])) as client, Client(port_of(nodes[2])) as other:

        def leader() -> int:
            (topic,) = other.call(ApiKey.METADATA, 8, topics=[{"name": TOPIC}]).topics
            return next(one.leader_id for one in topic.partitions if one.partition_index == 0)

        wait_for(lambda: leader() == 1, "partition 0 at its home", timeout_s=60)
        assert client.ask(ApiKey.LIST_OFFSETS, 5, ends).topics[0].partitions[0].error_code == ErrorCode.NONE
        os.kill(nodes[1].pid, signal.SIGSTOP)
        try:
            client.send(ApiKey.LIST_OFFSETS, 5, ends)
            wait_for(lambda: leader() in (2, 3), "another leader", timeout_s=60)
        finally:
            os.kill(nodes[1].pid, signal.SIGCONT)
        assert client.answer().topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def port_of(node: NodeProcess) -> int:
    return int(node.bootstrap_servers.rpartition(":")[2])


def test_an_id_is_one_process_and_the_one_that_lost_it_ends(nodes, server) -> None:
    twice = NodeProcess(url_of(server), 2)
    with pytest.raises(RuntimeError, match="node 2 is alive at "):
        twice.start()
    os.kill(nodes[2].pid, signal.SIGSTOP)
    try:
        with twice:
            os.kill(nodes[2].pid, signal.SIGCONT)
            wait_for(lambda: "another process has the id of this node" in nodes[2].log_text(), "the end of the first")
            assert nodes[2].stop() == 75
    finally:
        nodes[2].kill()


def test_what_the_log_shows_has_no_password(server) -> None:
    with NodeProcess(url_of(server), 1) as node:
        shown = f"postgresql://{USER}@127.0.0.1:{server.port}/postgres"
        wait_for(lambda: shown in node.log_text(), "the line that names the database", show=node.log_text)
        assert PASSWORD not in node.log_text()


def refusal(*arguments: str) -> str:
    """What is said of a start that is refused."""
    command = [*BrokerProcess(settings={"node.id": 1}).command(), *arguments]
    command.remove("--ephemeral")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 2)
    return done.stderr


def test_a_database_that_cannot_be_reached_is_named_without_its_password() -> None:
    said = refusal("--cluster", f"postgresql://me:{PASSWORD}@127.0.0.1:1/logs")
    assert "the cluster cannot be joined: postgresql://me@127.0.0.1:1/logs: " in said
    assert PASSWORD not in said
