"""The real clock: an event loop's monotonic time, and the machine's wall time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ottla.broker.clock import TimerHandle


class LoopClock:
    """See `ottla.broker.clock.Clock`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._time = loop.time

    def monotonic_ms(self) -> int:
        return int(self._time() * 1000)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def call_at(self, when_ms: int, callback: Callable[[], None]) -> TimerHandle:
        # One millisecond later than asked: the loop's clock is finer than ours and must not fire before `when_ms`.
        return self._loop.call_at((when_ms + 1) / 1000, callback)
