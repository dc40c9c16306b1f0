"""A real Apache Kafka broker in a process of its own: KRaft, one node, on loopback."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import pytest

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("OTTLA_DIFFERENTIAL_CACHE", Path.home() / ".cache" / "ottla-differential"))
CLUSTER_ID = "abcdefghijklmnopqrstuQ"
JVM = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]

# One node, so one replica of everything; as few threads as will do.
ONE_NODE = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "num.network.threads": 1,  # answers leave in the order in which they were made
    "num.io.threads": 4,
}


class NoJava(Exception):
    """Java or Maven is missing; the message says which."""


FETCH_SECONDS = 600.0


def jars() -> Path:
    """The directory of the jars that pom.xml names, fetched from Maven Central at the first call.

    Raises:
        NoJava: there is no ``java`` or, at the first call, no ``mvn``, or it could not fetch them.
    """
    if shutil.which("java") is None:
        raise NoJava("java was not found")
    target = CACHE / f"jars-{version()}"
    # The mark of another list of jars does not count.
    complete = target / f"complete-{zlib.crc32((HERE / 'pom.xml').read_bytes()):08x}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of several test processes one fetches
        if not complete.exists():
            if shutil.which("mvn") is None:
                raise NoJava("mvn was not found, and it is needed once to fetch Kafka's jars")
            command = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
            try:
                subprocess.run([*command, f"-DoutputDirectory={target}"], check=True, timeout=FETCH_SECONDS)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failed:
                raise NoJava(f"Kafka's jars could not be fetched: {failed}") from failed
            complete.touch()
    return target


def skip_without_kafka() -> None:
    """Skip the test where Apache Kafka cannot be started."""
    try:
        jars()
    except NoJava as missing:
        pytest.skip(f"Apache Kafka cannot be started: {missing}")


def version() -> str:
    """Kafka's version, as pom.xml has it."""
    return (HERE / "pom.xml").read_text("utf-8").split("<kafka.version>")[1].split("<")[0]


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


TO_SASL = 3
"""How far the port of the listener with SASL is behind the other: three nodes have theirs side by side."""


def free_row() -> int:
    """A port that nobody listens on at this moment, with room behind it for two listeners of three nodes."""
    while True:
        port = free_port()
        try:
            for other in range(port + 1, port + 2 * TO_SASL):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", other))
            return port
        except (OSError, OverflowError):
            continue


def listeners(port: int, settings: Mapping[str, object]) -> str:
    """The value of ``listeners``: one with SASL besides, where the settings have mechanisms."""
    found = f"PLAINTEXT://127.0.0.1:{port}"
    return f"{found},SASL_PLAINTEXT://127.0.0.1:{port + TO_SASL}" if "sasl.enabled.mechanisms" in settings else found


class RealKafka:
    """The broker; use with ``with``. ``settings`` are Kafka's own and win over those of `ONE_NODE`; ``features`` are
    levels that it is formatted with where they are not to be the newest.
    """

    def __init__(
        self, settings: Mapping[str, object] | None = None, *, features: Mapping[str, int] | None = None
    ) -> None:
        self.settings = dict(settings or {})
        self.features = dict(features or {})
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._directory = Path(tempfile.mkdtemp(prefix="ottla-differential-"))

    @property
    def data(self) -> Path:
        """Its log directory; gone when the broker is."""
        return self._directory / "data"

    @property
    def log_file(self) -> Path:
        """The broker's log: warnings and worse."""
        return self._directory / "log"

    def __enter__(self) -> Self:
        classpath = f"{jars()}/*"
        self.port, controller = free_row(), free_port()
        told = listeners(self.port, self.settings)
        settings = ONE_NODE | {
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"{told},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": told,
            "log.dirs": self.data,
        }
        lines = [f"{key}={value}" for key, value in (settings | self.settings).items()]
        properties = self._directory / "server.properties"
        properties.write_text("\n".join(lines) + "\n", "utf-8")
        java = ["java", *JVM, "-cp", classpath]
        with self.log_file.open("wb") as log:
            command = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)]
            for name, level in self.features.items():
                command += ["--feature", f"{name}={level}"]
            subprocess.run(command, check=True, stdout=log, stderr=log)
            self._process = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=log, stderr=log)
        self._wait(time.monotonic() + 90)
        return self

    def _wait(self, deadline: float) -> None:
        assert self._process is not None
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"Kafka did not start:\n{self.log_file.read_text('utf-8')[-4000:]}")

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()  # nothing of it is kept
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)
