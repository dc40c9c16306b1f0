"""Virtual time, processes and the trace: what every simulated thing stands on.

One seed gives one trace, byte for byte. So chance comes from named streams of one seed, and nothing that decides is
iterated in an order that a hash could change.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Coroutine, Generator
from heapq import heappop, heappush
from typing import Any

from ottla.broker.core.events import Event
from tests.shell.host import Timer


class Broken(AssertionError):
    """A promise was not kept."""


def expect(rule: str, actual: Any, wanted: Any) -> None:
    if actual != wanted:
        raise Broken(f"{rule}: {actual!r}, not {wanted!r}")


class Violation(AssertionError):
    """The coordinator did what it must not do. ``rule`` names the invariant."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{rule}: {what}")
        self.rule = rule


class Kernel:
    """A queue of things to happen, and the time. All times are in milliseconds."""

    WALL_START_MS = 1_700_000_000_000

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.now_ms = 1_000
        self.wall_offset_ms = self.WALL_START_MS
        self.notes: list[tuple[Any, ...]] = []
        self.trouble: BaseException | None = None
        """An error that was caught and only logged. It ends the run all the same."""
        self._queue: list[tuple[int, int, Callable[..., None], tuple[Any, ...], Timer | None]] = []
        self._sequence = 0

    # Time

    @property
    def wall_ms(self) -> int:
        return self.now_ms + self.wall_offset_ms

    def rng(self, name: str) -> random.Random:
        """A stream of its own for each decider, so that taking one away leaves the others' choices alone."""
        return random.Random(f"{self.seed}/{name}")

    def at(self, when_ms: int, call: Callable[..., None], *args: Any) -> None:
        """Let something happen at a time; things of one moment happen in the order in which they were planned."""
        self._sequence += 1
        heappush(self._queue, (max(when_ms, self.now_ms), self._sequence, call, args, None))

    def after(self, delay_ms: int, call: Callable[..., None], *args: Any) -> None:
        self._sequence += 1
        heappush(self._queue, (self.now_ms + delay_ms, self._sequence, call, args, None))

    def timer(self, when_ms: int, call: Callable[..., None], *args: Any) -> Timer:
        """The same, but it can be called off."""
        handle = Timer(when_ms, call)
        self._sequence += 1
        heappush(self._queue, (max(when_ms, self.now_ms), self._sequence, call, args, handle))
        return handle

    def run(self, until_ms: int, done: Callable[[], bool] | None = None) -> bool:
        """Let things happen until a time, or until ``done`` says so; whether it did."""
        queue = self._queue
        while queue and queue[0][0] <= until_ms:
            when_ms, _, call, args, handle = heappop(queue)
            if handle is not None and handle.cancelled:
                continue
            self.now_ms = when_ms
            call(*args)
            if self.trouble is not None:
                raise self.trouble
            if done is not None and done():
                return True
        self.now_ms = max(self.now_ms, until_ms)
        return False

    # Trace

    def note(self, text: str, *subjects: Any) -> None:
        """Remember what happened. It is put into words only if somebody reads it."""
        self.notes.append((self.now_ms, text, *subjects))

    def trace(self) -> list[str]:
        return [" ".join((f"{at_ms} {text}", *map(brief, subjects))) for at_ms, text, *subjects in self.notes]

    def trace_hash(self) -> str:
        return hashlib.sha256("\n".join(self.trace()).encode()).hexdigest()


class Process:
    """A generator that lives in virtual time.

    It yields a number to sleep so many milliseconds, or a call to send it and be given the answer, None if there was
    none in time.
    """

    def __init__(self, kernel: Kernel, life: Generator[Any, Any, None]) -> None:
        self._kernel = kernel
        self._life = life
        self._turn = 0
        self.running = True
        kernel.after(0, self._resume, 0, None)

    def _resume(self, turn: int, value: Any) -> None:
        if turn != self._turn:
            return
        self._turn += 1
        try:
            wish = self._life.send(value)
        except StopIteration:
            self.running = False
            return
        if isinstance(wish, int):
            self._kernel.after(wish, self._resume, self._turn, None)
        else:
            turn = self._turn
            wish.send(lambda answer: self._resume(turn, answer))
            self._kernel.after(wish.timeout_ms, self._resume, turn, None)


def run_now(work: Coroutine[Any, Any, Any]) -> Any:
    """Run what is declared async and never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited")


def brief(value: Any) -> str:
    """A message or an event in one line: what is set in it."""
    if isinstance(value, Event):
        return value.summary()
    if isinstance(value, list):
        return "[" + ", ".join(map(brief, value)) + "]"
    slots = getattr(type(value), "__slots__", None)
    if not slots:
        return repr(value) if isinstance(value, bytes | bool | None) else str(value)
    parts = [f"{name}={brief(item)}" for name in slots if (item := getattr(value, name)) and name != "topic_id"]
    return f"{type(value).__name__}({', '.join(parts)})"
