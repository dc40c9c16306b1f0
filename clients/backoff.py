"""Waiting longer after each failure (KIP-580), until a call's time is over."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable

JITTER = 0.2


class Backoff:
    """Waits that double from ``initial_ms`` to ``max_ms``, each within ±20 % so that clients do not march in step.

    Args:
        draw: a number in [0, 1); ``random.random`` unless told.
    """

    def __init__(self, initial_ms: float, max_ms: float, draw: Callable[[], float] = random.random) -> None:
        self._initial_ms = initial_ms
        self._max_ms = max(initial_ms, max_ms)
        self._draw = draw
        self.failures = 0

    def another(self) -> Backoff:
        """The same waits, from the beginning."""
        return Backoff(self._initial_ms, self._max_ms, self._draw)

    def next_ms(self) -> float:
        """The wait after one more failure."""
        wait = min(self._max_ms, self._initial_ms * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return wait * (1 - JITTER + 2 * JITTER * self._draw())

    def reset(self) -> None:
        """Begin anew after a success."""
        self.failures = 0


class Tries:
    """The time that a call may still take, and the waits before its next tries.

    Args:
        now_ms: the clock.
        timeout_ms: the time for all tries together.
        backoff: the waits.
    """

    def __init__(self, now_ms: Callable[[], float], timeout_ms: float, backoff: Backoff) -> None:
        self._now_ms = now_ms
        self._backoff = backoff
        self.deadline_ms = now_ms() + timeout_ms

    @property
    def over(self) -> bool:
        return self._now_ms() >= self.deadline_ms

    def request_timeout_ms(self, most_ms: float) -> float:
        """The timeout of one request: the time that is left, within 1 and ``most_ms``."""
        return max(1.0, min(most_ms, self.deadline_ms - self._now_ms()))

    def next_pause_ms(self, most_ms: float = math.inf) -> float | None:
        """The wait before the next try; None if the time would be over after it."""
        pause_ms = min(self._backoff.next_ms(), most_ms)
        return None if self._now_ms() + pause_ms >= self.deadline_ms else pause_ms

    async def again(self, most_ms: float = math.inf) -> bool:
        """Wait before the next try. False, without a wait, if there is no time for one."""
        pause_ms = self.next_pause_ms(most_ms)
        if pause_ms is not None:
            await asyncio.sleep(pause_ms / 1000)
        return pause_ms is not None
