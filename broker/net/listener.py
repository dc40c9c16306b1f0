"""The listening socket, and what concerns all of its connections: their number, idleness, memory and end."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from typing import Any, Protocol

from ottla.broker.clock import Clock, TimerHandle
from ottla.broker.context import Mute
from ottla.broker.net.connection import Connection, Frame
from ottla.broker.net.large_frame import buffers
from ottla.broker.settings import Settings

# Connections whose unfinished request is smaller than this are always read: they can finish, and so give memory back.
ALWAYS_ROOM_BYTES = 1 << 20
SWEEPS_PER_IDLE_TIME = 8


class Log(Protocol):
    """Where connections that come, go wrong and go are noted."""

    def debug(self, event: str, **fields: Any) -> Any: ...
    def warning(self, event: str, **fields: Any) -> Any: ...


class RateLimit:
    """Lets through so many log lines a period, and counts the rest: clients reconnect several times a second."""

    def __init__(self, clock: Clock, lines: int = 20, period_ms: int = 10_000) -> None:
        self._clock, self._lines, self._period_ms = clock, lines, period_ms
        self._since_ms, self._used = 0, 0
        self.suppressed = 0

    def allows(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._since_ms >= self._period_ms:
            self._since_ms, self._used = now_ms, 0
        self._used += 1
        if self._used > self._lines:
            self.suppressed += 1
            return False
        return True


class Listener:
    """Accepts connections and keeps their limits.

    Args:
        receive: serves one request frame; see `ottla.broker.dispatch.Dispatcher.receive`.

    Attributes:
        wait_of: told the address of each new connection; says for how many milliseconds it must wait to be closed, if
            there are too many of late. None while there is no quota.
        accepted: how many connections there were since the start.
    """

    def __init__(
        self, settings: Settings, clock: Clock, receive: Callable[[bytes, int, Connection], Frame | None], log: Log
    ) -> None:
        self.max_request_bytes = settings.socket_request_max_bytes
        self.receive = receive
        self.wait_of: Callable[[str], int] | None = None
        self.connections: dict[Connection, int] = {}  # → bytes of an unfinished request, as of the last look
        self.accepted = 0
        self._settings = settings
        self._clock = clock
        self._log = log
        self._rejections = RateLimit(clock)
        self._refusals_of_quota = RateLimit(clock, lines=1)  # of its own: a flood must not hide what else goes wrong
        self._servers: list[asyncio.Server] = []
        self._sweep_timer: TimerHandle | None = None
        self._held_bytes = 0
        self._unwelcome: dict[Connection, TimerHandle] = {}
        self._starved: dict[Connection, None] = {}
        self._empty: asyncio.Event | None = None

    # -- life

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; see `bind` for what hosts stand for. Port 0 is any free one.

        Returns:
            The host (as given, or the bound one) and the port.

        Raises:
            OSError: the address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        sockets = bind(host, port)
        for sock in sockets:
            server = await loop.create_server(
                lambda: Connection(self, loop), sock=sock, backlog=self._settings.listener_backlog_size
            )
            self._servers.append(server)
        self._sweep_timer = self._clock.call_at(self._clock.monotonic_ms() + self._sweep_ms, self._sweep)
        bound = sockets[0].getsockname()
        return (host or bound[0]), bound[1]

    def stop_accepting(self) -> None:
        """Accept no more connections; those that are open go on."""
        while self._servers:
            self._servers.pop().close()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for connection in list(self._unwelcome):
            connection.kill()

    async def drain(self, timeout_ms: int) -> None:
        """Close connections as their open requests are answered; after the timeout, close what is left."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while self.connections:
            for connection in list(self.connections):
                if not connection.is_waited_for:
                    connection.close()
            if loop.time() >= deadline:
                break
            self._empty = asyncio.Event()
            try:
                await asyncio.wait_for(self._empty.wait(), min(0.05, deadline - loop.time()))
            except TimeoutError:
                continue
        for connection in list(self.connections):
            connection.close()

    def abort_all(self) -> None:
        """Close every connection at once, with nothing more sent."""
        for connection in list(self.connections):
            connection.kill()

    # -- from connections

    def opened(self, connection: Connection) -> bool:
        if len(self.connections) >= self._settings.max_connections:
            self._note("Too many connections, closing the newest", connection, f"limit {len(self.connections)}")
            return False
        self.connections[connection] = 0
        self.accepted += 1
        connection.quiet_since_ms = self._clock.monotonic_ms()
        if self.wait_of is not None and (wait_ms := self.wait_of(connection.client_host.removeprefix("/"))) > 0:
            self._turn_away(connection, wait_ms)
        return True

    def _turn_away(self, connection: Connection, wait_ms: int) -> None:
        """Close a connection that exceeds a quota, but after a while: its client would try again at once."""
        reason = f"the quota connection_creation_rate of its address is used up, closing it in {wait_ms} ms"
        self._note("Too many new connections", connection, reason, self._refusals_of_quota)
        connection.open = Mute(connection)
        connection.wake()
        when_ms = connection.quiet_since_ms + wait_ms
        self._unwelcome[connection] = self._clock.call_at(when_ms, connection.kill)

    def closed(self, connection: Connection) -> None:
        held = self.connections.pop(connection, 0)
        self._starved.pop(connection, None)
        if (timer := self._unwelcome.pop(connection, None)) is not None:
            timer.cancel()
        self._release(held)
        if not self.connections and self._empty is not None:
            self._empty.set()

    def rejected(self, connection: Connection, reason: str) -> None:
        self._note("Closing connection", connection, reason)

    def room_for(self, connection: Connection, buffered_bytes: int) -> bool:
        """Keep count of what unfinished requests hold; False: leave the connection unread for now."""
        before = self.connections.get(connection)
        if before is None or buffered_bytes == before:
            return connection not in self._starved
        self.connections[connection] = buffered_bytes
        self._held_bytes += buffered_bytes - before
        if buffered_bytes < before:
            self._release(0)
        limit = self._settings.queued_max_request_bytes
        if 0 <= limit < self._held_bytes and buffered_bytes >= ALWAYS_ROOM_BYTES:
            self._starved[connection] = None
            return False
        return True

    def _release(self, held_bytes: int) -> None:
        self._held_bytes -= held_bytes
        limit = self._settings.queued_max_request_bytes
        while self._starved and (limit < 0 or self._held_bytes <= limit):
            connection = next(iter(self._starved))
            del self._starved[connection]
            connection.wake()

    def _note(self, event: str, connection: Connection, reason: str, limit: RateLimit | None = None) -> None:
        limit = limit or self._rejections
        if limit.allows():
            suppressed, limit.suppressed = limit.suppressed, 0
            extra = {"suppressed": suppressed} if suppressed else {}
            self._log.warning(
                event, client_host=connection.client_host, client_id=connection.client_id, reason=reason, **extra
            )

    # -- idle connections

    @property
    def _sweep_ms(self) -> int:
        return max(1, self._settings.connections_max_idle_ms // SWEEPS_PER_IDLE_TIME)

    def _sweep(self) -> None:
        """Close connections that were quiet for ``connections.max.idle.ms``, unless they wait for an answer of ours.

        One that has ended its side does not get to wait longer: it is most likely gone, and some requests are never
        answered (the parked SyncGroup of a member that was removed). Nor does one that waits for its quota: as it is
        not read from, nobody sees that its client is gone, and Kafka closes it, too (KIP-219).
        """
        now_ms = self._clock.monotonic_ms()
        for connection in list(self.connections):
            held = connection.is_waited_for and not (connection.half_closed or connection.is_muted)
            if connection.active or held:
                connection.active = False
                connection.quiet_since_ms = now_ms
            elif now_ms - connection.quiet_since_ms >= self._settings.connections_max_idle_ms:
                self._log.debug("Closing idle connection", client_host=connection.client_host)
                connection.close()
        buffers.sweep()
        self._sweep_timer = self._clock.call_at(now_ms + self._sweep_ms, self._sweep)


def bind(host: str, port: int) -> list[socket.socket]:
    """Bound TCP sockets of one port.

    An empty host binds all interfaces, IPv6 and IPv4 together where the machine can, else IPv4. ``localhost`` binds
    both addresses of loopback, whatever the hosts file says (RFC 6761): some clients try only the first that they find.

    Raises:
        OSError: the address is not ours or is taken.
    """
    if host == "localhost":
        return _bind_loopback(port)
    if not host and socket.has_dualstack_ipv6():
        try:
            return [socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)]
        except OSError:
            pass  # a machine without IPv6 addresses
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if host and ":" not in host:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    return [socket.create_server((host, port), family=family, backlog=1024)]


def _bind_loopback(port: int) -> list[socket.socket]:
    ipv4 = bind("127.0.0.1", port)
    try:
        return ipv4 + bind("::1", ipv4[0].getsockname()[1])
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # a machine without IPv6
            return ipv4
        ipv4[0].close()
        if port == 0:  # the free port of the one was taken at the other
            return _bind_loopback(port)
        raise
