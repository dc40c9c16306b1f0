"""Work of requests that takes long: a step at a time between everything else, one request's at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from ottla.broker.context import RequestContext
from ottla.broker.logger import Logger
from ottla.broker.runtime.reading import come
from ottla.protocol.steps import NEXT_IN_LINE, Later, Step, Steps


class LongWork:
    """A line of requests. Only the first one works, so what that holds in memory is held once.

    Whoever closes his connection leaves the line; so it is never longer than there are connections.

    Args:
        name: of the thread in which the heavy parts are done, one after the other.
    """

    def __init__(self, name: str, log: Logger) -> None:
        self._log = log
        self._line: dict[RequestContext, tuple[Steps[None], Callable[[], Any]]] = {}
        self._thread = ThreadPoolExecutor(1, name)
        self._task: asyncio.Task[None] | None = None

    def __call__(self, steps: Steps[None], ctx: RequestContext, failed: Callable[[], Any]) -> None:
        """Do the work when its time comes; `ottla.broker.handlers.services.LongWork`."""
        self._line[ctx] = steps, failed
        ctx.on_close = partial(self._leave, ctx)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def _leave(self, ctx: RequestContext) -> None:
        self._line.pop(ctx, None)

    async def stop(self) -> None:
        """Leave what is not done undone."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown(wait=False)

    async def _run(self) -> None:
        while self._line:
            ctx, (steps, failed) = next(iter(self._line.items()))
            try:
                is_done = await self._turn(ctx, steps)
            except Exception:
                self._log.error("Cannot do what takes long", exc_info=True)
                self._fail(ctx, failed)
                is_done = True
            work = self._line.pop(ctx, None)
            if work is None:
                steps.close()
            elif is_done:
                ctx.on_close = None
            else:
                self._line[ctx] = work
        self._task = None

    def _fail(self, ctx: RequestContext, failed: Callable[[], Any]) -> None:
        """Say that it failed; whatever comes of that, those behind have their turn."""
        try:
            ctx.reply(failed())
        except Exception:
            self._log.error("Cannot say that it failed", exc_info=True)
            ctx.close("what takes long has failed, and its answer as well")

    async def _turn(self, ctx: RequestContext, steps: Steps[None]) -> bool:
        """Take steps until the next in line has a turn, or the client is gone; whether that was all."""
        loop = asyncio.get_running_loop()
        try:
            step: Step = next(steps)
            while step is not NEXT_IN_LINE and ctx in self._line:
                if callable(step):
                    try:
                        result = await loop.run_in_executor(self._thread, step)
                    except Exception as error:
                        step = steps.throw(error)
                    else:
                        step = steps.send(result)
                else:
                    await (come(step) if isinstance(step, Later) else asyncio.sleep(0))
                    step = next(steps)
        except StopIteration:
            return True
        return False
