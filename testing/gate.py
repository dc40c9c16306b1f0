"""What stops a node of a test without ending it, as SIGSTOP stops a process: whatever comes for it waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.storage.postgres.database import Answer, Session, Statement


class Gate:
    """The way into a node. While it is closed what comes waits, in its order."""

    def __init__(self) -> None:
        self.is_closed = False
        self._waiting: deque[Callable[[], None]] = deque()

    def enter(self, call: Callable[..., None], *args: Any) -> None:
        """Call, now or when it opens."""
        if self.is_closed:
            self._waiting.append(partial(call, *args))
        else:
            call(*args)

    def close(self) -> None:
        """Let nothing in."""
        self.is_closed = True

    def open(self) -> None:
        """Let in what waits, and what comes."""
        self.is_closed = False
        while self._waiting and not self.is_closed:
            self._waiting.popleft()()


class _GatedTimer:
    """A timer of a node; one that has rung at a closed gate can still be cancelled."""

    def __init__(self, gate: Gate, callback: Callable[[], None]) -> None:
        self.handle: TimerHandle | None = None
        self._gate = gate
        self._callback: Callable[[], None] | None = callback

    def rings(self) -> None:
        self._gate.enter(self._call)

    def _call(self) -> None:
        if self._callback is not None:
            self._callback()

    def cancel(self) -> None:
        self._callback = None
        if self.handle is not None:
            self.handle.cancel()


class GatedClock:
    """The clock of a node: that of all nodes, whose timers ring behind the gate."""

    def __init__(self, clock: Clock, gate: Gate) -> None:
        self._clock = clock
        self._gate = gate
        self._real = self if clock.real is clock else GatedClock(clock.real, gate)
        self.monotonic_ms = clock.monotonic_ms
        self.wall_ms = clock.wall_ms

    @property
    def real(self) -> GatedClock:
        return self._real

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> _GatedTimer:
        timer = _GatedTimer(self._gate, callback)
        timer.handle = self._clock.call_at(when_ms, timer.rings)
        return timer


class GatedSession:
    """A connection of a node to its database, whose answers come through the gate."""

    def __init__(self, session: Session, gate: Gate) -> None:
        self.on_lost: Callable[[], None] = lambda: None
        self.number = session.number
        self.server = session.server
        self._session = session
        self._gate = gate
        session.on_lost = lambda: gate.enter(self._lost)

    def _lost(self) -> None:
        self.on_lost()

    def send(self, statement: Statement, answered: Callable[[Answer], None]) -> None:
        self._gate.enter(self._session.send, statement, partial(self._gate.enter, answered))

    def abort(self) -> None:
        self._session.abort()
