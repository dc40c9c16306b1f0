"""Connections that come: how many there may be, in all and of one address, and as there are descriptors.

At the most, nobody is accepted until somebody goes: who comes waits in the backlog, as in Kafka. An event loop's own
server cannot be stopped between two connections, so the listening socket is read here.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ottla.broker.settings import Settings, connections_per_ip

ACCEPTED_AT_ONCE: Final = 64
"""So many come in before others are served again."""

_RETRY_S: Final = 1.0


class Acceptor:
    """Takes connections from a listening socket while there is room.

    Args:
        room: how many more there may be at the moment.
        take: given each one's socket and address; an address of IPv4 is written as one.
        paused: told why nobody is accepted for now; resumed: told when it goes on.
    """

    def __init__(
        self,
        sock: socket.socket,
        backlog: int,
        *,
        room: Callable[[], int],
        take: Callable[[socket.socket, str], None],
        paused: Callable[[str], None],
        resumed: Callable[[], None],
    ) -> None:
        self._socket = sock
        self._room, self._take = room, take
        self._paused, self._resumed = paused, resumed
        self._loop = asyncio.get_running_loop()
        self._reads = False
        self._retry: asyncio.TimerHandle | None = None
        sock.setblocking(False)
        sock.listen(backlog)
        self._read()

    def close(self) -> None:
        """Accept nobody any more."""
        self._stop_reading()
        if self._retry is not None:
            self._retry.cancel()
        self._socket.close()

    def somebody_went(self) -> None:
        """Go on if there was no room."""
        if not self._reads and self._retry is None and self._room() > 0:
            self._read()
            self._resumed()

    def _read(self) -> None:
        self._reads = True
        self._loop.add_reader(self._socket, self._accept)

    def _stop_reading(self) -> None:
        if self._reads:
            self._reads = False
            self._loop.remove_reader(self._socket)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            if self._room() <= 0:
                self._stop_reading()
                self._paused("there are as many as there may be")
                return
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # There are no descriptors, mostly. The connection stays in the backlog, and the socket readable.
                self._stop_reading()
                self._retry = self._loop.call_later(_RETRY_S, self._try_again)
                self._paused(error.strerror or str(error))
                return
            sock.setblocking(False)
            self._take(sock, plain(address[0]))

    def _try_again(self) -> None:
        self._retry = None
        self.somebody_went()


class Addresses:
    """The connections of each address, and their limit (``max.connections.per.ip`` and its overrides).

    Args:
        settings: the settings in force: these may be changed while the broker runs.
        unknown: told of names in the overrides that have no address, once each time the overrides change.
    """

    def __init__(self, settings: Callable[[], Settings], unknown: Callable[[str], None] = lambda name: None) -> None:
        self._settings = settings
        self._unknown = unknown
        self._counts: dict[str, int] = {}
        self._text = ""  # what the overrides were read from
        self._overrides: dict[str, int] = {}

    def most(self, address: str) -> int:
        """The limit of connections of an address."""
        settings = self._settings()
        if settings.max_connections_per_ip_overrides != self._text:
            self._text = settings.max_connections_per_ip_overrides
            self._overrides = dict(_resolved(connections_per_ip(self._text), self._unknown))
        return self._overrides.get(address, settings.max_connections_per_ip)

    def came(self, address: str) -> bool:
        """Count a connection; False: it may not be."""
        count = self._counts.get(address, 0)
        if count >= self.most(address):
            return False
        self._counts[address] = count + 1
        return True

    def went(self, address: str) -> None:
        """Count one less."""
        left = self._counts[address] - 1
        if left:
            self._counts[address] = left
        else:
            del self._counts[address]


def plain(host: str) -> str:
    """An IPv4 client of a dual-stack socket has its IPv4 address."""
    return host.removeprefix("::ffff:")


def _resolved(overrides: Mapping[str, int], unknown: Callable[[str], None]) -> Iterator[tuple[str, int]]:
    """Addresses instead of names. A name that has none counts for nothing, and is told."""
    for host, most in overrides.items():
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            unknown(host)
            continue
        for row in found:
            yield str(row[4][0]), most
