"""The tries of one call: waits between them that grow, until the call's time is over."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

from ottla.clients.backoff import Backoff


class Tries:
    """How long a call may still take, and when it tries again.

    Args:
        now_ms: the clock.
        timeout_ms: how long the call may take, all tries together.
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
