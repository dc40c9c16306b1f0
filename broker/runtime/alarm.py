"""The one timer of some machines, for whichever of them has a deadline first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.logger import Logger


class Machine(Protocol):
    """A part of the core that has deadlines and leaves effects."""

    effects: list[Any]

    def take_effects(self) -> list[Any]: ...
    def next_deadline_ms(self) -> int | None: ...
    def advance(self, now_ms: int, wall_ms: int) -> None: ...


class Alarm:
    """One timer, for the earliest deadline of some machines.

    Attributes:
        due_ms: when it rings; None if it is not set.
        is_off: it is never set again.
    """

    __slots__ = ("_clock", "_machines", "_report", "_settle", "_timer", "due_ms", "is_off")

    def __init__(self, clock: Clock, machines: list[Machine], report: Logger, settle: Callable[[], None]) -> None:
        self.due_ms: int | None = None
        self.is_off = False
        self._clock = clock
        self._machines = machines
        self._report = report
        self._settle = settle
        self._timer: TimerHandle | None = None

    def arm(self) -> None:
        """Set it anew if the earliest deadline is another than it was."""
        if self.is_off:
            return
        when_ms: int | None = None
        for machine in self._machines:
            due_ms = machine.next_deadline_ms()
            if due_ms is not None and (when_ms is None or due_ms < when_ms):
                when_ms = due_ms
        if when_ms == self.due_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self.due_ms = when_ms
        self._timer = None if when_ms is None else self._clock.call_at(when_ms, self.ring)

    def ring(self) -> None:
        """Let the machines handle what is due."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.due_ms = None
        now_ms, wall_ms = self._clock.monotonic_ms(), self._clock.wall_ms()
        for machine in self._machines:
            try:
                machine.advance(now_ms, wall_ms)
            except Exception:  # a bug in one deadline: the others are still due, and are handled by the next ring
                self._report.error("a deadline failed", of=type(machine).__name__, exc_info=True)
        self._settle()

    def turn_off(self) -> None:
        """Do not ring any more."""
        self.is_off = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.due_ms = None
