"""Running kcat."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType

PATIENCE_S = 30.0
CONSUMER_PROTOCOL = ("-X", "group.protocol=consumer")
_MOVED = re.compile(
    r"rebalanced(?:: incremental (assign|revoke)\w* of .*| \(memberid [^)]*\)): (?:(assign|revok)ed: ?)?(.*)"
)
_PLACE = re.compile(r"\[(\d+)\]")


class Kcat:
    """kcat and a broker.

    Attributes:
        closing: ends what still runs when a scenario is over.

    Args:
        libraries: where it finds a librdkafka, in the place of the system's.
        settings: librdkafka's, for everything that it does.
    """

    def __init__(
        self,
        bootstrap: str,
        closing: ExitStack,
        libraries: Path | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.bootstrap = bootstrap
        self.closing = closing
        self.libraries = libraries
        self._options = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
        self._environment = None if libraries is None else {**os.environ, "LD_LIBRARY_PATH": str(libraries)}

    def command(self, *arguments: str) -> list[str]:
        return ["kcat", "-b", self.bootstrap, *self._options, *arguments]

    def __call__(self, *arguments: str, stdin: str | bytes = "", fails: bool = False) -> str:
        """Run it to its end; give what it writes, and if it is to fail what it complains of."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(self.command(*arguments), input=data, capture_output=True, timeout=PATIENCE_S * 2,
                              env=self._environment, check=False)  # fmt: skip
        out, notes = done.stdout.decode(), done.stderr.decode()
        assert (done.returncode != 0) == fails, f"kcat {' '.join(arguments)}: {done.returncode}\n{out[-500:]}\n{notes}"
        return notes if fails else out

    def start(self, *arguments: str) -> Running:
        """Start one that runs until it is told to end, or the scenario is over."""
        directory = Path(self.closing.enter_context(tempfile.TemporaryDirectory()))
        running = Running(self.command(*arguments), directory, self._environment)
        self.closing.callback(running.kill)
        return running

    def member(self, group: str, topic: str, *options: str) -> Running:
        """A member of a group, that writes partition, offset and value of what it gets."""
        # In groups of the consumer protocol the broker decides how often.
        often = [] if CONSUMER_PROTOCOL[1] in options else ["-X", "heartbeat.interval.ms=300"]
        fixed = ["-X", "auto.offset.reset=earliest", "-f", "%p %o %s\\n"]
        return self.start("-u", *often, *fixed, *options, "-G", group, topic)


class Running:
    """A kcat that was started; what it reads is given with `write`."""

    def __init__(self, command: list[str], directory: Path, environment: Mapping[str, str] | None = None) -> None:
        self._out, self._notes = directory / "out", directory / "notes"
        with self._out.open("wb") as out, self._notes.open("wb") as notes:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=notes, env=environment)

    def write(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text.encode())
        self._process.stdin.flush()

    @property
    def rows(self) -> list[tuple[int, int, str]]:
        whole_lines = self._out.read_text("utf-8").rpartition("\n")[0].splitlines()
        fields = [line.split(" ", 2) for line in whole_lines]
        return [(int(partition), int(offset), value) for partition, offset, value in fields]

    @property
    def values(self) -> list[str]:
        return [value for _, _, value in self.rows]

    @property
    def notes(self) -> str:
        return self._notes.read_text("utf-8")

    @property
    def moves(self) -> list[tuple[str, set[int]]]:
        """The assignments and revocations so far."""
        found = filter(None, map(_MOVED.search, self.notes.splitlines()))
        kinds = {True: "assigned", False: "revoked"}
        return [(kinds["assign" in (one[1], one[2])], set(map(int, _PLACE.findall(one[3])))) for one in found]

    @property
    def owns(self) -> set[int]:
        owned: set[int] = set()
        for kind, places in self.moves:
            owned = owned | places if kind == "assigned" else owned - places
        return owned

    def stop(self, signal_number: int = signal.SIGTERM) -> None:
        """End it as its users do: a member leaves its group."""
        self._process.send_signal(signal_number)
        if self._process.stdin is not None:
            self._process.stdin.close()  # a producer finds out when it has something to read, or nothing any more
        self._process.wait(PATIENCE_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
