"""One listener: its sockets, and what holds for those who come by it."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from ottla.broker.core.security.session import ANONYMOUS, Session
from ottla.broker.endpoints import Endpoint
from ottla.broker.net.accepting import Acceptor

if TYPE_CHECKING:
    from ottla.broker.net.guests import Lobby
    from ottla.broker.net.tls import Contexts

_BACKLOG: Final = 1024


class CannotListen(Exception):
    """An address is not ours or is taken; the message says which one, and what to do."""


class Server(Protocol):
    """What has the connections of all listeners; see `ottla.broker.net.socket_server`."""

    def room(self) -> int: ...
    def room_for_handshakes(self) -> int: ...
    def take(self, listener: Listener, sock: socket.socket, address: str) -> None: ...
    def paused(self, reason: str) -> None: ...
    def resumed(self) -> None: ...


class Listener:
    """Accepts connections at one endpoint.

    Args:
        most: so many connections it may have (``listener.name.<name>.max.connections``); None: as all together.
        lobby: where clients are asked who they are; None: nowhere.
        tls: its TLS; None: none.

    Attributes:
        endpoint: where it listens; with the host and port that it is bound to, once it is.
        guest: the session of whoever comes, as long as he has not said who he is.
        count: its connections that are open.
    """

    def __init__(
        self, endpoint: Endpoint, most: int | None = None, lobby: Lobby | None = None, tls: Contexts | None = None
    ) -> None:
        self.endpoint = endpoint
        self.lobby = lobby
        self.tls = tls
        self.guest = Session(listener=endpoint.name) if endpoint.name != ANONYMOUS.listener else ANONYMOUS
        self.count = 0
        self._most = most
        self._sockets: list[socket.socket] = []
        self._acceptors: list[Acceptor] = []

    def bind(self) -> None:
        """Bind its address; see `bind` for what hosts stand for. Port 0 is any free one.

        Raises:
            CannotListen: the address cannot be bound.
        """
        host, port, *_ = self.endpoint
        try:
            self._sockets = bind(host, port)
        except OSError as error:
            what = f"cannot listen on {host or '*'}:{port}: {error.strerror or error}"
            raise CannotListen(f"{what}; choose another address") from error
        bound = self._sockets[0].getsockname()
        self.endpoint = self.endpoint._replace(host=host or bound[0], port=bound[1])

    def accept(self, server: Server, backlog: int) -> None:
        """Begin to accept."""
        self._acceptors = [
            Acceptor(
                sock,
                backlog,
                room=partial(self._room, server),
                take=partial(server.take, self),
                paused=server.paused,
                resumed=server.resumed,
            )
            for sock in self._sockets
        ]

    def close(self) -> None:
        """Accept nobody any more."""
        while self._acceptors:
            self._acceptors.pop().close()
        while self._sockets:
            self._sockets.pop().close()

    def somebody_went(self) -> None:
        """Go on if there was no room."""
        for acceptor in self._acceptors:
            acceptor.somebody_went()

    def _room(self, server: Server) -> int:
        rooms = [server.room()]
        if self._most is not None:
            rooms.append(self._most - self.count)
        if self.lobby is not None:
            rooms.append(self.lobby.room)
        if self.tls is not None:
            rooms.append(server.room_for_handshakes())
        return min(rooms)


def check_free(endpoints: Iterable[Endpoint]) -> None:
    """Look whether listeners could bind their addresses at the moment. Raises CannotListen."""
    for one in endpoints:
        listener = Listener(one)
        listener.bind()
        listener.close()


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
            return [socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)]
        except OSError:
            pass  # a machine without IPv6 addresses
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if host and ":" not in host:
        # Bytes are looked up as they are; for a text Python loads the tables of international names.
        name = host.encode() if host.isascii() else host
        family = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)[0][0]
    return [socket.create_server((host, port), family=family, backlog=_BACKLOG)]


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
