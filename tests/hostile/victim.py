"""A broker under attack, and honest groups beside it whose heartbeats are timed.

The broker and the honest clients are processes of their own, so that an attack that keeps this one busy delays neither
of them by more than the machine does.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ottla.testing.process import BrokerProcess

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Calm:
    """What honest groups felt, once they have been stopped. All in milliseconds but the count."""

    heartbeats: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    longest_ms: float = 0.0


class Victim(BrokerProcess):
    """``ottla serve`` under limits, as `BrokerProcess` runs it.

    Args:
        ulimit: arguments of the shell's ``ulimit``, one call each: ``("-n 1024",)`` sets the soft and the hard limit.
        listeners: protocols of more listeners, beside the one that asks nobody who he is.

    Attributes:
        ports: of those listeners, by protocol.
    """

    def __init__(
        self,
        data_dir: Path | str | None = None,
        *,
        ulimit: tuple[str, ...] = (),
        settings: Mapping[str, Any] | None = None,
        listeners: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        quick = {"group.initial.rebalance.delay.ms": 0}
        super().__init__(data_dir, settings=quick | dict(settings or {}), **options)
        self._ulimit = ulimit
        self.ports = {protocol: _free_port() for protocol in listeners}

    def start(self, timeout_s: float = 120) -> Self:
        """Start; there may be much to load."""
        return super().start(timeout_s)

    def command(self) -> list[str]:
        limits = "".join(f"ulimit {limit} && " for limit in self._ulimit)
        command = super().command()
        if self.ports:
            at = command.index("--listen")
            ports = {"PLAINTEXT": self.port} | self.ports
            named = ",".join(f"{protocol}://127.0.0.1:{port}" for protocol, port in ports.items())
            command[at : at + 2] = ["--set", f"listeners={named}"]
        return ["bash", "-c", f'{limits}exec "$@"', "bash", *command]

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def cpu_s(self) -> float:
        """Seconds of CPU that it has used, of all its threads."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def peak_bytes(self) -> int:
        """The most resident memory that it has had since it began, or since `forget_peak`."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) << 10

    def forget_peak(self) -> None:
        """Let `peak_bytes` count from now on."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5", encoding="ascii")

    @contextmanager
    def calm(self, groups: int = 4, interval_s: float = 0.01) -> Iterator[Calm]:
        """Let honest groups of one member each send heartbeats meanwhile; what they felt is known at the end.

        Raises:
            AssertionError: one was not answered, or not well.
        """
        felt = Calm()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.honest", str(self.port), str(groups), str(interval_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            assert process.stdout.readline() == "joined\n", "the honest groups could not join"
            yield felt
            told, _ = process.communicate("\n", timeout=60)
            assert process.returncode == 0, "an honest member was not answered, or not well"
            for name, value in json.loads(told).items():
                setattr(felt, name, value)
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


def _free_port() -> int:
    """A port that nobody has at this moment."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
