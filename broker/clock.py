"""The clock: an interface for every room, and the real one."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """Something scheduled that can still be called off."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Two times that are never mixed: one for intervals and deadlines, one for what is written down."""

    @property
    def real(self) -> Clock:
        """The clock of sockets, disks and those who wait at them: it is never virtual."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds since some fixed moment; never goes back."""
        ...

    def wall_ms(self) -> int:
        """Unix time in milliseconds; may jump when the machine's clock is set."""
        ...

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Call back once `monotonic_ms` has reached ``when_ms``."""
        ...


class LoopClock:
    """The real clock: an event loop's monotonic time, and the machine's wall time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._time = loop.time

    @property
    def real(self) -> LoopClock:
        return self

    def monotonic_ms(self) -> int:
        return int(self._time() * 1000)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> TimerHandle:
        # One millisecond later than asked: the loop's clock is finer than ours and must not fire before `when_ms`.
        return self._loop.call_at((when_ms + 1) / 1000, callback)


class LeaseClock(LoopClock):
    """The real clock of a node whose leases others count: its monotonic time goes on while the machine sleeps."""

    _ID = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC

    def monotonic_ms(self) -> int:
        return time.clock_gettime_ns(self._ID) // 1_000_000

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> TimerHandle:
        return self._loop.call_later(max(0, when_ms + 1 - self.monotonic_ms()) / 1000, callback)
