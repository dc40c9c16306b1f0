"""Programs that tests run to their end, or beside themselves."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]


def run(
    *command: str | Path,
    timeout_s: float = 120,
    code: int = 0,
    stdin: str = "",
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a program, in the repository's root unless told otherwise, which must end with this exit code; gives what it
    printed.
    """
    done = subprocess.run(
        command, cwd=cwd, env=env, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == code, f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def without(*prefixes: str) -> dict[str, str]:
    """The environment without the variables whose names begin so."""
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def python(module: str, *arguments: str, timeout_s: float = 120, code: int = 0) -> str:
    """The same of a Python module, such as ``ottla.cli``."""
    return run(sys.executable, "-m", module, *arguments, timeout_s=timeout_s, code=code)


class Child:
    """A program that runs beside the test. A thread hears what it prints.

    Args:
        heard: is given every line with its end, which only the last line of one that is killed may not have.
        stderr, options: as of `subprocess.Popen`.
    """

    def __init__(
        self,
        command: Sequence[str],
        heard: Callable[[str], object],
        stderr: int | IO[str] | None = None,
        cwd: Path = ROOT,
        **options: Any,
    ) -> None:
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": stderr}
        self.process = subprocess.Popen(command, cwd=cwd, text=True, errors="replace", **streams, **options)
        self._thread = threading.Thread(target=self._listen, args=(heard,), daemon=True)
        self._thread.start()

    def _listen(self, heard: Callable[[str], object]) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            heard(line)

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def say(self, word: str) -> None:
        """Write a line to it.

        Raises:
            BrokenPipeError: it has ended.
        """
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def finish(self) -> None:
        """End its standard input. Does not wait."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end: whether it has ended, and everything that it printed was heard."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def kill(self) -> None:
        """End it with SIGKILL; what it has printed was heard afterwards."""
        self.process.kill()
        self.wait(30)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
