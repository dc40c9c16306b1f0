"""Connections of the HTTP port that begin with TLS: they count as connections from the first byte on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.net.accepting import Acceptor

if TYPE_CHECKING:
    from ottla.broker.net.tls import Contexts

BACKLOG = 128


class Handshakes:
    """Accepts connections and lets them begin with a handshake, so many at a time; others wait in the backlog.

    Args:
        sock: a bound socket.
        connection: makes what is served when a handshake is over.
        most: how many handshakes there may be; timeout_s: how long each may take.
        failed: is told of one that fails, from which address, and why.
    """

    def __init__(
        self,
        sock: socket.socket,
        contexts: Contexts,
        connection: Callable[[], asyncio.BaseProtocol],
        most: Callable[[], int],
        timeout_s: float,
        failed: Callable[[str, str], None],
    ) -> None:
        self._contexts = contexts
        self._failed = failed
        self._timeout_s = timeout_s
        self._connection = connection
        self._tasks: set[asyncio.Task[None]] = set()
        self._acceptor = Acceptor(
            sock,
            BACKLOG,
            room=lambda: most() - len(self._tasks),
            take=self._take,
            paused=lambda reason: None,
            resumed=lambda: None,
        )

    async def stop(self) -> None:
        """Accept nobody any more, and give up those who have begun."""
        self._acceptor.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _take(self, sock: socket.socket, address: str) -> None:
        task = asyncio.get_running_loop().create_task(self._shake(sock, address))
        self._tasks.add(task)
        task.add_done_callback(self._over)

    async def _shake(self, sock: socket.socket, address: str) -> None:
        try:
            await self._contexts.accept(sock, self._connection(), self._timeout_s)
        except OSError as error:
            sock.close()
            if reason := self._contexts.reason_of(error):
                self._failed(address, reason)
        except asyncio.CancelledError:
            sock.close()
            raise

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._acceptor.somebody_went()
