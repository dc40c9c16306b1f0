"""Waiting for conditions: no test here sleeps for a time that someone hopes is long enough."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 60.0
"""Patience for conditions that take a moment on an idle machine."""


def wait_for(
    condition: Callable[[], T],
    what: str,
    *,
    timeout_s: float = PATIENCE_S,
    show: Callable[[], object] = str,
    pause_s: float = 0.02,
) -> T:
    """Poll until the condition gives something true, and give that.

    Args:
        what: completes "waited for …" in the failure.
        show: the state of things, printed with the failure.
        pause_s: the time between two looks; more where a look costs something.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        if result := condition():
            return result
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s for {what}\n{show()}")
        time.sleep(pause_s)


async def until(condition: Callable[[], Awaitable[object]]) -> None:
    """The same within a loop, for a condition that takes a while to find out; whoever calls has a time-out."""
    while True:
        if await condition():
            return
        await asyncio.sleep(0.003)


def seconds_of(work: Callable[[], object]) -> float:
    """How long this takes."""
    started = time.monotonic()
    work()
    return time.monotonic() - started


def stays(
    condition: Callable[[], object], what: str, *, until: Callable[[], object], timeout_s: float = PATIENCE_S
) -> None:
    """Hold a condition against every moment until something else has happened."""

    def over() -> object:
        assert condition(), what
        return until()

    wait_for(over, f"the end of: {what}", timeout_s=timeout_s)
