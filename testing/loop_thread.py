"""An event loop in a daemon thread of this process, and the way to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """See the module."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop, while it runs."""
        assert self._loop is not None, "the broker does not run"
        return self._loop

    def start(self) -> None:
        """Start the loop."""
        self._loop = _new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ottla-broker", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End it, and wait for its thread. Nothing happens if it does not run."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float = 30) -> T:
        """Run a coroutine on the loop and give its result."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(timeout_s)
        finally:
            future.cancel()  # it does not go on for somebody who has given up

    async def call_async(self, work: Coroutine[Any, Any, T]) -> T:
        """The same as `call` for who has an event loop of its own, which goes on meanwhile."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def run(self, function: Callable[[], T]) -> T:
        """Call a function on the loop and give its result."""

        async def call() -> T:
            return function()

        return self.call(call())


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:  # not made for every platform
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop
