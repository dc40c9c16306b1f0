"""`VirtualClock`: a clock that can be frozen, moved ahead, and made to go faster or slower than the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ottla.broker.clock import LoopClock


class VirtualClock:
    """A clock of the broker, for its event loop alone: it is not thread safe.

    Its time is that of the real clock times its pace, from wherever it stood last. Its wall time moves with it, and
    not when the machine's clock is set. A timer that has come due rings in the next turn of the loop, also while the
    clock stands; a clock that stands brings no other due.

    Attributes:
        real: the clock that it began as.
        pace: how fast it goes; 1 is as fast as the real one, and at 0 it is frozen.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.real = LoopClock(loop)
        self.pace = 1.0
        self._loop = loop
        self._timers: dict[_Timer, None] = {}
        self._base_real_ms = self._base_ms = loop.time() * 1000
        self._wall_ahead_ms = self.real.wall_ms() - int(self._base_ms)
        self._is_still = False

    # The clock of a broker

    def monotonic_ms(self) -> int:
        return int(self._now_ms())

    def wall_ms(self) -> int:
        return self.monotonic_ms() + self._wall_ahead_ms

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(self, when_ms, callback)
        self._timers[timer] = None
        if not self._is_still:
            self._schedule(timer)
        return timer

    # What a broker does not do

    def go(self, pace: float) -> None:
        """Go at another pace from now on. One that is kept still does so once it is let go of."""
        self._base_ms = self._now_ms()
        self._base_real_ms = self._loop.time() * 1000
        self.pace = pace
        self._reschedule()

    @contextmanager
    def still(self) -> Iterator[None]:
        """Keep it where it is, whatever its pace. It only moves by `move_to`, and timers only ring by `ring`."""
        self._base_ms = self._now_ms()
        self._is_still = True
        self._reschedule()
        try:
            yield
        finally:
            self._base_real_ms = self._loop.time() * 1000
            self._is_still = False
            self._reschedule()

    def move_to(self, now_ms: int) -> None:
        """Move a clock that is kept still ahead."""
        assert self._is_still and now_ms >= self.monotonic_ms(), "a clock never goes back"
        self._base_ms = float(now_ms)

    def ring(self) -> None:
        """Let all timers that are due ring once, in the next turn of the loop and in the order of their times."""
        now_ms = self.monotonic_ms()
        for timer in sorted((one for one in self._timers if one.when_ms <= now_ms), key=lambda one: one.when_ms):
            timer.handle = self._loop.call_soon(self._rings, timer)

    # inside

    def _now_ms(self) -> float:
        if self._is_still:
            return self._base_ms
        return self._base_ms + (self._loop.time() * 1000 - self._base_real_ms) * self.pace

    def _reschedule(self) -> None:
        for timer in self._timers:
            if timer.handle is not None:
                timer.handle.cancel()
                timer.handle = None
            if not self._is_still:
                self._schedule(timer)

    def _schedule(self, timer: _Timer) -> None:
        left_ms = timer.when_ms - self._now_ms()
        if left_ms <= 0:
            timer.handle = self._loop.call_soon(self._rings, timer)
        elif self.pace:
            # One millisecond later than it may be, as `LoopClock` does.
            timer.handle = self._loop.call_later((left_ms / self.pace + 1) / 1000, self._rings, timer)

    def _rings(self, timer: _Timer) -> None:
        timer.handle = None  # it knows the timer: no circle is to be left
        if timer.when_ms > self.monotonic_ms():  # the loop's timers are as exact as they are
            self._schedule(timer)
            return
        del self._timers[timer]
        timer.callback()

    def forget(self, timer: _Timer) -> None:
        """Take back a timer, which may have rung."""
        if timer in self._timers:
            del self._timers[timer]
            if timer.handle is not None:
                timer.handle.cancel()
                timer.handle = None


class _Timer:
    """A call that waits for its time; ``handle`` is that of the loop, while there is one."""

    __slots__ = ("_clock", "callback", "handle", "when_ms")

    def __init__(self, clock: VirtualClock, when_ms: int, callback: Callable[[], None]) -> None:
        self.when_ms = when_ms
        self.callback = callback
        self.handle: asyncio.Handle | None = None
        self._clock = clock

    def cancel(self) -> None:
        """Do not call; nothing happens if it was called."""
        self._clock.forget(self)
