"""What operators say to nodes that share a real PostgreSQL: drain, resume, move, balance, remove, history, status."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaProducer

from examples.cluster.postgresql import USER, PostgresServer, new_directory, programs
from ottla.testing.process import BrokerProcess
from tests.cli.commands import Ottla
from tests.support.waiting import wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(programs() is None, reason="there is no PostgreSQL on this machine: install it"),
]

TOPIC = "orders"
PARTITIONS, SHARDS = 6, 3


class NodeProcess(BrokerProcess):
    """A node of a cluster over a database."""

    def __init__(self, url: str, node_id: int) -> None:
        settings = {"offsets.topic.num.partitions": SHARDS, "node.id": node_id}
        super().__init__(settings=settings, topics={TOPIC: PARTITIONS}, arguments=("--cluster", url))

    def command(self) -> list[str]:
        return [word for word in super().command() if word != "--ephemeral"]


class Operator:
    """Commands against the cluster; the nodes are its processes."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.url = url = f"postgresql://{USER}@127.0.0.1:{server.port}/postgres"
        self.nodes = {node_id: NodeProcess(url, node_id) for node_id in (1, 2, 3)}
        self.down: set[int] = set()
        self._ottla = Ottla()

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap_servers for node_id, node in self.nodes.items() if node_id not in self.down)

    def database(self, verb: str, *arguments: object, expect: int = 0) -> Any:
        return self._ottla.json("cluster", verb, *arguments, "--cluster", self.url, expect=expect)

    def said(self, verb: str, *arguments: object, expect: int = 0) -> str:
        where = ("--bootstrap-server", self.bootstrap) if verb in ("move", "balance") else ("--cluster", self.url)
        return self._ottla.run("cluster", verb, *arguments, *where, expect=expect).output

    def broker(self, verb: str, *arguments: object, expect: int = 0) -> Any:
        return self._ottla.json("cluster", verb, *arguments, "--bootstrap-server", self.bootstrap, expect=expect)

    def leaders(self) -> dict[int, int]:
        topic = self._ottla.json("topics", "describe", TOPIC, "--bootstrap-server", self.bootstrap)
        (found,) = topic
        return {row["partition"]: row["leader"] for row in found["partitions"]}

    def node(self, node_id: int, *where: str) -> Any:
        """A node as the status has it, which is that all is well."""
        rows = self._ottla.json("cluster", "status", *where)["nodes"]
        return next(row for row in rows if row["node_id"] == node_id)

    def led_by(self, node_id: int) -> int:
        """A partition that a node leads."""
        return next(partition for partition, leader in self.leaders().items() if leader == node_id)

    def spread(self) -> None:
        """Wait until new nodes have taken their share, ten seconds after the last one was started."""
        wait_for(lambda: len(set(self.leaders().values())) == 3, "every node to lead its share", timeout_s=60)


@pytest.fixture(scope="module")
def operator() -> Iterator[Operator]:
    directory = new_directory()
    server = PostgresServer(directory / "server")
    server.create()
    server.start()
    operator = Operator(server)
    try:
        for node in operator.nodes.values():
            node.start()
        operator.spread()
        yield operator
    finally:
        for node in operator.nodes.values():
            node.stop()
        server.stop()
        shutil.rmtree(directory)


def test_a_node_is_drained_and_resumed(operator: Operator) -> None:
    producer = KafkaProducer(bootstrap_servers=operator.bootstrap.split(","), acks="all", retries=10)
    partition_of_2 = operator.led_by(2)
    found = operator.database("drain", 2)
    assert (found["state"], found["left"]) == ("draining", 0) and found["moved"] > 0
    assert 2 not in operator.leaders().values()
    for row in (
        operator.node(2, "--cluster", operator.url),
        operator.node(2, "--bootstrap-server", operator.bootstrap),
    ):
        assert (row["state"], row["partitions"]) == ("draining", 0)
    for partition in range(PARTITIONS):
        producer.send(TOPIC, b"while it is drained", partition=partition).get(30)
    producer.close()
    assert "node 2 drains" in operator.said("history", f"{TOPIC}-{partition_of_2}")
    # Neither a restart of its own nor one of another node lets it lead.
    for node_id in (2, 3):
        operator.nodes[node_id].stop()
        operator.nodes[node_id].start()
    wait_for(lambda: 3 in operator.leaders().values(), "node 3 to have its share again", timeout_s=60)
    assert 2 not in operator.leaders().values()
    assert "it led nothing" in operator.said("drain", 2)
    assert "ottla cluster resume 2" in operator.said("move", f"{TOPIC}-0", "--to", 2, expect=1).replace(" ID", " 2")
    assert "at home with it go back" in operator.said("resume", 2)
    wait_for(lambda: 2 in operator.leaders().values(), "node 2 to lead again", timeout_s=60)
    assert "does not drain" in operator.said("resume", 2)


def test_a_partition_is_moved_and_its_history_says_so(operator: Operator) -> None:
    operator.spread()
    before = operator.leaders()[0]
    to = before % 3 + 1
    found = operator.broker("move", f"{TOPIC}-0", "--to", to)
    assert found == {"partition": f"{TOPIC}-0", "from": before, "to": to, "is_led_there": True}
    assert operator.leaders()[0] == to
    rows = operator.database("history", f"{TOPIC}-0")["leaders"]
    assert rows[0]["why"] == "its first leader" and (rows[-1]["node_id"], rows[-1]["why"]) == (
        to,
        "an operator moved it",
    )
    assert [row["epoch"] for row in rows] == list(range(len(rows)))
    assert f"Node {to} leads {TOPIC}-0 already" in operator.said("move", f"{TOPIC}-0", "--to", to)


def test_homes_are_balanced(operator: Operator) -> None:
    operator.spread()
    for partition in range(3):
        operator.broker("move", f"{TOPIC}-{partition}", "--to", 1)
    plan = operator.broker("balance", "--dry-run")
    assert plan["is_dry_run"] and plan["moves"]
    assert Counter(operator.leaders().values())[1] >= 3
    assert operator.broker("balance")["moves"] == plan["moves"]
    assert Counter(operator.leaders().values()) == {1: 2, 2: 2, 3: 2}
    for node in operator.nodes.values():
        assert "could not be followed" not in node.log_text(), "no hand-over is planned twice"
    assert "Nothing is to be moved" in operator.said("balance")


def test_what_cannot_be_done_says_what_to_do(operator: Operator) -> None:
    assert "There is no node 7 in this cluster.\n  Known nodes: 1, 2, 3." in operator.said("drain", 7, expect=1)
    assert "Node 2 is up" in operator.said("remove", 2, expect=1)
    assert "There is no topic 'order'." in operator.said("history", "order-0", expect=1)
    assert "Did you mean 'orders'?" in operator.said("move", "order-0", "--to", 1, expect=1)
    assert "has no partition 6" in operator.said("move", f"{TOPIC}-6", "--to", 1, expect=1)
    assert "has no partition 6" in operator.said("history", f"{TOPIC}-6", expect=1)
    assert "Node 9 does not take partitions" in operator.said("move", f"{TOPIC}-0", "--to", 9, expect=1)
    assert "write TOPIC-PARTITION" in operator.said("history", TOPIC, expect=2)
    assert "no cluster in the schema other" in operator.said("history", f"{TOPIC}-0", "--schema", "other", expect=1)


def test_the_last_node_is_not_drained_and_a_node_that_is_gone_is_forgotten(operator: Operator) -> None:
    operator.database("drain", 1)
    operator.database("drain", 2)
    assert "Nobody could take over from node 3" in operator.said("drain", 3, expect=1)
    operator.database("resume", 1)
    operator.database("resume", 2)
    operator.spread()
    partition_of_3 = operator.led_by(3)
    operator.nodes[3].kill()
    operator.down.add(3)
    wait_for(lambda: 3 not in operator.leaders().values(), "others to take over", timeout_s=60)
    row = operator.database("history", f"{TOPIC}-{partition_of_3}")["leaders"][-1]
    assert row["why"] == "node 3 was lost: its connection has closed"
    assert "is down" in operator.said("drain", 3)
    assert operator.database("remove", 3) == {"node_id": 3, "moved": 3 * (PARTITIONS + 2 * SHARDS) // 9}
    assert "There is no node 3" in operator.said("remove", 3, expect=1)
    wait_for(lambda: Counter(operator.leaders().values()) == {1: 3, 2: 3}, "two nodes to lead everything", timeout_s=60)
    operator.nodes[3].start()  # a new one, as far as the others know
    operator.down.clear()
    operator.spread()


def test_the_status_comes_straight_from_the_database_while_no_node_is_up(operator: Operator) -> None:
    document = operator.database("status")
    logs = PARTITIONS + 2 * SHARDS
    assert [row["state"] for row in document["nodes"]] == ["up"] * 3
    assert (
        sum(row["partitions"] for row in document["nodes"]) == sum(row["at_home"] for row in document["nodes"]) == logs
    )
    assert sum(row["group_shards"] for row in document["nodes"]) == SHARDS
    assert all(row["beat_ms"] < 3_000 and row["up_ms"] > 0 for row in document["nodes"])
    addresses = [row["address"].rpartition(":")[2] for row in document["nodes"]]
    assert addresses == [node.bootstrap_servers.rpartition(":")[2] for node in operator.nodes.values()]
    database = document["database"]
    assert (database["host"], database["port"]) == ("127.0.0.1", operator.server.port)
    assert database["version"] and database["standbys"] == [] and database["synchronous_standby_names"] == ""
    for node_id in (1, 2):
        operator.nodes[node_id].kill()
    assert operator.nodes[3].stop() == 0
    document = operator.database("status", expect=1)
    assert {row["state"] for row in document["nodes"]} == {"down"}
    assert [row["why"] for row in document["nodes"]][2] == "it has ended"
    assert document["leaderless"] == logs == len(document["without_leader"])
    said = operator.said("status", expect=1)
    assert f"{logs} partitions without a leader:" in said and "… and 2 more" in said
    assert f"at 127.0.0.1:{operator.server.port}" in said and "Standbys: none; commits wait for none." in said
