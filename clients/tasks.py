"""The background tasks of a client: kept alive, heard when they fail, gone when the client is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from ottla.clients.logs import log


class Tasks:
    """A set of running tasks. One that raises is logged: a task handles the errors that its owner expects."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self.closed = False

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run ``work`` in the background; after `close` it is not begun."""
        if self.closed:
            work.close()
            raise RuntimeError(f"{name}: the client is closed")
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=error)

    async def close(self) -> None:
        """Cancel all tasks and wait until they are done. The task that calls this is left alone."""
        self.closed = True
        others = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


async def set_within(event: asyncio.Event, timeout_s: float | None) -> None:
    """Wait until an event is set, or the time is over; None waits for ever."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await event.wait()
