"""Nodes over a real PostgreSQL that are known by name, and what a server is refused for."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from kafka import KafkaAdminClient

from examples.cluster.postgresql import USER, PostgresServer, programs
from ottla.testing.process import BrokerProcess
from tests.support.postgresql import running_server
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
        user: str = USER,
        **settings: Any,
    ) -> None:
        url = f"postgresql://{user}@127.0.0.1:{server.port}/postgres"
        given = {"ottla.cluster.schema": schema, "offsets.topic.num.partitions": 2, **settings}
        given = {"ottla.node.name": "only"} | given
        super().__init__(settings=given, nodes=nodes, arguments=("--cluster", url, *arguments))

    def command(self) -> list[str]:
        return [word for word in super().command() if word != "--ephemeral"]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


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
        brokers = admin.describe_cluster()["brokers"]
        return {broker["broker_id"] for broker in brokers if not broker["is_fenced"]}
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
            wait_for(lambda: "Node is up" in nodes.log_text(), "the node that was killed", show=nodes.log_text)
            second = await incarnations()
            assert len([one for one in second if second[one] != first[one]]) == 1
            os.kill(nodes.pid, signal.SIGHUP)
            through = "Rolling restart is through"
            wait_for(lambda: through in nodes.log_text(), "a rolling restart", show=nodes.log_text)
            assert not {*(await incarnations()).values()} & {*second.values()}
            assert nodes.stop() == 0
        wait_for(lambda: node_ids(other) == {3}, "the end of the others")


def ottla(*words: str) -> tuple[int, str]:
    """What a command ends with, and what it says."""
    done = subprocess.run([sys.executable, "-m", "ottla.cli", *words], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


async def test_a_server_that_loses_records_is_refused(server: PostgresServer) -> None:
    url = f"postgresql://{USER}@127.0.0.1:{server.port}/postgres"
    code, said = ottla("cluster", "doctor", "--cluster", url, "--set", "ottla.durability=os", "--format", "json")
    findings = {one["check"]: one for one in json.loads(said)["checks"]}
    assert code == 0
    assert {check: one["verdict"] for check, one in findings.items() if one["verdict"] != "ok"} == {"settings": "warn"}
    assert "ottla.durability has no effect" in findings["settings"]["found"]
    assert findings["server"]["found"].startswith("PostgreSQL ")
    server.configure({"fsync": "off"})
    server.reload()
    try:
        await until(partial(has_setting, server, "fsync", "off"))
        code, said = ottla("cluster", "doctor", "--cluster", url)
        assert code == 1 and "FAIL  durability   fsync=off: a crash of the server loses records\n" in said
        with pytest.raises(RuntimeError, match="durability: fsync=off: a crash of the server loses records"):
            Node(server, "unsafe").start()
    finally:
        server.configure({"fsync": "on"})
        server.reload()
        await until(partial(has_setting, server, "fsync", "on"))
    twice = f"postgresql://{USER}@127.0.0.1:{server.port},127.0.0.1:{server.port}/postgres"
    code, said = ottla("cluster", "doctor", "--cluster", twice)
    assert code == 1 and "FAIL  standbys     a failover can lose acknowledged records" in said
    code, said = ottla("cluster", "doctor", "--cluster", twice, "--set", "ottla.cluster.allow.lossy.failover=true")
    assert code == 0 and "warn  standbys " in said


async def has_setting(server: PostgresServer, name: str, value: str) -> bool:
    return await ask(server, f"SHOW {name}") == [(value,)]


async def test_a_node_needs_no_rights_to_make_tables_where_their_owner_has_made_them(server: PostgresServer) -> None:
    await ask(server, "CREATE ROLE plain LOGIN")
    with pytest.raises(RuntimeError, match=r"upgrade them by `ottla cluster migrate`"):
        Node(server, "owned", user="plain").start()
    url = f"postgresql://{USER}@127.0.0.1:{server.port}/postgres"
    migrate = ("cluster", "migrate", "--cluster", url, "--set", "ottla.cluster.schema=owned")
    code, said = ottla(*migrate, "--grant-to", "plain")
    done = "1 migration made: the tables of the schema owned have version 1.\nplain may read and write their rows.\n"
    assert (code, said) == (0, done)
    with Node(server, "owned", user="plain") as node:
        assert node_ids(node) == {1}
        assert ottla(*migrate) == (0, "Nothing was missing: the tables of the schema owned have version 1.\n")
