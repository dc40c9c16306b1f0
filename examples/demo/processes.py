"""The processes of the demo: the broker, the producer and the members, each with a log file of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path


class Failed(Exception):
    """The demo cannot go on; the message says what happened, ``look_at`` where to look."""

    def __init__(self, message: str, *look_at: Path) -> None:
        super().__init__(message)
        self.look_at = look_at


class Process:
    """A Python module run as a process. Its standard error goes to a file.

    Args:
        alone: Ctrl-C in the terminal does not reach it.
        environment: variables that it has besides.
    """

    def __init__(
        self, name: str, log: Path, *arguments: str, alone: bool = False, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        self._alone = alone
        self._environment = dict(environment or {})
        self._command = (sys.executable, "-m", *arguments)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    async def start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=log,
                process_group=0 if self._alone else None,
                env=os.environ | self._environment,
            )

    async def first_line(self, timeout_s: float) -> str:
        """The first line of its standard output.

        Raises:
            Failed: it ended, or took too long.
        """
        assert self._process is not None and self._process.stdout is not None
        try:
            async with asyncio.timeout(timeout_s):
                line = (await self._process.stdout.readline()).decode().strip()
        except TimeoutError:
            raise Failed(f"{self.name} was not ready within {timeout_s:.0f} s", self.log) from None
        if not line:
            raise Failed(f"{self.name} ended instead of starting", self.log)
        return line

    def tell(self, text: str) -> None:
        """Write a line to its standard input."""
        if self._process is not None and self._process.stdin is not None and self.alive:
            self._process.stdin.write(f"{text}\n".encode())

    async def ended(self, timeout_s: float) -> None:
        """Wait until it ends by itself.

        Raises:
            Failed: it says that it failed, or takes too long.
        """
        assert self._process is not None
        try:
            async with asyncio.timeout(timeout_s):
                code = await self._process.wait()
        except TimeoutError:
            raise Failed(f"{self.name} did not end within {timeout_s:.0f} s", self.log) from None
        if code:
            raise Failed(f"{self.name} ended with exit code {code}", self.log)

    async def stop(self, timeout_s: float = 20) -> int:
        """SIGTERM, and wait for the end; SIGKILL if it does not come.

        Raises:
            Failed: it had to be killed.
        """
        if self._process is None:
            return 0
        if self.alive:
            self._process.terminate()
        try:
            async with asyncio.timeout(timeout_s):
                return await self._process.wait()
        except TimeoutError:
            await self.kill()
            raise Failed(f"{self.name} did not end within {timeout_s:.0f} s of SIGTERM", self.log) from None

    async def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            if self.alive:
                self._process.send_signal(signal.SIGKILL)
            await self._process.wait()
