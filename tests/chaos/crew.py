"""The load processes, as children of the test."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable, Sequence
from typing import Self

from tests.chaos.events import Event, Trouble, event_of
from tests.support.processes import Child


class Worker(Child):
    """A child process that tells `Event`s; they are put into a queue by a thread."""

    def __init__(self, name: str, module: str, arguments: Sequence[str], events: queue.SimpleQueue[Event]) -> None:
        self.name = name
        self._events = events
        super().__init__([sys.executable, "-m", module, "--name", name, *arguments], self._heard)

    def _heard(self, line: str) -> None:
        try:
            self._events.put(event_of(line.rstrip("\n")))
        except ValueError as error:
            if line.endswith("\n"):
                self._events.put(Trouble(f"{self.name}: {error}"))


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
            if not worker.runs
        ]

    def write_no_more(self) -> None:
        """Let those end that write; all the others go on."""
        for worker in self.workers.values():
            worker.say("enough")

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
