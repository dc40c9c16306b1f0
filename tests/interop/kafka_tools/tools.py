"""Kafka's command-line tools, called one after the other in one JVM: starting one for each would take minutes."""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.interop.jvm import JAVA

CLASSES = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "configs": "kafka.admin.ConfigCommand|org.apache.kafka.tools.ConfigCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "acls": "org.apache.kafka.tools.AclCommand",
    "e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "streams-reset": "org.apache.kafka.tools.StreamsResetter",
    "transactional-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "members": "ottla.tools.Members",
    "open-transaction": "ottla.tools.OpenTransaction",
}


@dataclass(frozen=True, slots=True)
class Printed:
    """The result of a tool: its exit code and its output."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of its stdout that are not empty."""
        return [line.rstrip() for line in self.out.splitlines() if line.strip()]

    @property
    def rows(self) -> list[list[str]]:
        """Its lines as words: what tables are made of."""
        return [line.split() for line in self.lines]

    def __str__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Tools:
    """The JVM; use with ``with``. ``tools("topics", "--list")`` runs a tool against the broker."""

    def __init__(self, class_path: str, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._command = [*JAVA, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", class_path]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [*self._command, "ottla.tools.Tools"], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        )

    def __call__(self, tool: str, *arguments: object, stdin: str = "", code: int | None = 0) -> Printed:
        """Run a tool with ``--bootstrap-server`` added.

        Args:
            code: the exit code that it must have; None if any will do.

        Raises:
            AssertionError: it ended otherwise.
        """
        return self.bare(tool, "--bootstrap-server", self.bootstrap, *arguments, stdin=stdin, code=code)

    def bare(self, tool: str, *arguments: object, stdin: str = "", code: int | None = 0) -> Printed:
        """Run a tool with just these arguments."""
        if self._process is None or self._process.poll() is not None:
            self._process = self._start()
        assert self._process.stdin is not None
        words = [CLASSES[tool], *map(str, arguments)]
        packed = [word.encode() for word in words] + [stdin.encode()]
        call = struct.pack(">i", len(words)) + b"".join(struct.pack(">i", len(text)) + text for text in packed)
        self._process.stdin.write(call)
        self._process.stdin.flush()
        printed = Printed(self._int(), self._text(), self._text())
        assert code is None or printed.code == code, f"{tool} {' '.join(words[1:])}: {printed}"
        return printed

    def alone(self, tool: str, *arguments: object) -> Printed:
        """Run a tool in a JVM of its own: one that does its last work when the process ends."""
        command = [*self._command, CLASSES[tool], "--bootstrap-server", self.bootstrap, *map(str, arguments)]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
        )
        printed = Printed(done.returncode, done.stdout, done.stderr)
        assert printed.code == 0, f"{tool}: {printed}"
        return printed

    def _int(self) -> int:
        return int(struct.unpack(">i", self._read(4))[0])

    def _text(self) -> str:
        return self._read(self._int()).decode()

    def _read(self, size: int) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        data = self._process.stdout.read(size)
        if len(data) < size:
            raise AssertionError("the JVM of the tools has ended")
        return data

    def end(self) -> None:
        """Kill the JVM; whoever waits for a tool is told that it has ended. The next call starts another."""
        if self._process is not None:
            self._process.kill()


def class_path(cache: Path) -> str:
    return f"{cache / 'classes'}:{cache / 'jars'}/*"
