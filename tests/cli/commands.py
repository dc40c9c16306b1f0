"""`ottla …` for tests: in this process, or in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from click.testing import CliRunner, Result

from ottla.cli.main import command


class Ottla:
    """Runs `ottla …` and looks at what it printed.

    Args:
        bootstrap: the broker that commands ask unless they name another.
    """

    def __init__(self, bootstrap: str | None = None) -> None:
        self.bootstrap = bootstrap

    def run(self, *arguments: object, expect: int | None = 0, given: str | None = None) -> Result:
        """In this process; fails the test on another exit code, unless any will do."""
        runner = CliRunner(env={"OTTLA_BOOTSTRAP_SERVERS": self.bootstrap})
        result = runner.invoke(command, [str(one) for one in arguments], prog_name="ottla", input=given)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert expect in (None, result.exit_code), result.output
        return result

    def rows(self, *arguments: object) -> list[list[str]]:
        """The words of each line of standard output."""
        return [line.split() for line in self.run(*arguments).stdout.splitlines()]

    def json(self, *arguments: object, expect: int = 0) -> Any:
        """The document that ``--format json`` prints."""
        return json.loads(self.run(*arguments, "--format", "json", expect=expect).stdout)

    def lines(self, *arguments: object, expect: int = 0) -> list[dict[str, Any]]:
        """The objects that ``--format json`` prints, one a line."""
        printed = self.run(*arguments, "--format", "json", expect=expect).stdout
        return [json.loads(line) for line in printed.splitlines()]

    def send(self, topic: str, data: bytes, *options: str) -> Result:
        """`ottla produce` of a file."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(data)
            file.flush()
            return self.run("produce", topic, file.name, *options)

    def read(self, *arguments: str) -> bytes:
        """The output of `ottla consume`."""
        return self.run("consume", *arguments).stdout_bytes

    def make_group(self, name: str, topic: str = "orders") -> None:
        """A group that stands at the end of a topic."""
        self.run("groups", "reset-offsets", name, "-t", topic, "--to-latest", "--execute", "--create")

    def spawn(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """In a process of its own."""
        environment = {**os.environ, "OTTLA_BOOTSTRAP_SERVERS": self.bootstrap or "", **options.pop("env", {})}
        return subprocess.Popen([sys.executable, "-m", "ottla.cli", *arguments], env=environment, **options)

    def process(self, *arguments: str, given: bytes = b"", expect: int = 0) -> subprocess.CompletedProcess[bytes]:
        """In a process of its own, with real pipes, until it ends."""
        pipe = subprocess.PIPE
        with self.spawn(*arguments, stdin=pipe, stdout=pipe, stderr=pipe) as process:
            try:
                out, err = process.communicate(given, timeout=60)
            finally:
                process.kill()
        assert process.returncode == expect, err.decode()
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)


HERE = Ottla()
"""For commands that ask no broker, or the one that they name."""
