"""Three nodes over a PostgreSQL with a standby; each reaches each server through a proxy of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

from examples.cluster.postgresql import USER, PostgresServer, new_directory
from ottla.testing import BrokerProcess
from tests.chaos.postgres.servers import Servers
from tests.support.tcp_proxy import TcpProxy

NODES = (1, 2, 3)
STOPS_S = 40


class NodeProcess(BrokerProcess):
    """A node. Its log is that of all its lives.

    Args:
        planted: a bug that it has, of `tests.chaos.postgres.planted`.

    Attributes:
        ways: the proxies through which it reaches the servers, by their ports.
    """

    def __init__(
        self,
        node_id: int,
        servers: Servers,
        settings: Mapping[str, Any],
        topics: Mapping[str, int],
        planted: str | None = None,
    ) -> None:
        self.ways = {server.port: TcpProxy(server.port) for server in (servers.primary, servers.standby)}
        hosts = ",".join(f"127.0.0.1:{way.port}" for way in self.ways.values())
        url = f"postgresql://{USER}@{hosts}/postgres?sslmode=disable"
        super().__init__(settings={**settings, "node.id": node_id}, topics=dict(topics), arguments=("--cluster", url))
        self.node_id = node_id
        self._before = ""
        self._planted = planted

    def command(self) -> list[str]:
        command = [word for word in super().command() if word != "--ephemeral"]
        if self._planted is not None:
            at = command.index("ottla.cli")
            command[at : at + 1] = ["tests.chaos.postgres.planted", self._planted]
        return command

    def start(self, timeout_s: float = 60) -> Self:
        self._before += super().log_text()
        return super().start(timeout_s)

    def stop(self, timeout_s: float = STOPS_S) -> int:
        return super().stop(timeout_s)

    def log_text(self) -> str:
        return self._before + super().log_text()

    def end(self) -> None:
        """SIGKILL, and nothing else: somebody may be waiting for it to start."""
        if self._process is not None:
            self._process.kill()

    def way_to(self, server: PostgresServer) -> TcpProxy:
        """The proxy through which it reaches a server."""
        return self.ways[server.port]

    def close(self) -> None:
        """Let go of the proxies."""
        for way in self.ways.values():
            way.close()

    @property
    def ended(self) -> int | None:
        """The exit code if it has ended by itself."""
        return None if self._process is None else self._process.poll()


class Cluster:
    """See the module. Use with ``with``.

    Args:
        settings, topics: as of `BrokerProcess`, of each node.
        logs: where the logs of nodes and servers are put at the end, and the directory of the primary.
        planted: a bug of all nodes.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        topics: Mapping[str, int],
        logs: Path | None = None,
        planted: str | None = None,
    ) -> None:
        self._directory = new_directory()
        self.servers = Servers(self._directory)
        self._node = partial(NodeProcess, servers=self.servers, settings=settings, topics=topics, planted=planted)
        self.nodes = {node_id: self._node(node_id) for node_id in NODES}
        self._logs = logs
        self._ends = ExitStack()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes.values())

    def log_text(self) -> str:
        """The ends of the logs of all nodes."""
        return "\n".join(f"node {node_id}:\n{node.log_text()[-3000:]}" for node_id, node in self.nodes.items())

    @contextmanager
    def twin(self, node: NodeProcess) -> Iterator[NodeProcess]:
        """Another process with the id of a node, which is not yet started."""
        twin = self._node(node.node_id)
        try:
            yield twin
        finally:
            twin.kill()
            twin.close()

    def __enter__(self) -> Self:
        with ExitStack() as ends:
            ends.callback(shutil.rmtree, self._directory)
            ends.callback(self._keep_logs)
            ends.enter_context(self.servers)
            for node in self.nodes.values():
                ends.callback(node.close)
                ends.callback(node.kill)
            with ThreadPoolExecutor() as threads:
                list(threads.map(NodeProcess.start, self.nodes.values()))
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.close()

    def _keep_logs(self) -> None:
        if self._logs is not None:
            self._logs.mkdir(exist_ok=True)
            for node_id, node in self.nodes.items():
                (self._logs / f"node-{node_id}.log").write_text(node.log_text())
            for log in self._directory.glob("*.log"):
                shutil.copy(log, self._logs)
            primary = self.servers.primary.data
            shutil.copytree(primary, self._logs / primary.name, dirs_exist_ok=True)
