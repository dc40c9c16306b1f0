"""The load processes, as children of the test."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import IO, Self

from tests.chaos.events import Event, Trouble, event_of


class Worker:
    """A child process that tells `Event`s; they are put into a queue by a thread."""

    def __init__(self, name: str, module: str, arguments: Sequence[str], events: queue.SimpleQueue[Event]) -> None:
        self.name = name
        self._events = events
        command = [sys.executable, "-m", module, "--name", name, *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self._thread = threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True)
        self._thread.start()

    def _listen(self, pipe: IO[bytes]) -> None:
        for line in pipe:
            try:
                self._events.put(event_of(line.decode().rstrip("\n")))
            except ValueError as error:
                # The last line of a process that was killed may be cut off.
                if line.endswith(b"\n"):
                    self._events.put(Trouble(f"{self.name}: {error}"))

    def finish(self) -> None:
        """Tell it to deliver what it has, close its clients and end. Does not wait."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self, timeout_s: float) -> bool:
        """Whether it has ended, and everything that it told is in the queue."""
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def kill(self) -> None:
        """End it with SIGKILL; what it has told is in the queue afterwards."""
        self.process.kill()
        self.process.wait()
        self._thread.join(30)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Crew:
    """All workers. Use with ``with``: they are gone afterwards.

    Args:
        take: is given every event, by `drain`.
    """

    def __init__(self, take: Callable[[Event], None]) -> None:
        self._take = take
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.workers: dict[str, Worker] = {}

    def add(self, name: str, module: str, *arguments: str) -> Worker:
        """Start a worker; one of this name that ran before is replaced."""
        self.workers[name] = worker = Worker(name, module, arguments, self._events)
        return worker

    def drain(self) -> None:
        """Take what was told by now."""
        while not self._events.empty():
            self._take(self._events.get())

    def ended(self) -> list[str]:
        """The workers whose processes are gone, with their exit codes."""
        return [
            f"{worker.name} ended with {worker.process.returncode}"
            for worker in self.workers.values()
            if worker.process.poll() is not None
        ]

    def finish(self, timeout_s: float) -> list[str]:
        """Let all finish; give the names of those that do not."""
        for worker in self.workers.values():
            worker.finish()
        late = [worker.name for worker in self.workers.values() if not worker.wait(timeout_s)]
        self.drain()
        return late

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.kill()
