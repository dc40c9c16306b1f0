"""The HTTP port of a broker: uvicorn's protocol on the broker's own event loop.

uvicorn's `Server` is left out: it would take the process's signals, keep a clock of its own, and set up logging.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import h11
import msgspec
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from ottla.broker.clock import LoopClock
from ottla.broker.endpoints import told_hosts
from ottla.broker.logger import Logger
from ottla.broker.net.socket_server import TLS
from ottla.broker.settings import Settings
from ottla.observe.http.access import Access
from ottla.observe.http.address import is_loopback, parse_address, url_of
from ottla.observe.http.api import Endpoint
from ottla.observe.http.crowd import first_to_go
from ottla.observe.http.handshakes import Handshakes
from ottla.observe.http.parts import Health, Parts
from ottla.observe.http.pauses import Turns
from ottla.observe.http.problems import MEDIA_TYPE, ProblemDetails, problem
from ottla.observe.http.routes import application, health_routes, starlette
from ottla.observe.http.stream import Feed
from ottla.observe.http.tokens import Tokens
from ottla.observe.http.visitors import Visitor

if TYPE_CHECKING:
    from ottla.broker.net.tls import Contexts

KEEP_ALIVE_S = 75
REQUEST_S = 5
"""A request has to be there so long after the connection, or its own first byte, was; and a TLS handshake be over."""
UNREAD_S = 30
"""A client that reads nothing of an answer for so long is given up."""
MOST_UNREAD_BYTES = 64 << 20
"""Of all answers together that were made, and that clients have not read."""
STOP_S = 2.0
FEWEST_WAIT = 8
"""So many requests of a console at least may wait for their answers: browsers send six at once."""
MOST_HEADER_BYTES = 131_072
"""Of the request line and the headers. The longest name that Kafka's protocol can hold takes 98,301 once encoded."""
COOKIE_WITH_TLS = "__Host-ottla"
"""A browser takes a cookie of this name from this host alone, by TLS alone (RFC 6265bis)."""
PIECE_BYTES = 16_384
"""So much at once is given to h11, which lets headers be longer than their bound by that."""


class HttpPort:
    """Serves what there is to see of a broker. It answers health from the start, and the rest once there are parts.

    When one connection too many comes, one that waits for its client is closed, or else the new one. Streams are half
    of them at most.

    Raises:
        ottla.broker.settings.BadSetting: there can be none.
        OSError, UnicodeDecodeError: the token cannot be read.
    """

    def __init__(self, settings: Settings, log: Logger) -> None:
        self.host, self.port = parse_address(settings.ottla_http_listen, "ottla.http.listen")
        self.health = Health()
        self._log = log
        self._contexts = _contexts(settings)
        self._watching: asyncio.Task[None] | None = None
        file = settings.ottla_http_token_file
        self._clock = LoopClock(asyncio.get_running_loop())
        self._tokens = Tokens(file, log, self._clock.monotonic_ms) if file else None
        named = [one.strip() for one in settings.ottla_http_allowed_hosts.split(",") if one.strip()]
        # Nobody but this machine reaches loopback, by names of its own.
        self._allowed_hosts = named if is_loopback(self.host) else [*named, socket.gethostname(), *told_hosts(settings)]
        self._access: Access
        self._max_connections = settings.ottla_http_max_connections
        self._stream_max_bytes = settings.ottla_http_stream_max_bytes
        self._app: ASGIApp = starlette(health_routes(self.health))
        self._feed: Feed | None = None
        self._server: asyncio.Server | None = None
        self._handshakes: Handshakes | None = None  # in the place of that, with TLS
        self._state = ServerState()

    @property
    def url(self) -> str:
        """URL of the console for a browser on this machine."""
        return url_of(self.host, self.port, "https" if self._contexts is not None else "http")

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: the address is not ours or is taken.
        """
        loop = asyncio.get_running_loop()
        sock = _bind(self.host, self.port)
        self.port = sock.getsockname()[1]
        self._access = Access(
            self._serve,
            self._log,
            host=self.host,
            tokens=self._tokens,
            allowed_hosts=self._allowed_hosts,
            now_ms=self._clock.monotonic_ms,
            cookie=COOKIE_WITH_TLS if self._contexts is not None else f"ottla-{self.port}",
            has_tls=self._contexts is not None,
        )
        config = uvicorn.Config(
            self._access,
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

        def connection() -> _Connection:
            return _Connection(config, self._state, loop, self._log, lambda: self._max_connections)

        if (contexts := self._contexts) is None:
            self._server = await loop.create_server(connection, sock=sock)
        else:
            contexts.tell_doubts(self._log)
            self._watching = loop.create_task(contexts.watch(self._log, self._clock))

            def failed(address: str, reason: str) -> None:
                self._access.tell_failed(Visitor.of("ANONYMOUS", address), TLS, f"TLS handshake: {reason}")

            self._handshakes = Handshakes(sock, contexts, connection, lambda: self._max_connections, REQUEST_S, failed)

    def tell_ready(self) -> None:
        """Log where it is, and who may reach it."""
        self._log.info("HTTP", url=self.url)
        if not is_loopback(self.host):
            fields = {"listen": f"{self.host}:{self.port}"}
            if self._tokens is not None:
                self._log.info("HTTP is open to other machines, for those who know the token", **fields)
            else:
                self._log.warning("HTTP is open to other machines: whoever reaches it sees all groups", **fields)
            if self._contexts is None:
                self._log.warning("HTTP is open to other machines without TLS: say --http-tls", **fields)

    def allow(self, host: str) -> None:
        """Take the name of this machine that clients of the broker are told for ours."""
        if not is_loopback(self.host):
            self._access.allow(host)

    def open(self, parts: Parts, more: Sequence[Endpoint] = ()) -> None:
        """Show everything; ``more`` are endpoints besides those of every broker."""
        parts.health = self.health
        self._access.tell_failed, self._access.tell_entered = parts.tell_failed, parts.tell_entered
        self.health.status = "ready"
        self._feed = Feed(parts, self._log, self._stream_max_bytes, max(self._max_connections // 2, 1))
        turns = Turns(max(self._max_connections // 4, FEWEST_WAIT))
        self._app = application(parts, self._feed, turns, protected=self._tokens is not None, more=more)

    def certificates_end(self) -> dict[str, int]:
        """When the certificate of the port ends, in Unix milliseconds; nothing without TLS."""
        return {} if self._contexts is None else {"HTTP": self._contexts.ends_ms}

    def look_at_keys(self) -> None:
        """Read the files of keys and certificates now."""
        if self._contexts is not None:
            self._contexts.look_soon()

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
        if self._handshakes is not None:
            await self._handshakes.stop()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
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
            self._shed()

    def _shed(self) -> None:
        """Give clients up that read too little of what they asked for, so that it does not pile up."""
        unread = {one: size for one in _guests(self._state) if (size := one.transport.get_write_buffer_size())}
        while len(unread) > 1 and sum(unread.values()) > MOST_UNREAD_BYTES:
            crowded = max(unread, key=unread.__getitem__)
            del unread[crowded]
            crowded.give_up()


_turns = count(1)
"""Numbers connections in the order in which they began to wait: many do so in the same millisecond."""


class _Connection(H11Protocol):
    """One connection, of so many at most; it says nothing to loggers of the process."""

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        loop: asyncio.AbstractEventLoop,
        log: Logger,
        max_connections: Callable[[], int],
    ) -> None:
        super().__init__(config, state, {"abort": self._abort}, loop)
        self.logger = _Lines(log)  # type: ignore[assignment]
        self.access_log = False
        self._log = log
        self._max_connections = max_connections
        self._request_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None
        self._unread_bytes = 0
        self._turn = 0
        self._refused = False

    @property
    def address(self) -> str:
        """The client's host."""
        return self.client[0] if self.client else ""

    @property
    def waits(self) -> bool:
        """True while it is the client's turn: to send a request or the rest of one, or to read the answer."""
        answered = self.cycle is None or self.cycle.response_complete
        return answered or self.conn.their_state is h11.SEND_BODY

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._turn = next(_turns)
        self._wait_for_request()
        if len(self.connections) > self._max_connections():
            self._make_room()

    def _make_room(self) -> None:
        """Close the connection that has waited for its client for longest, of the address with most; or this one."""
        most, guests = self._max_connections(), _guests(self.server_state)
        waiting = [one for one in guests if one.waits and one is not self] if most else []
        crowded = first_to_go(guests, sorted(waiting, key=lambda one: one._turn)) or self
        self._log.debug("Too many HTTP connections, closing one", limit=most, of=crowded.address)
        crowded.give_up()

    def give_up(self) -> None:
        """Close at once, and count no more."""
        self.connections.discard(self)
        self._abort()

    def data_received(self, data: bytes) -> None:
        if self._refused or self.transport.is_closing():
            return
        # h11 looks at the bound only while headers are not whole: in one piece they would pass at any length.
        for start in range(0, len(data), PIECE_BYTES):
            super().data_received(data[start : start + PIECE_BYTES])
            if self._refused or self.transport.is_closing():
                return
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._wait_for_request()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._turn = next(_turns)
        if self._unread_timer is None and self.transport.get_write_buffer_size():
            self._unread_bytes = self.transport.get_write_buffer_size()
            self._unread_timer = self.loop.call_later(UNREAD_S, self._look_at_unread)
        super().on_response_complete()

    def _look_at_unread(self) -> None:
        """Whoever reads on may take long."""
        self._unread_timer, before = None, self._unread_bytes
        self._unread_bytes = self.transport.get_write_buffer_size()
        if self._unread_bytes >= before:
            self._abort()
        elif self._unread_bytes:
            self._unread_timer = self.loop.call_later(UNREAD_S, self._look_at_unread)

    def _wait_for_request(self) -> None:
        """Whoever sends a byte now and then must not hold one of so few connections for good."""
        if self._request_timer is None:
            self._request_timer = self.loop.call_later(REQUEST_S, self._abort)

    def _stop_waiting(self) -> None:
        if self._request_timer is not None:
            self._request_timer.cancel()
            self._request_timer = None

    def send_400_response(self, msg: str) -> None:
        """Answer a request that is too long or no HTTP with a problem, as every other error."""
        body = msgspec.json.encode(ProblemDetails("Bad Request", 400, f"{msg} Or it is too long."))
        headers = [("content-type", MEDIA_TYPE), ("content-length", str(len(body))), ("connection", "close")]
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            # Closed with something unread, the connection would be reset, and the client might not see the answer.
            self._refused = True
            if self.transport.can_write_eof():
                self.transport.write_eof()
                self._wait_for_request()
            else:  # TLS has an end of its own, for both directions
                self.transport.close()
        else:
            self.transport.close()

    def _abort(self) -> None:
        self.transport.abort()


def _guests(state: ServerState) -> list[_Connection]:
    """All connections."""
    return [one for one in state.connections if isinstance(one, _Connection)]


class _Lines:
    """Takes what uvicorn logs."""

    level = 100
    """None of its traces."""

    def __init__(self, log: Logger) -> None:
        self._log = log

    def warning(self, text: str, *arguments: Any) -> None:
        """Log an error of a client."""
        self._log.debug("HTTP", reason=text % arguments)

    info = warning

    def error(self, text: str, *arguments: Any, exc_info: Any = None) -> None:
        """Log an error of ours."""
        self._log.debug("HTTP", reason=(text % arguments).strip(), exc_info=exc_info)


def _bind(host: str, port: int) -> socket.socket:
    """A bound TCP socket."""
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    return socket.create_server(address[:2], family=family, backlog=128, dualstack_ipv6=host == "::")


def _contexts(settings: Settings) -> Contexts | None:
    if not settings.ottla_http_tls:
        return None
    from ottla.broker.net.tls import contexts_of_http

    return contexts_of_http(settings)
