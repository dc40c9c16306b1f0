"""A bound on log lines that clients cause."""

from __future__ import annotations

from ottla.broker.clock import Clock


class RateLimit:
    """Lets through so many log lines a period, and counts the rest: clients reconnect several times a second."""

    def __init__(self, clock: Clock, lines: int = 20, period_ms: int = 10_000) -> None:
        self._clock, self._lines, self._period_ms = clock, lines, period_ms
        self._since_ms, self._used = 0, 0
        self.suppressed = 0

    def allows(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._since_ms >= self._period_ms:
            self._since_ms, self._used = now_ms, 0
        self._used += 1
        if self._used > self._lines:
            self.suppressed += 1
            return False
        return True
