"""Reduce a trace to its shortest form: take moves out for as long as it still differs in the same way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

AT_ONCE = 8

Differs = Callable[[Sequence[int]], Awaitable[bool]]


async def shrunk(count: int, differs: Differs) -> list[int]:
    """Which of ``count`` moves are enough.

    Larger parts are tried first, then smaller ones; of parts that can each be left out, several are tried at a time
    and the first is taken. The result cannot do without any single one of its moves.
    """
    keep = list(range(count))
    size = max(count // 2, 1)
    while True:
        found = await _without_a_part(keep, size, differs)
        if found is not None:
            keep = found
        elif size == 1:
            return keep
        else:
            size = max(size // 2, 1)
        size = min(size, max(len(keep) // 2, 1))


async def _without_a_part(keep: list[int], size: int, differs: Differs) -> list[int] | None:
    """The trace without one of its parts of ``size`` moves, the last ones first; None if it needs each of them."""
    shorter = [keep[:at] + keep[at + size :] for at in range(0, len(keep), size)][::-1]
    for begin in range(0, len(shorter), AT_ONCE):
        tried = shorter[begin : begin + AT_ONCE]
        outcomes = await asyncio.gather(*(differs(part) for part in tried))
        for part, outcome in zip(tried, outcomes, strict=True):
            if outcome and part:
                return part
    return None
