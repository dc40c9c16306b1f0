"""A broker in a process of its own, for tests that kill it."""

from __future__ import annotations

import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from ottla.testing.topics import GivenTopics, setting_text, wanted_topics

OWN_PORTS = (10_000, 32_000)
"""Below those of outgoing connections, which begin at 32768 on Linux and later elsewhere."""


class BrokerProcess:
    """``ottla serve`` as a child process, of which ``nodes`` may be more than one. Use with ``with``.

    Args:
        data_dir: where its logs live; None runs it with ``--ephemeral``.
        settings: Kafka's setting names and values. With ``listeners`` among them it listens there, and the first is
            the address that it gives; name their ports, so that `restart` finds them again.
        topics: those to create: names, which get one partition each, or a dict of names and partition counts.
        port: 0 for any free one; `restart` keeps the port that was found.
        nodes: so many nodes share ``data_dir``, at that port and the next ones; None: one broker, without a supervisor.
            ``bootstrap_servers`` has all of them, ``port`` and ``http_url`` are those of the first.
        http: whether to serve console, metrics and HTTP API, on a port of this machine that `restart` keeps.
        arguments: more arguments of ``ottla serve``.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        topics: GivenTopics = None,
        port: int = 0,
        nodes: int | None = None,
        http: bool = False,
        arguments: tuple[str, ...] = (),
    ) -> None:
        self._data_dir = data_dir
        self._settings = dict(settings or {})
        self._topics = wanted_topics(topics)
        if settled := [topic.name for topic in self._topics if topic.configs]:
            raise TypeError(f"topics: settings of {settled[0]!r} are for Broker; here, give them by an admin client")
        self._nodes = nodes
        arguments = arguments if nodes is None else (*arguments, "--nodes", str(nodes))
        self._arguments = (*arguments, "--http", str(_free_port(nodes or 1))) if http else arguments
        self._http = http
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None
        self.port = port or (0 if nodes is None else _free_port(nodes))
        self.bootstrap_servers = ""

    @property
    def pid(self) -> int:
        """The process id while it runs."""
        assert self._process is not None, "the broker does not run"
        return self._process.pid

    @property
    def http_url(self) -> str:
        """``http://127.0.0.1:port``: where the console is, and the HTTP API."""
        if not self._http:
            raise RuntimeError("the broker serves no HTTP: say BrokerProcess(http=True)")
        return f"http://127.0.0.1:{self._arguments[-1]}"

    def command(self) -> list[str]:
        """The command line that runs it."""
        command = [sys.executable, "-m", "ottla.cli", "serve"]
        command += [] if "listeners" in self._settings else ["--listen", f"127.0.0.1:{self.port}"]
        command += ["--ephemeral"] if self._data_dir is None else ["--data-dir", str(self._data_dir)]
        for key, value in self._settings.items():
            command += ["--set", f"{key}={setting_text(value)}"]
        for topic in self._topics:
            command += ["--create-topic", f"{topic.name}:{topic.partition_count}"]
        return [*command, *self._arguments]

    def start(self, timeout_s: float = 30) -> Self:
        """Start and wait until it has printed its address.

        Raises:
            RuntimeError: it ended, or was not ready in time; the message has the end of its log.
        """
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - it lives as long as the process
        self._process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=self._log, text=True)
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        address = self._process.stdout.readline().strip() if readable else ""
        if not address:
            self.kill()
            raise RuntimeError(f"the broker did not start:\n{self.log_text()[-4000:]}")
        self.bootstrap_servers = address
        self.port = int(address.split(",")[0].rpartition(":")[2])
        return self

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._reap()

    def stop(self, timeout_s: float = 20) -> int:
        """End it with SIGTERM and give its exit code; SIGKILL if it takes longer than the timeout."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._reap()
        return code

    def restart(self) -> Self:
        """Start again on the same port and data, after `kill` or `stop`; one that runs is stopped first."""
        self.stop()
        deadline = time.monotonic() + 10
        while True:
            try:
                return self.start()
            except RuntimeError:
                # The port may still be held by connections of the process that was killed.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def log_text(self) -> str:
        """The log since it was last started."""
        if self._log is None:
            return ""
        self._log.seek(0)
        return self._log.read()

    def rss_bytes(self) -> int:
        """Resident memory of the process (Linux)."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None


def _free_port(count: int = 1) -> int:
    """The first of so many ports in a row that nobody has at this moment.

    None that systems give to outgoing connections: such a one could take the port of a node that is down for a moment,
    and a client that connects to a port where nobody listens may even reach itself.
    """
    while True:
        port = random.SystemRandom().randrange(*OWN_PORTS)
        with ExitStack() as taken, suppress(OSError):
            for one in range(port, port + count):
                taken.enter_context(socket.create_server(("127.0.0.1", one)))
            return port
