"""Nodes over a real PostgreSQL that are known by name, and what a server is refused for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
from kafka import KafkaAdminClient

from ottla.testing.process import BrokerProcess
from tests.support.postgresql import USER, PostgresServer, new_directory, programs

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(programs() is None, reason="there is no PostgreSQL on this machine: install it"),
]


class Node(BrokerProcess):
    """A node of the cluster in a schema, without topics."""

    def __init__(self, server: PostgresServer, schema: str, *arguments: str, **settings: Any) -> None:
        url = f"postgresql://{USER}@127.0.0.1:{server.port}/postgres"
        given = {"ottla.cluster.schema": schema, "offsets.topic.num.partitions": 2, **settings}
        super().__init__(settings=given, arguments=("--cluster", url, *arguments))

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
