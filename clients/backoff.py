"""Waiting longer after each failure (KIP-580)."""

from __future__ import annotations

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
        """One of the same kind, without failures."""
        return Backoff(self._initial_ms, self._max_ms, self._draw)

    def next_ms(self) -> float:
        """The wait after one more failure."""
        wait = min(self._max_ms, self._initial_ms * 2.0 ** min(self.failures, 30))
        self.failures += 1
        return wait * (1 - JITTER + 2 * JITTER * self._draw())

    def reset(self) -> None:
        """It worked: begin anew."""
        self.failures = 0
