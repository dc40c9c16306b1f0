"""Nodes that share a directory: each leads what is at home with it, and what one changes all know."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ottla.broker import app
from ottla.broker.cluster.placement import Static
from ottla.broker.logger import Silent
from ottla.broker.runtime.looking import ClusterFile
from ottla.broker.storage.local.catalog import FileCatalog
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.testing import Broker
from tests.support.client import Client, values
from tests.support.waiting import wait_for

pytestmark = pytest.mark.e2e

BROKER = app.Broker
NODES = (1, 2)
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
SETTINGS = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}


class Nodes:
    """Nodes as a supervisor starts them, each with a client."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.brokers: dict[int, Broker] = {}
        self.clients: dict[int, Client] = {}
        self._monkeypatch = monkeypatch
        self._document = {
            "format": 1,
            "cluster_id": CLUSTER_ID,
            "nodes": [{"node_id": one, "state": "up", "epoch": 0} for one in NODES],
        }
        directory.mkdir(exist_ok=True)
        (directory / "cluster.json").write_text(json.dumps(self._document))

    def start(self, node_id: int, **options: Any) -> Client:
        placement, catalog = Static(node_id, self._document), FileCatalog(str(self.directory))
        nodes = ClusterFile(str(self.directory / "cluster.json"), placement.read, Silent())
        made = partial(
            BROKER, placement=placement, catalog=catalog, cluster_id=CLUSTER_ID, looks=(catalog.look, nodes.look)
        )
        self._monkeypatch.setattr(app, "Broker", made)
        data_dir = self.directory if node_id == 1 else self.directory / "nodes" / str(node_id)
        broker = self.brokers[node_id] = Broker({"node.id": node_id} | SETTINGS, data_dir=data_dir, **options)
        broker.start()
        client = self.clients[node_id] = Client(broker.port)
        return client

    def end(self, node_id: int, how: Callable[[Broker], Any] = Broker.stop) -> None:
        self.clients.pop(node_id).close()
        how(self.brokers.pop(node_id))


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    nodes = Nodes(tmp_path / "data", monkeypatch)
    yield nodes
    for node_id in list(nodes.brokers):
        nodes.end(node_id)


def knows(client: Client, topic: str, partitions: int) -> bool:
    """Whether the topic is there with so many partitions; none is no such topic."""
    (told,) = client.metadata(topic).topics
    return len(told.partitions) == partitions


def group_in(partition: int) -> str:
    return next(name for name in map(str, range(1000)) if coordinator_partition(name, 4) == partition)


def test_each_leads_a_part_and_all_know_every_topic(nodes: Nodes) -> None:
    first, second = map(nodes.start, NODES)
    assert {client.metadata().cluster_id for client in (first, second)} == {CLUSTER_ID}
    topic = first.topic(partitions=4)
    wait_for(lambda: knows(second, topic, 4), "the other node to hear of the topic")
    # Nodes take turns: partitions 0 and 2 are at home on the first, as those of the groups are.
    for index, client in enumerate((first, second, first, second)):
        assert client.produce(topic, partition=index).error_code == 0
        assert client.commit(group_in(index), topic, 5) == 0
    for index, client in enumerate((second, first, second, first)):
        assert client.produce(topic, partition=index).error_code != 0
        assert client.commit(group_in(index), topic, 6) == ErrorCode.NOT_COORDINATOR
    for node_id in NODES:
        nodes.end(node_id)
    second, first = nodes.start(2), nodes.start(1)
    for index, client in enumerate((first, second, first, second)):
        assert len(values(client.fetch(topic, partition=index).records)) == 1
        assert client.committed(group_in(index), topic).committed_offset == 5
    second.call(ApiKey.DELETE_TOPICS, 5, topic_names=[topic], timeout_ms=5000)
    wait_for(lambda: knows(first, topic, 0), "the other node to hear that the topic is gone")
    logs = [path for path in nodes.directory.rglob(f"{topic}-*") if path.is_dir()]
    wait_for(lambda: not any(path.exists() for path in logs), "the logs to be deleted")


def test_whoever_is_told_of_a_change_finds_it_at_every_node(nodes: Nodes) -> None:
    first, second = map(nodes.start, NODES)
    for _ in range(10):
        topic = first.topic(partitions=2)
        assert knows(second, topic, 2)
        wanted = {"name": topic, "count": 3, "assignments": None}
        grown = first.call(ApiKey.CREATE_PARTITIONS, 3, topics=[wanted], timeout_ms=5000)
        assert grown.results[0].error_code == 0, grown
        assert knows(second, topic, 3)


@pytest.mark.parametrize("how", [Broker.stop, Broker.crash])
def test_a_topic_that_is_deleted_while_a_node_is_down(nodes: Nodes, how: Callable[[Broker], Any]) -> None:
    """Its logs and what groups have committed for it go when the node comes back."""
    first, second = map(nodes.start, NODES)
    topic = first.topic(partitions=2)
    wait_for(lambda: knows(second, topic, 2), "the other node to hear of the topic")
    assert second.produce(topic, partition=1).error_code == 0
    assert second.commit(group_in(1), topic, 1) == 0
    nodes.end(2, how)
    first.call(ApiKey.DELETE_TOPICS, 5, topic_names=[topic], timeout_ms=5000)
    second = nodes.start(2)
    assert knows(second, topic, 0)
    # Nobody waits for tombstones, neither here nor where the topic is deleted: what is shown is durable.
    wait_for(lambda: second.all_committed(group_in(1)) == {}, "the offsets to be deleted")
    assert not list(nodes.directory.rglob(f"{topic}-1"))


def test_a_topic_that_is_wanted_at_every_start(nodes: Nodes) -> None:
    """Whoever is the first creates it; the others find it there."""
    for node_id in (*NODES, 1):
        if node_id in nodes.brokers:
            nodes.end(node_id)
        assert knows(nodes.start(node_id, topics={"wanted": 3}), "wanted", 3)


def test_a_directory_of_several_nodes_is_not_one_nodes(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes.start(1)
    nodes.end(1)
    monkeypatch.setattr(app, "Broker", BROKER)
    with pytest.raises(app.CannotStart, match="say --nodes 2"), Broker(data_dir=nodes.directory):
        pass
