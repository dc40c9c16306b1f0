"""The fenced blocks of documents, and a shell that does what a reader would do with them."""

from __future__ import annotations

import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.processes import Child, without
from tests.support.waiting import PATIENCE_S, wait_for

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHANGE = re.compile(r"((?:^-.*\n)+)((?:^\+.*\n)+)", re.MULTILINE)
FAILED = re.compile(r"\d+ failed")
"""The last line of pytest's, which a document shows of tests that fail."""
END = "==end of command=="


@dataclass(frozen=True)
class Fence:
    """A fenced block: what stands behind the backticks, and what is between them."""

    language: str
    text: str

    @property
    def file_name(self) -> str | None:
        """The name in a comment at the top, under which the reader is to save it."""
        found = re.match(r"# ([\w-]+\.(?:py|yaml|properties))\n", self.text)
        return found[1] if found else None

    @property
    def has_tests(self) -> bool:
        """Whether it is a test file."""
        return self.language == "python" and re.search(r"^ *(async )?def test_", self.text, re.MULTILINE) is not None

    def commands(self) -> list[tuple[str, list[str]]]:
        """Of a ``console`` block each command, without its comment, with the output that is shown for it."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((re.sub(r"\s+# .*$", "", line[2:]), []))
            elif found and line.strip() and not line.lstrip().startswith("#"):
                found[-1][1].append(line)
        return found


def fences(path: Path) -> list[Fence]:
    """The blocks of a document, in order."""
    return [Fence(*found) for found in FENCE.findall(path.read_text(encoding="utf-8"))]


def shown(line: str) -> str:
    """A pattern for a line of output that a document shows: ``…`` is anything, and numbers are some number."""
    parts = re.split(r"(…|\s+|\d[\d.,:]*)", line.strip())
    return "".join(
        ".*" if part == "…" else r"\s+" if part.isspace() else r"\d[\d.,:]*" if part[:1].isdigit() else re.escape(part)
        for part in parts
    )


def lacking(expected: list[str], output: list[str]) -> list[str]:
    """The lines that are shown and do not come, in this order, in the output."""
    left = iter(output)
    wanted = [line for line in expected if line.strip() != "…"]
    return [line for line in wanted if not any(re.search(shown(line), got) for got in left)]


class Reader:
    """A shell in a folder of its own, in which a broker of the reader's has ports of its own.

    Args:
        home: an empty folder.
        commands: the folder of `python` and `ottla`.
        environment: more variables of the shell's.
    """

    def __init__(self, home: Path, commands: Path = Path(sys.executable).parent, **environment: str) -> None:
        self.home = home
        with socket.create_server(("127.0.0.1", 0)) as kafka, socket.create_server(("127.0.0.1", 0)) as http:
            self.bootstrap = f"127.0.0.1:{kafka.getsockname()[1]}"
            self.http_port = http.getsockname()[1]
        self._commands = commands
        self._lines: queue.Queue[str] = queue.Queue()
        self._environment = {
            **without("OTTLA_", "KAFKA_", "PIP_", "PYTEST_"),
            "PATH": f"{commands}:{os.environ['PATH']}",
            "OTTLA_BOOTSTRAP_SERVERS": self.bootstrap,
            "OTTLA_LISTENERS": f"PLAINTEXT://{self.bootstrap}",
            "PYTHONUNBUFFERED": "1",
            **environment,
        }

    def __enter__(self) -> Self:
        self._shell = self._started("bash", "--noprofile", "--norc", heard=self._lines.put, start_new_session=True)
        return self

    def __exit__(self, *error: object) -> None:
        os.killpg(self._shell.process.pid, signal.SIGKILL)
        self._shell.kill()

    def _started(self, *command: str, heard: Callable[[str], object], **options: Any) -> Child:
        return Child(command, heard, subprocess.STDOUT, self.home, env=self._environment, **options)

    def here(self, text: str) -> str:
        """A text of a document, with the reader's own ports."""
        return text.replace("localhost:9092", self.bootstrap).replace("9644", str(self.http_port))

    def follow(self, fence: Fence, without: tuple[str, ...] = ()) -> None:
        """Do what a block says, but for commands that begin with one of these texts.

        Raises:
            AssertionError: a command fails, or does not print what is shown.
        """
        if fence.file_name is not None:
            (self.home / fence.file_name).write_text(self.here(fence.text), encoding="utf-8")
        elif fence.language == "diff":
            self.change(fence.text)
        elif fence.language == "console":
            for command, expected in fence.commands():
                if not command.startswith(without):
                    self.say(command, expected, code=int(any(FAILED.match(line) for line in expected)))

    def change(self, diff: str) -> None:
        """Change a file of the reader's: lines with a minus become the lines with a plus that follow them."""
        head, _, changes = diff.partition("\n")
        path = self.home / head.removeprefix("--- ")
        text = path.read_text(encoding="utf-8")
        for old, new in CHANGE.findall(changes):
            old, new = (re.sub("^.", "", part, flags=re.MULTILINE) for part in (old, new))
            assert text.count(old) == 1, (path, old)
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")

    def say(self, command: str, expected: list[str] | None = None, code: int = 0) -> list[str]:
        """Run a command in the shell, and give its output."""
        self._shell.say(f"{{ {self.here(command)}\n}} < /dev/null\ncode=$?; echo; echo '{END}' $code")
        output: list[str] = []
        deadline = time.monotonic() + PATIENCE_S
        while not output or not output[-1].startswith(END):
            try:
                output.append(self._lines.get(timeout=max(0.0, deadline - time.monotonic())).rstrip("\n"))
            except queue.Empty:
                raise AssertionError(f"{command!r} takes longer than {PATIENCE_S} s: {output}") from None
        told = "\n".join(["", command, *output])
        assert int(output.pop().rpartition(" ")[2]) == code, told
        assert (missing := lacking([self.here(line) for line in expected or ()], output)) == [], (missing, told)
        if "ottla serve" in command and command.rstrip().endswith(("&", "$!")):
            wait_for(self._listens, "the broker to listen")
        return output

    def _listens(self) -> bool:
        host, _, port = self.bootstrap.partition(":")
        with socket.socket() as tried:
            return tried.connect_ex((host, int(port))) == 0

    def snippet(self, text: str, heard: Callable[[str], object]) -> Child:
        """A snippet of Python, in which ``await`` may stand at the top, as a process of its own."""
        runs = (
            "import ast, asyncio, sys; code = compile(sys.argv[1], 'snippet', 'exec', ast.PyCF_ALLOW_TOP_LEVEL_AWAIT);"
            "made = eval(code, {}); made and asyncio.run(made)"
        )
        return self._started(str(self._commands / "python"), "-c", runs, self.here(text), heard=heard)


def missing_tools(*names: str) -> tuple[str, ...]:
    """Those of these programs that this machine has not."""
    return tuple(name for name in names if shutil.which(name) is None)
