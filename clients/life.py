"""The life of a client: started once, used, stopped once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import ClassVar, Generic, Self, TypeVar

from ottla.clients.client import Client
from ottla.clients.errors import ClientClosed
from ottla.clients.options import ClientOptions

Opt = TypeVar("Opt", bound=ClientOptions)


class Life(Generic[Opt]):
    """The base of producer, consumer and admin client."""

    _noun: ClassVar[str]

    def __init__(self, options: Opt) -> None:
        self._options = options
        self._client: Client[Opt] | None = None
        self._state = "new"
        self._start: asyncio.Timeout | None = None

    async def start(self) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError

    async def _exit(self, *, finished: bool) -> None:
        """Stop. ``finished``: the user is done with what it was given."""
        await self.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._exit(finished=exc is None)

    @contextlib.asynccontextmanager
    async def _starting(self, *, auto_create: bool = False) -> AsyncIterator[Client[Opt]]:
        """Start the client in the block; at its end it runs, if it does not yet.

        Raises:
            ClientClosed: it was started before, or `_stop` was called meanwhile, which ends the block.
        """
        if self._state != "new":
            article = "an" if self._noun.startswith("a") else "a"
            raise ClientClosed(f"start() of {article} {self._noun} that is {self._state}: make a new one")
        self._state = "starting"
        self._client = client = Client(self._options, auto_create=auto_create)
        try:
            async with asyncio.timeout(None) as self._start:
                yield client
                if self._state in ("stopping", "stopped"):
                    raise TimeoutError
        except BaseException as error:
            self._start = None
            if self._state == "running":
                await self._exit(finished=False)
            elif self._state == "starting":
                self._state = "new"
                await client.close()
            elif not isinstance(error, asyncio.CancelledError):
                raise ClientClosed(f"the {self._noun} was stopped while start() was running") from None
            raise
        self._start = None
        self._state = "running"

    async def _stop(self, leave: Callable[[], Awaitable[None]] | None = None) -> None:
        """Close the client, after ``leave`` if it runs, and end a `start` under way. A second call does nothing."""
        before = self._state
        if before in ("stopping", "stopped"):
            return
        self._state = "stopping" if before == "running" else "stopped"
        if self._start is not None:
            self._start.reschedule(asyncio.get_running_loop().time())
        try:
            if before == "running" and leave is not None:
                await leave()
        finally:
            self._state = "stopped"
            if self._client is not None:
                await self._client.close()

    def _running(self, *, or_stopping: bool = False) -> Client[Opt]:
        """The client while it runs, or also while `stop` gives up what it holds.

        Raises:
            ClientClosed: it does not.
        """
        usable = ("running", "stopping") if or_stopping else ("running",)
        if self._state not in usable or self._client is None:
            raise ClientClosed(f"the {self._noun} is {self._state}: call start() first, and nothing after stop()")
        return self._client
