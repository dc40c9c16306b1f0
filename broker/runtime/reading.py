"""Reading logs whose batches may have to be fetched first, from tasks: whoever waits lets others have their turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ottla.broker.engine import Log, NotHere
from ottla.protocol.steps import Later, Steps

_T = TypeVar("_T")


async def come(later: Later) -> None:
    """Wait until it has come."""
    has_come = asyncio.Event()
    later.then(has_come.set)
    await has_come.wait()


async def read_when_here(
    log: Log, start_offset: int, *, max_bytes: int, upto_offset: int | None = None, min_one_batch: bool = True
) -> bytes:
    """`Log.read`, which waits for what is not here yet. Raises ``OffsetOutOfRange`` and other ``EngineError``."""
    while True:
        try:
            return log.read(start_offset, max_bytes=max_bytes, upto_offset=upto_offset, min_one_batch=min_one_batch)
        except NotHere as later:
            await come(later)


async def _here(work: Callable[[], Any]) -> Any:
    return work()


async def in_turns(steps: Steps[_T], call: Callable[[Callable[[], Any]], Awaitable[Any]] = _here) -> _T:
    """Take all the steps, with turns for others in between, and return what comes of them.

    Args:
        call: does the heavy parts; by default they are done on the event loop.
    """
    try:
        step = next(steps)
        while True:
            if callable(step):
                try:
                    result = await call(step)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
            else:
                await (come(step) if isinstance(step, Later) else asyncio.sleep(0))
                step = next(steps)
    except StopIteration as stop:
        outcome: _T = stop.value
        return outcome
