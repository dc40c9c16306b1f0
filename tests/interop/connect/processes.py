"""Workers of Kafka Connect and MirrorMaker 2, each in a Java process of its own."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from ottla.testing import BrokerProcess
from tests.differential.real_kafka import free_port
from tests.interop.jvm import JAVA

LOGGING = [
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
]
SMALL = [*JAVA, "-Xmx256m", *LOGGING]


class JavaProcess:
    """A program of Kafka's with its properties. It may be started again after it ended.

    Attributes:
        printed: the file with what it wrote to standard output, in all its lives.
        log: the file with what it logged, in all its lives.
    """

    def __init__(self, jars: Path, directory: Path, name: str, main: str, properties: Mapping[str, object]) -> None:
        self.name = name
        self.printed = directory / f"{name}.out"
        self.log = directory / f"{name}.log"
        file = directory / f"{name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), "utf-8")
        self._command = [*SMALL, "-cp", f"{jars}/*", main, str(file)]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        with self.printed.open("ab") as printed, self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=printed, stderr=log)
        return self

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """End it with SIGTERM, and wait until it has ended."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)

    def lines(self) -> list[str]:
        """What it has printed, line by line."""
        return self.printed.read_text("utf-8").splitlines() if self.printed.exists() else []

    def tail(self) -> str:
        """The warnings and errors that it logged last, and its last lines."""
        lines = self.log.read_text("utf-8", errors="replace").splitlines() if self.log.exists() else []
        bad = [line for line in lines if " WARN " in line or " ERROR " in line]
        return "\n".join([f"--- {self.name}", *bad[-12:], "…", *lines[-6:]])


class Refused(Exception):
    """The worker answered with an error; ``status`` is HTTP's."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Worker(JavaProcess):
    """A worker of a distributed Connect cluster, with its REST interface on loopback."""

    def __init__(self, jars: Path, directory: Path, name: str, properties: Mapping[str, object]) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        own = {"listeners": self.url, "rest.advertised.host.name": "127.0.0.1", "client.id": name}
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        super().__init__(jars, directory, name, main, {**properties, **own})

    @property
    def id(self) -> str:
        """How the cluster names it."""
        return self.url.removeprefix("http://")

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What REST answers; None for an empty answer.

        Raises:
            Refused: the answer is an error.
            OSError: nobody answers.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.code, error.read().decode()) from None
        return json.loads(text) if text else None

    def answers(self) -> bool:
        """Whether it has joined the cluster and serves requests."""
        with suppress(OSError, Refused):
            self.ask("GET", "/connectors")
            return True
        return False


def check(broker: BrokerProcess) -> None:
    """Nothing went wrong inside the broker since it was started."""
    assert "Traceback" not in (log := broker.log_text()), log[log.index("Traceback") :][:3000]


def kill(broker: BrokerProcess) -> None:
    """Kill a broker with SIGKILL, and look at its log, which ends with it."""
    broker.kill()
    check(broker)
