"""Work that takes long: a step at a time between everything else. That of requests is done one request's at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from ottla.broker.context import RequestContext
from ottla.broker.logger import Logger
from ottla.broker.runtime.reading import come, in_turns
from ottla.protocol.steps import NEXT_IN_LINE, Later, Step, Steps


class _Work(NamedTuple):
    """The work of a request.

    Attributes:
        leave: what the closing of its connection calls.
    """

    steps: Steps[None]
    failed: Callable[[], Any]
    leave: Callable[[], None]


class LongWork:
    """A line of requests. Only the first one works, so what that holds in memory is held once.

    Whoever closes his connection leaves the line; so it is never longer than there are connections.

    Args:
        name: of the thread in which the heavy parts are done, one after the other.
    """

    def __init__(self, name: str, log: Logger) -> None:
        self._log = log
        self._line: dict[RequestContext, _Work] = {}
        self._thread = ThreadPoolExecutor(1, name)
        self._task: asyncio.Task[None] | None = None

    def __call__(self, steps: Steps[None], ctx: RequestContext, failed: Callable[[], Any]) -> None:
        """Do the work when its time comes; `ottla.broker.handlers.services.LongWork`."""
        leave = ctx.on_close = partial(self._leave, ctx)
        self._line[ctx] = _Work(steps, failed, leave)
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
            ctx, work = next(iter(self._line.items()))
            try:
                is_done = await self._turn(ctx, work)
            except Exception:
                self._log.error("Cannot do what takes long", exc_info=True)
                self._fail(ctx, work.failed)
                is_done = True
            if self._line.get(ctx) is not work:  # the client is gone, or the work has put other work in its place
                work.steps.close()
                continue
            del self._line[ctx]
            if not is_done:
                self._line[ctx] = work
            elif ctx.on_close is work.leave:
                ctx.on_close = None
        self._task = None

    def _fail(self, ctx: RequestContext, failed: Callable[[], Any]) -> None:
        """Say that it failed; whatever comes of that, those behind have their turn."""
        try:
            ctx.reply(failed())
        except Exception:
            self._log.error("Cannot say that it failed", exc_info=True)
            ctx.close("what takes long has failed, and its answer as well")

    async def _turn(self, ctx: RequestContext, work: _Work) -> bool:
        """Take steps until the next in line has a turn, or the client is gone; whether that was all."""
        loop, steps = asyncio.get_running_loop(), work.steps
        try:
            step: Step = next(steps)
            while step is not NEXT_IN_LINE and self._line.get(ctx) is work:
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


class WorkApart:
    """Work of which no single request is the owner; `ottla.broker.runtime.host.Host` has it done.

    Args:
        name: of the thread in which the heavy parts are done, one after the other.
    """

    def __init__(self, name: str, log: Logger) -> None:
        self._log = log
        self._thread = ThreadPoolExecutor(1, name)
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(self, steps: Steps[Any], done: Callable[[Any], None]) -> None:
        """Do the work, and call back with what comes of it, None if it fails."""
        task = asyncio.get_running_loop().create_task(self._run(steps, done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Leave what is not done undone."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, steps: Steps[Any], done: Callable[[Any], None]) -> None:
        try:
            outcome = await in_turns(steps, self._in_thread)
        except Exception:
            self._log.error("Cannot do what takes long", exc_info=True)
            outcome = None
        done(outcome)

    async def _in_thread(self, step: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, step)
