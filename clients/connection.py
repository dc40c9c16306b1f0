"""The asyncio shell of a `Conversation`: a socket, one timer for request timeouts, and awaitable requests."""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar, cast

from ottla.clients.errors import ClientClosed, KafkaConnectionError, KafkaError, KafkaTimeout
from ottla.clients.logs import log
from ottla.clients.wire import Conversation
from ottla.protocol.errors import ProtocolError
from ottla.protocol.schema import Message

R = TypeVar("R", bound=Message)

try:
    SOFTWARE = ("ottla", version("ottla"))
except PackageNotFoundError:  # run from a source tree that is not installed
    SOFTWARE = ("ottla", "0")


class ClientConnection(asyncio.Protocol):
    """A connection to one broker. Make it with `connect`.

    Args:
        client_id: sent with every request.
        max_frame_bytes: the longest answer accepted.

    Attributes:
        software: name and version that the broker is told (KIP-511).
    """

    software = SOFTWARE

    def __init__(self, client_id: str, *, max_frame_bytes: int = 256 << 20) -> None:
        self.conversation = Conversation(client_id, self.software, max_frame_bytes)
        self.address = "?"
        self.last_used_ms = 0.0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._reason: KafkaError | None = None

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_ms: float,
        ssl_context: ssl.SSLContext | None = None,
        max_frame_bytes: int = 256 << 20,
    ) -> ClientConnection:
        """Connect, and learn the broker's versions.

        Raises:
            KafkaConnectionError: the broker cannot be reached, or hangs up.
            KafkaTimeout: it takes longer than ``timeout_ms``.
        """
        loop = asyncio.get_running_loop()
        connection = cls(client_id, max_frame_bytes=max_frame_bytes)
        connection.address = f"{host}:{port}"
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await loop.create_connection(lambda: connection, host, port, ssl=ssl_context)
                connection._refuse_itself()
                connection.conversation.hello(connection._now(), timeout_ms, lambda: _settle(connection._ready, None))
                connection._flush()
                await connection._ready
        except TimeoutError:
            connection.close()
            raise KafkaTimeout(f"no connection to {host}:{port} in {timeout_ms:.0f} ms") from None
        except OSError as error:
            raise KafkaConnectionError(f"cannot connect to {host}:{port}: {error}") from None
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def closed(self) -> bool:
        return self._reason is not None

    async def send(
        self,
        request: Message,
        answer: type[R],
        *,
        timeout_ms: float,
        low: int = 0,
        high: int = 1 << 15,
        answered: bool = True,
    ) -> R:
        """Send a request and return its answer.

        When the awaiting task is cancelled, the answer is dropped when it comes; the connection stays usable.

        Raises:
            KafkaConnectionError: the connection broke before the answer came.
            KafkaTimeout: no answer came in time; the connection is closed then.
            UnsupportedByBroker: no version in common.
        """
        await self._may_write()
        future: asyncio.Future[Any] = self._loop.create_future()
        self.conversation.send(
            request, self._now(), timeout_ms, partial(_settle, future), low=low, high=high, answered=answered
        )
        self._flush()
        return cast(R, await future)

    async def _may_write(self) -> None:
        self._check_open()
        if (pause := self.conversation.throttled_until_ms - self._now()) > 0:
            await asyncio.sleep(pause / 1000)
        while not self._writable.is_set():
            await self._writable.wait()
        self._check_open()

    def _check_open(self) -> None:
        if self.closed or self._transport is None:
            raise self._reason or KafkaConnectionError(f"the connection to {self.address} is closed")

    def close(self, reason: KafkaError | None = None) -> None:
        """Close at once; open requests end with ``reason``."""
        self._reason = self._reason or reason or ClientClosed(f"the connection to {self.address} was closed")
        if self._transport is not None and not self._transport.is_closing():
            self._transport.abort()
        self._end()

    async def wait_closed(self) -> None:
        """Wait until the socket is gone."""
        if self._transport is not None:
            await asyncio.shield(self._closed)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self.conversation.receive(data, self._now())
        except ProtocolError as error:
            log.warning("%s: %s; closing the connection", self.address, error)
            self.close(KafkaConnectionError(f"{self.address} broke the protocol: {error}"))
        except KafkaError as error:
            self.close(error)
        else:
            self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        why = f": {exc}" if exc else ""
        self._reason = self._reason or KafkaConnectionError(f"{self.address} closed the connection{why}")
        self._end()
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # inside

    def _now(self) -> float:
        return self._loop.time() * 1000

    def _refuse_itself(self) -> None:
        """While nobody listens at a port of the ephemeral range, a connection to it may be given that port as its own
        and succeed, to itself; and the broker that comes back could not have the port.
        """
        assert self._transport is not None
        ours, theirs = (self._transport.get_extra_info(name) for name in ("sockname", "peername"))
        if ours is not None and ours == theirs:
            raise KafkaConnectionError(f"{self.address}: nobody listens there")

    def _flush(self) -> None:
        self.last_used_ms = self._now()
        if self._transport is not None and (output := self.conversation.take_output()):
            self._transport.write(output)
        deadline = self.conversation.next_deadline_ms()
        if deadline is None:
            return
        # One timer, re-armed when it fires too early: most requests are answered long before they time out.
        if self._timer is None or self._timer.when() * 1000 > deadline:
            self._arm(deadline)

    def _arm(self, deadline_ms: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline_ms / 1000, self._check_timeouts)

    def _check_timeouts(self) -> None:
        self._timer = None
        try:
            self.conversation.advance(self._now())
        except KafkaTimeout as error:
            self.close(KafkaTimeout(f"{self.address}: {error}"))
        else:
            if (deadline := self.conversation.next_deadline_ms()) is not None:
                self._arm(deadline)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._writable.set()
        reason = self._reason or KafkaConnectionError(f"the connection to {self.address} is closed")
        if self._transport is None and not self._closed.done():
            self._closed.set_result(None)
        self.conversation.lost(reason)
        if not self._ready.done():
            self._ready.set_exception(reason)
            self._ready.exception()  # retrieved: whoever awaits it gets it, and nobody is warned if no one does


def _settle(future: asyncio.Future[Any], outcome: Any) -> None:
    if future.done():
        return
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
