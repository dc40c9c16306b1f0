"""The HTTP port of a broker: uvicorn's protocol on the broker's own event loop.

uvicorn's `Server` is left out: it would take the process's signals, keep a clock of its own, and set up logging.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h11
import msgspec
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from ottla.broker.observe.http.access import Access, cookie_name
from ottla.broker.observe.http.address import is_loopback, parse_address, url_of
from ottla.broker.observe.http.parts import Health, Log, Parts
from ottla.broker.observe.http.problems import MEDIA_TYPE, ProblemDetails, problem
from ottla.broker.observe.http.routes import application, health_routes, starlette
from ottla.broker.observe.http.stream import Feed
from ottla.broker.settings import BadSetting, Settings

KEEP_ALIVE_S = 75
REQUEST_S = 30
"""A request has to be there so long after the connection, or its own first byte, was."""
STOP_S = 2.0
MOST_HEADER_BYTES = 131_072
"""Of the request line and the headers. The longest name that Kafka's protocol can hold takes 98,301 once encoded."""


class HttpPort:
    """Serves what there is to see of a broker. It answers health from the start, and the rest once there are parts.

    Args:
        host, port: where to listen; port 0 for any free one.
        token: what has to be sent to see more than health, empty for nothing.
        max_connections: more are closed at once.
        stream_max_bytes: how far a reader of the stream may be behind.
    """

    def __init__(
        self,
        host: str,
        port: int,
        log: Log,
        *,
        token: str = "",
        max_connections: int = 128,
        stream_max_bytes: int = 1 << 20,
    ) -> None:
        self.host, self.port = host, port
        self.health = Health()
        self._log = log
        self._token = token
        self._max_connections = max_connections
        self._stream_max_bytes = stream_max_bytes
        self._app: ASGIApp = starlette(health_routes(self.health))
        self._feed: Feed | None = None
        self._server: asyncio.Server | None = None
        self._state = ServerState()

    @classmethod
    def of(cls, settings: Settings, log: Log) -> HttpPort:
        """The port that the settings want.

        Raises:
            ottla.broker.settings.BadSetting: there can be none.
            OSError, UnicodeDecodeError: the token cannot be read.
        """
        host, port = parse_address(settings.ottla_http_listen, "ottla.http.listen")
        return cls(
            host,
            port,
            log,
            token=_token(settings.ottla_http_token_file),
            max_connections=settings.ottla_http_max_connections,
            stream_max_bytes=settings.ottla_http_stream_max_bytes,
        )

    @property
    def url(self) -> str:
        """Where this machine's browser finds the console."""
        return url_of(self.host, self.port)

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is not ours or is taken.
        """
        loop = asyncio.get_running_loop()
        sock = _bind(self.host, self.port)
        self.port = sock.getsockname()[1]
        access = Access(
            self._serve,
            self._log,
            host=self.host,
            token=self._token,
            secret=secrets.token_bytes(32),
            cookie=cookie_name(self.port),
        )
        config = uvicorn.Config(
            access,
            http=H11Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            h11_max_incomplete_event_size=MOST_HEADER_BYTES,
        )
        config.load()
        self._server = await loop.create_server(
            lambda: _Connection(config, self._state, loop, self._log, lambda: self._max_connections), sock=sock
        )

    def tell_ready(self) -> None:
        """Log where it is, and who may reach it."""
        self._log.info("HTTP", url=self.url)
        if not is_loopback(self.host):
            fields = {"listen": f"{self.host}:{self.port}"}
            if self._token:
                self._log.info("HTTP is open to other machines, for those who know the token", **fields)
            else:
                self._log.warning("HTTP is open to other machines: whoever reaches it sees all groups", **fields)

    def open(self, parts: Parts) -> None:
        """Show everything."""
        parts.health = self.health
        self.health.status = "ready"
        self._feed = Feed(parts, self._log, self._stream_max_bytes)
        self._app = application(parts, self._feed, protected=bool(self._token))

    def stopping(self) -> None:
        """Say that the broker is not ready any more, and end every stream."""
        self.health.status = "stopping"
        if self._feed is not None:
            self._feed.stop()

    async def stop(self) -> None:
        """End every stream at once, finish what is being answered, and close."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._max_connections = 0  # some may be on their way
        if self._feed is not None:
            self._feed.stop()
        for connection in list(self._state.connections):
            connection.shutdown()
        await self._finish()
        for task in list(self._state.tasks):
            task.cancel()
        for connection in list(self._state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # who was aborted is told now
        await self._finish()
        await asyncio.sleep(0)  # and those who waited for it

    async def _finish(self) -> None:
        """Wait a while for what is being answered."""
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=STOP_S)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._feed is None and scope["path"] not in ("/healthz", "/readyz"):
            await problem(503, "the broker is starting", {"Retry-After": "1"})(scope, receive, send)
        else:
            await self._app(scope, receive, send)


class _Connection(H11Protocol):
    """One connection, of so many at most; it says nothing to loggers of the process."""

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        loop: asyncio.AbstractEventLoop,
        log: Log,
        max_connections: Callable[[], int],
    ) -> None:
        super().__init__(config, state, {"abort": self._abort}, loop)
        self.logger = _Lines(log)  # type: ignore[assignment]
        self.access_log = False
        self._log = log
        self._max_connections = max_connections
        self._request_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= self._max_connections():
            self._log.debug("Too many HTTP connections, closing the newest", limit=self._max_connections())
            self.connection_lost = lambda exc: None  # type: ignore[method-assign]
            transport.abort()
            return
        super().connection_made(transport)
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._wait_for_request()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait_for_request(self) -> None:
        """Whoever sends a byte now and then must not hold one of so few connections for good."""
        if self._request_timer is None:
            self._request_timer = self.loop.call_later(REQUEST_S, self._abort)

    def _stop_waiting(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def send_400_response(self, msg: str) -> None:
        """What cannot be read as HTTP, or is too long, is a problem as every other."""
        body = msgspec.json.encode(ProblemDetails("Bad Request", 400, f"{msg} Or it is too long."))
        headers = [("content-type", MEDIA_TYPE), ("content-length", str(len(body))), ("connection", "close")]
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _abort(self) -> None:
        self.transport.abort()


class _Lines:
    """Takes what uvicorn logs."""

    level = 100
    """None of its traces."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def warning(self, text: str, *arguments: Any) -> None:
        """What clients do wrong."""
        self._log.debug("HTTP", reason=text % arguments)

    info = warning

    def error(self, text: str, *arguments: Any, exc_info: Any = None) -> None:
        """What went wrong here."""
        self._log.debug("HTTP", reason=(text % arguments).strip(), exc_info=exc_info)


def _bind(host: str, port: int) -> socket.socket:
    """A bound TCP socket."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server(address[:2], family=family, backlog=128, dualstack_ipv6=host == "::")


def _token(file: str) -> str:
    if not file:
        return ""
    token = Path(file).read_text(encoding="utf-8").strip()
    if not token:
        raise BadSetting(f"ottla.http.token.file={file!r}: there is no token in it")
    return token
