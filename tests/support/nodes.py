"""`ottla serve --nodes N` as processes, for tests that kill some of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from ottla.protocol.stored.cluster_file import UP, ClusterFile, NodeEntry, read_cluster
from ottla.testing.process import BrokerProcess
from tests.support.waiting import wait_for


class Nodes:
    """Nodes on one directory and their supervisor. Use with ``with``.

    Args:
        data_dir: of the first; what all share is there.
        options: as of `BrokerProcess`.
    """

    def __init__(self, data_dir: Path, count: int, *arguments: str, **options: Any) -> None:
        self.data_dir = data_dir
        self.process = BrokerProcess(data_dir, nodes=count, arguments=arguments, **options)

    def __enter__(self) -> Self:
        self.process.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.process.stop()

    @property
    def cluster(self) -> ClusterFile:
        """What the supervisor tells everybody."""
        found = read_cluster(self.data_dir)
        assert found is not None
        return found

    @property
    def addresses(self) -> list[str]:
        return self.process.bootstrap_servers.split(",")

    def node(self, node_id: int) -> NodeEntry:
        return self.cluster.nodes[node_id]

    def signal(self, node_id: int, number: int = signal.SIGKILL) -> None:
        """Send a signal to the process of a node."""
        os.kill(self.node(node_id).pid, number)

    def wait(self, node_id: int, reached: Callable[[NodeEntry], bool]) -> NodeEntry:
        """A node, once it is as it should be."""
        wait_for(lambda: reached(self.node(node_id)), f"node {node_id}", show=lambda: self.cluster)
        return self.node(node_id)

    def wait_up(self, node_id: int, *, after: NodeEntry) -> NodeEntry:
        """A node, once it is up again in another process."""
        return self.wait(node_id, lambda node: node.state == UP and node.pid != after.pid)
