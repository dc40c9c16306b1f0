"""The asyncio shell of a `Conversation`: a socket, one timer for request timeouts, and awaitable requests."""

from __future__ import annotations

import asyncio
import random
import ssl
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar, cast

from ottla.clients.errors import (
    AuthenticationFailed,
    BrokerSilent,
    ClientClosed,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeout,
)
from ottla.clients.logs import log
from ottla.clients.security import OPEN, Security, authenticate
from ottla.clients.wire import Conversation, api_of
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ProtocolError
from ottla.protocol.schema import Message

R = TypeVar("R", bound=Message)

_OTHER_TIME = "the broker needs one that is good now, unless the clock here is wrong"
_OTHER_NAME = "connect by a name that it is for, or let the broker have one for this name"
_CERTIFICATE_ADVICE = {9: _OTHER_TIME, 10: _OTHER_TIME, 62: _OTHER_NAME, 64: _OTHER_NAME}
"""What to do about a certificate whose authority is not what is wrong, by OpenSSL's X509_V_ERR_."""

try:
    SOFTWARE = ("ottla", version("ottla"))
except PackageNotFoundError:  # run from a source tree that is not installed
    SOFTWARE = ("ottla", "0")


class ClientConnection(asyncio.Protocol):
    """A connection to one broker. Make it with `connect`.

    Args:
        client_id: sent with every request.
        max_frame_bytes: the longest answer accepted.
        security: TLS, and who the client is.

    Attributes:
        software: name and version that the broker is told (KIP-511).
    """

    software = SOFTWARE

    def __init__(self, client_id: str, *, max_frame_bytes: int = 256 << 20, security: Security = OPEN) -> None:
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
        self._security = security
        self._setup_timeout_ms = 0.0
        self._renew_at_ms: float | None = None
        self._renewal: asyncio.Task[None] | None = None

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_ms: float,
        security: Security = OPEN,
        max_frame_bytes: int = 256 << 20,
    ) -> ClientConnection:
        """Connect, learn the broker's versions, and tell it who we are.

        Raises:
            AuthenticationFailed: the broker does not accept that, or its certificate is not trusted.
            KafkaConnectionError: the broker cannot be reached, or hangs up.
            BrokerSilent: it takes longer than ``timeout_ms``.
        """
        loop = asyncio.get_running_loop()
        connection = cls(client_id, max_frame_bytes=max_frame_bytes, security=security)
        connection.address = f"{host}:{port}"
        connection._setup_timeout_ms = timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await loop.create_connection(lambda: connection, host, port, ssl=security.tls)
                connection._refuse_itself()
                connection.conversation.hello(connection._now(), timeout_ms, lambda: _settle(connection._ready, None))
                connection._flush()
                await connection._ready
                if security.exchange is not None:
                    await connection._authenticate()
        except TimeoutError:
            connection.close()
            raise BrokerSilent(connection.address, timeout_ms) from None
        except ssl.SSLCertVerificationError as error:
            advice = _CERTIFICATE_ADVICE.get(error.verify_code, "ssl_cafile names the authorities to trust")
            raise AuthenticationFailed(
                f"the certificate of {host}:{port} is not trusted: {error.verify_message.rstrip('.')}; {advice}"
            ) from None
        except OSError as error:
            reason = str(error) or "it closes the connection"  # asyncio says nothing where TLS ends before it began
            raise KafkaConnectionError(f"cannot connect to {host}:{port}: {reason}") from None
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
        return cast(R, await self._sent(request, timeout_ms, low=low, high=high, answered=answered))

    async def _sent(self, request: Message, timeout_ms: float, **more: Any) -> Message:
        future: asyncio.Future[Message] = self._loop.create_future()
        self.conversation.send(request, self._now(), timeout_ms, partial(_settle, future), **more)
        self._flush()
        return await future

    async def _may_write(self) -> None:
        self._check_open()
        while self._renew_at_ms is not None and self._now() >= self._renew_at_ms:
            await self._renewed()
            self._check_open()
        if (pause := self.conversation.throttled_until_ms - self._now()) > 0:
            await asyncio.sleep(pause / 1000)
        while not self._writable.is_set():
            await self._writable.wait()
        self._check_open()

    async def _renewed(self) -> None:
        """Authenticate again before the session ends, behind the requests that are open and ahead of all others."""
        if self._renewal is None:
            self._renewal = self._loop.create_task(self._renew())
        # Who sends may be cancelled, and the exchange has to be gone through all the same.
        await asyncio.wait([self._renewal])

    async def _renew(self) -> None:
        try:
            await self._authenticate()
        except Exception as error:
            self._renewal = None
            known = error if isinstance(error, KafkaError) else KafkaConnectionError(f"{self.address}: {error}")
            self.close(known)
        self._renewal = None

    async def _authenticate(self) -> None:
        """Go through a SASL exchange. What it has to be told of the session's end is kept."""
        assert self._security.exchange is not None

        async def ask(request: Message) -> Message:
            # Answers come in order: those of requests that wait at the broker come before.
            behind_ms = max(0.0, self.conversation.last_deadline_ms - self._now())
            low = 1 if api_of(type(request)).key is ApiKey.SASL_HANDSHAKE else 0  # after 0, tokens have no header
            return await self._sent(request, behind_ms + self._setup_timeout_ms, low=low)

        began_ms = self._now()
        exchange = await self._security.exchange()
        try:
            lifetime_ms = await authenticate(self._security, exchange, ask)
        except AuthenticationFailed as error:
            raise AuthenticationFailed(f"{self.address}: {error}", error.code) from None
        # Not all at once that were made at once (KIP-368).
        self._renew_at_ms = began_ms + lifetime_ms * random.uniform(0.85, 0.95) if lifetime_ms > 0 else None

    def _check_open(self) -> None:
        if self.closed or self._transport is None:
            raise self._reason or KafkaConnectionError(f"the connection to {self.address} is closed")

    def close(self, reason: KafkaError | None = None) -> None:
        """Close at once; open requests end with ``reason``."""
        self._reason = self._reason or reason or ClientClosed(f"the connection to {self.address} was closed")
        if self._transport is not None and not self._transport.is_closing():
            self._transport.abort()
        self._end()

    def is_to(self, address: tuple[str, int]) -> bool:
        """Whether this is where the connection goes, as a number: its broker may have been called by a name."""
        return self._transport is not None and self._transport.get_extra_info("peername", ())[:2] == address

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
        if self._renewal is not None:
            self._renewal.cancel()
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
