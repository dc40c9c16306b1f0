"""Lets others have their turn while a long answer is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import perf_counter

from ottla.observe.http.problems import Problem

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


class Turns:
    """Makes answers one after the other: of many that are made at once each would take a turn of its own.

    Args:
        most: so many wait at most, which bounds what becomes of requests whose clients are gone.
    """

    def __init__(self, most: int) -> None:
        self._one_by_one = asyncio.Lock()
        self._most = most
        self._waiting = 0

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Wait for a turn, and have it for as long as the block lasts. Raises `Problem`."""
        if self._waiting >= self._most:
            raise Problem(503, "too many requests wait for their answers: try again in a second")
        self._waiting += 1
        try:
            await self._one_by_one.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
            await asyncio.sleep(0)  # what takes no time to wait for is a turn, too
        finally:
            self._one_by_one.release()
