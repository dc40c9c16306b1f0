"""What the HTTP port of one of several nodes says of the others."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from ottla.protocol.stored.cluster_file import UP
from tests.cli.commands import HERE
from tests.support.nodes import Nodes
from tests.support.waiting import wait_for


def ask(node: int, nodes: Nodes, path: str) -> Any:
    address = nodes.node(node).http
    assert address is not None
    with urlopen(f"http://{address[0] or 'localhost'}:{address[1]}{path}", timeout=20) as answer:
        body = answer.read().decode()
    return json.loads(body) if body.startswith("{") else body


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    options = ("--http", "0", "--metrics-compat", "kafka_exporter,kminion", "--create-topic", "orders:4")
    with Nodes(tmp_path_factory.mktemp("data"), 2, *options) as started:
        wait_for(lambda: all(node["listen"] for node in ask(1, started, "/v1/cluster")["nodes"]), "all to be known")
        yield started


def test_each_knows_where_the_others_are(nodes: Nodes) -> None:
    for node_id in (1, 2):
        cluster = ask(node_id, nodes, "/v1/cluster")
        assert cluster["node_id"] == node_id
        assert [(one["node_id"], one["state"], one["why"]) for one in cluster["nodes"]] == [
            (1, "up", ""),
            (2, "up", ""),
        ]
        assert [one["http"].rpartition(":")[2] for one in cluster["nodes"]] == [
            str(nodes.node(one).http[1])
            for one in (1, 2)  # type: ignore[index]
        ]
        assert ask(node_id, nodes, "/healthz") == {"status": "ready"}


def test_health_tells_of_a_node_that_hangs(nodes: Nodes) -> None:
    nodes.signal(2, signal.SIGSTOP)
    try:
        said = nodes.wait(2, lambda node: bool(node.why))
        wait_for(lambda: ask(1, nodes, "/healthz") == {"status": "ready", "nodes_silent": [2]}, "node 2 to be missed")
        assert (said.state, said.why) == (UP, "it has not answered for 5 s")
        (_, hangs) = ask(1, nodes, "/v1/cluster")["nodes"]
        assert hangs["state"] == "up" and "it has not answered for" in hangs["why"]
        assert "it has not answered for" in HERE.run("cluster", "status", nodes.data_dir, expect=1).output
    finally:
        nodes.signal(2, signal.SIGCONT)
    nodes.wait(2, lambda node: not node.why)
    wait_for(lambda: ask(1, nodes, "/healthz") == {"status": "ready"}, "node 2 to be back")
    assert ask(2, nodes, "/healthz") == {"status": "ready"}


def test_partitions_have_figures_where_they_are_led(nodes: Nodes) -> None:
    seen = [ask(one, nodes, "/v1/topics/orders")["partitions"] for one in (1, 2)]
    assert [one["leader_id"] for one in seen[0]] == [one["leader_id"] for one in seen[1]] == [1, 2, 1, 2]
    assert [one["is_led_here"] for one in seen[0]] == [True, False, True, False]
    assert [one["is_led_here"] for one in seen[1]] == [False, True, False, True]


def series(text: str, name: str) -> dict[str, float]:
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(name + "{")]
    return {labels.removeprefix(name): float(value) for labels, value in lines}


def test_exporters_show_all_brokers_and_each_partition_once(nodes: Nodes) -> None:
    texts = [ask(one, nodes, "/metrics") for one in (1, 2)]
    for text in texts:
        assert "kafka_brokers 2.0" in text
        ports = {node.address.rpartition(":")[2] for node in nodes.cluster.nodes.values()}
        assert {labels.split('"')[1] for labels in series(text, "kafka_broker_info")} == {
            f"localhost:{port}" for port in ports
        }
        assert [value for labels, value in series(text, "kafka_topic_partitions").items() if "orders" in labels] == [
            4.0
        ]
        assert any('broker_count="2"' in labels for labels in series(text, "kminion_kafka_cluster_info"))
    led = [
        {labels: value for labels, value in series(text, "kafka_topic_partition_leader").items() if "orders" in labels}
        for text in texts
    ]
    assert [sorted(set(one.values())) for one in led] == [[1.0], [2.0]]
    assert len({**led[0], **led[1]}) == 4


def test_health_tells_of_a_node_that_is_down(tmp_path: Path) -> None:
    damaged = tmp_path / "nodes/2/checkpoint"
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(b"nothing")
    with Nodes(tmp_path, 2, "--http", "0") as nodes:
        nodes.wait(1, lambda node: node.state == UP)
        wait_for(lambda: ask(1, nodes, "/healthz") == {"status": "ready", "nodes_down": [2]}, "node 2 to be missed")
        (_, down) = ask(1, nodes, "/v1/cluster")["nodes"]
        assert down["state"] == "down"
        assert "checkpoint is damaged" in down["why"]
