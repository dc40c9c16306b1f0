"""Requests that are not finished, of all connections together: what they hold, and who is read while it is too much.

Below the bound everybody is read. Above it a connection with a part of a request waits, until there is room again; but
for one, which may go on until its request is served, then the next: so somebody always gets ahead, and no two requests
wait for each other. Whoever holds nothing is read all the same: a heartbeat comes whole. At twice the bound those who
come with more are closed. A part that does not grow for too long meanwhile closes its connection, which makes room.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.clock import Clock
from ottla.broker.net.connection import Connection

TURNED_AWAY_BYTES: Final = 4 << 10
"""A smaller part of a request is kept even at twice the bound."""

PROGRESS_BYTES: Final = 64 << 10
"""A part that has grown by less was not meant to: its client sends a byte now and then."""

_LOOKS_PER_TIMEOUT: Final = 8


class UnfinishedRequests:
    """See the module.

    Args:
        most_bytes: the bound; -1: none.
        timeout_ms: how long a part of a request need not grow while the bound presses.

    Attributes:
        held_bytes: of all connections: as allocated, and of Produce requests that wait for the disk.
    """

    def __init__(self, most_bytes: int, timeout_ms: int, clock: Clock) -> None:
        self.held_bytes = 0
        self._most_bytes = most_bytes if most_bytes >= 0 else 1 << 62
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._look_ms = max(1, timeout_ms // _LOOKS_PER_TIMEOUT)
        self._held: dict[Connection, int] = {}
        self._starved: dict[Connection, None] = {}
        self._favoured: Connection | None = None  # goes on although there is no room
        self._seen: dict[Connection, tuple[int, int]] = {}  # when a part grew, and what there was of it
        self._pressed = False  # since the last look
        self._looks = False

    @property
    def is_full(self) -> bool:
        """True if requests hold more than the bound."""
        return self.held_bytes > self._most_bytes

    def holds(self, connection: Connection, held_bytes: int) -> bool:
        """Count what a connection holds that need not be read for now; returns whether there is room."""
        self._count(connection, held_bytes)
        if connection is self._favoured:
            self._favoured = None
            self._wake()
        return not self.is_full

    def room_for(self, connection: Connection, held_bytes: int, more_bytes: int) -> bool:
        """Count what a connection holds and is about to allocate; False: it is to wait until it is woken."""
        self._count(connection, held_bytes)
        if not held_bytes:
            self._starved.pop(connection, None)
            self.holds(connection, 0)
            return True
        fits = self.held_bytes + more_bytes <= self._most_bytes
        if not fits:
            self._press()
            self._favoured = self._favoured or connection
        if fits or connection is self._favoured:
            self._starved.pop(connection, None)
            self._count(connection, held_bytes + more_bytes)
            return True
        self._starved[connection] = None
        if self.held_bytes > 2 * self._most_bytes and held_bytes > TURNED_AWAY_BYTES:
            connection.kill(f"unfinished requests hold {self.held_bytes} bytes, allowed are {self._most_bytes}")
        return False

    def gone(self, connection: Connection) -> None:
        """Forget a connection."""
        self._starved.pop(connection, None)
        self._seen.pop(connection, None)
        self.holds(connection, 0)

    def _count(self, connection: Connection, held_bytes: int) -> None:
        before = self._held.pop(connection, 0)
        if held_bytes:
            self._held[connection] = held_bytes
        self.held_bytes += held_bytes - before
        if held_bytes < before:
            if connection is self._favoured:  # it was served
                self._favoured = None
            self._wake()

    def _wake(self) -> None:
        while self._starved and (self._favoured is None or not self.is_full):
            connection = next(iter(self._starved))
            del self._starved[connection]
            if self.is_full:
                self._favoured = connection
            connection.wake()

    # -- those who send nothing more

    def _press(self) -> None:
        self._pressed = True
        if not self._looks:
            self._look()

    def _look(self) -> None:
        """Close connections whose unfinished request did not grow for too long while the bound pressed.

        Those that wait to be read cannot grow: of them only as many as it takes to have half of the room again, the
        stalest first.
        """
        now_ms = self._clock.monotonic_ms()
        stale = []
        for connection in self._held:
            received = connection.buffered_bytes
            since_ms, before = self._seen.get(connection, (now_ms, -1))
            if not received:
                self._seen.pop(connection, None)
            elif not 0 <= before <= received < before + PROGRESS_BYTES:
                self._seen[connection] = now_ms, received
            elif now_ms - since_ms >= self._timeout_ms:
                stale.append(connection)
        if self._pressed:
            stale.sort(key=lambda connection: (connection in self._starved, self._seen[connection][0]))
            excess = self.held_bytes - self._most_bytes // 2
            for connection in stale:
                if connection in self._starved and excess <= 0:
                    break
                excess -= self._held[connection]
                received = connection.buffered_bytes
                connection.kill(f"its request did not grow beyond {received} bytes for {self._timeout_ms} ms")
        self._pressed = bool(self._starved) or self.is_full
        self._looks = self._pressed or self.held_bytes > self._most_bytes // 2
        if self._looks:
            self._clock.call_at(now_ms + self._look_ms, self._look)
        else:
            self._seen.clear()
