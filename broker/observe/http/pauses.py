"""Lets others have their turn while a long answer is made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

TURN_S = 0.004
"""A heartbeat waits for so long at most, and half as long on average."""


class Pauses:
    """Awaited again and again by something that takes long, it pauses when a turn is over.

    Args:
        seconds: a clock.
    """

    def __init__(self, seconds: Callable[[], float] = perf_counter) -> None:
        self._seconds = seconds
        self._began = seconds()

    async def __call__(self) -> None:
        """Pause, if it is time."""
        if self._seconds() - self._began >= TURN_S:
            await asyncio.sleep(0)
            self._began = self._seconds()
