"""A real Apache Kafka of three brokers, each in a process of its own; the first is the controller, too."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.differential.real_kafka import CLUSTER_ID, JVM, ONE_NODE, free_port, jars

IDS = (1, 2, 3)
START_SECONDS = 120.0


class ThreeKafkas:
    """The brokers; use with ``with``. ``settings`` are Kafka's own and hold for all of them.

    Attributes:
        ports: by node id, as clients reach them.
    """

    def __init__(self, settings: Mapping[str, object] | None = None) -> None:
        self.settings = dict(settings or {})
        self.ports = {node_id: free_port() for node_id in IDS}
        self._controller = free_port()
        self._directory = Path(tempfile.mkdtemp(prefix="ottla-three-kafkas-"))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for node_id in IDS:
            with self.log_of(node_id).open("wb") as log:
                command = [*self._java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c"]
                subprocess.run([*command, str(self._properties(node_id))], check=True, stdout=log, stderr=log)
        for node_id in IDS:
            self.start(node_id)
        self.wait()
        return self

    @property
    def _java(self) -> list[str]:
        return ["java", *JVM, "-cp", f"{jars()}/*"]

    def _properties(self, node_id: int) -> Path:
        told = f"PLAINTEXT://127.0.0.1:{self.ports[node_id]}"
        is_first = node_id == IDS[0]
        settings = ONE_NODE | {
            "process.roles": "broker,controller" if is_first else "broker",
            "node.id": node_id,
            "controller.quorum.voters": f"{IDS[0]}@127.0.0.1:{self._controller}",
            "listeners": f"{told},CONTROLLER://127.0.0.1:{self._controller}" if is_first else told,
            "advertised.listeners": told,
            "log.dirs": self._directory / f"data-{node_id}",
            "broker.session.timeout.ms": 6_000,
        }
        lines = [f"{key}={value}" for key, value in (settings | self.settings).items()]
        path = self._directory / f"{node_id}.properties"
        path.write_text("\n".join(lines) + "\n", "utf-8")
        return path

    def log_of(self, node_id: int) -> Path:
        """A broker's log: warnings and worse."""
        return self._directory / f"log-{node_id}"

    def start(self, node_id: int) -> None:
        """Start a broker, for the first time or again."""
        with self.log_of(node_id).open("ab") as log:
            command = [*self._java, "kafka.Kafka", str(self._directory / f"{node_id}.properties")]
            self._processes[node_id] = subprocess.Popen(command, stdout=log, stderr=log)

    def wait(self) -> None:
        """Wait until all that were started listen."""
        deadline = time.monotonic() + START_SECONDS
        for node_id, process in self._processes.items():
            while not _listens(self.ports[node_id]):
                if process.poll() is not None or time.monotonic() > deadline:
                    tail = self.log_of(node_id).read_text("utf-8")[-4000:]
                    raise RuntimeError(f"broker {node_id} did not start:\n{tail}")
                time.sleep(0.1)

    def kill(self, node_id: int) -> None:
        """End a broker as kill -9 does."""
        process = self._processes.pop(node_id)
        process.kill()
        process.wait()

    def __exit__(self, *_: object) -> None:
        for node_id in list(self._processes):
            self.kill(node_id)
        shutil.rmtree(self._directory, ignore_errors=True)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
