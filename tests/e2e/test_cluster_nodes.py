"""Nodes over a real PostgreSQL that are known by name, and what a server is refused for."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from kafka import KafkaAdminClient

from ottla.testing.process import BrokerProcess
from tests.support.postgresql import USER, PostgresServer, new_directory, programs
from tests.support.waiting import until, wait_for

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(programs() is None, reason="there is no PostgreSQL on this machine: install it"),
]


class Node(BrokerProcess):
    """A node of the cluster in a schema, without topics."""

    def __init__(
        self,
        server: PostgresServer,
        schema: str,
        *arguments: str,
        nodes: int | None = None,
        **settings: Any,
    ) -> None:
        url = f"postgresql://{USER}@127.0.0.1:{server.port}/postgres"
        given = {"ottla.cluster.schema": schema, "offsets.topic.num.partitions": 2, **settings}
        given = {"ottla.node.name": "only"} | given
        super().__init__(settings=given, nodes=nodes, arguments=("--cluster", url, *arguments))

    def command(self) -> list[str]:
        return [word for word in super().command() if word != "--ephemeral"]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    directory = new_directory()
    server = PostgresServer(directory / "server")
    server.create()
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory)


async def ask(server: PostgresServer, query: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(host="127.0.0.1", port=server.port, user=USER, database="postgres")
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


def node_ids(node: Node) -> set[int]:
    """Those of the nodes that are up, as one of them knows them."""
    admin = KafkaAdminClient(bootstrap_servers=node.bootstrap_servers)
    try:
        return {broker["broker_id"] for broker in admin.describe_cluster()["brokers"]}
    finally:
        admin.close()


async def test_a_node_that_is_known_by_name_keeps_its_id(server: PostgresServer) -> None:
    left = {"ottla.node.name": "left"}
    with Node(server, "named", "--node-id", "4"), Node(server, "named", **left) as node:
        assert node_ids(node) == {4, 5}
        node.kill()
        node.restart()
        assert node_ids(node) == {4, 5}
        with Node(server, "named", **{"ottla.node.name": "right"}) as right:
            assert node_ids(right) == {4, 5, 6}
    rows = await ask(server, "SELECT node_id, name, version <> '' FROM named.node ORDER BY node_id")
    assert rows == [(4, None, True), (5, "left", True), (6, "right", True)]


def children(pid: int) -> list[int]:
    return sorted(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


async def test_several_nodes_on_one_machine(server: PostgresServer) -> None:
    """They have ids by name, are started again, restarted one by one, and end with their supervisor."""
    with Node(server, "several", "--node-id", "3") as other:
        nodes = Node(server, "several", nodes=2, **{"ottla.node.name": "machine"})
        with nodes:
            addresses = nodes.bootstrap_servers.split(",")
            assert addresses == [f"127.0.0.1:{nodes.port}", f"127.0.0.1:{nodes.port + 1}"]
            assert node_ids(other) == {3, 4, 5}
            named = await ask(server, "SELECT node_id, name FROM several.node WHERE name IS NOT NULL ORDER BY 1")
            assert named == [(4, "machine#1"), (5, "machine#2")]

            async def incarnations() -> dict[int, int]:
                up = "SELECT node_id, incarnation FROM several.node WHERE state = 1 AND node_id > 3"
                return dict(await ask(server, up))

            first = await incarnations()
            os.kill(children(nodes.pid)[0], signal.SIGKILL)

            async def is_back() -> bool:
                now = await incarnations()
                return len(now) == 2 and now != first and sum(now.values()) > sum(first.values())

            await until(is_back)
            second = await incarnations()
            assert len([one for one in second if second[one] != first[one]]) == 1
            os.kill(nodes.pid, signal.SIGHUP)

            async def are_new() -> bool:
                now = await incarnations()
                return len(now) == 2 and not {*now.values()} & {*second.values()}

            await until(are_new)
            wait_for(lambda: "Rolling restart is through" in nodes.log_text(), "the end of the rolling restart")
            assert nodes.stop() == 0
        wait_for(lambda: node_ids(other) == {3}, "the end of the others")
