"""Answers that clients do not read, of all connections together: how much of them is kept, and who must go.

The answer to a Fetch may be smaller than it was asked to be, down to one batch. Consumers that catch up all at once are
given what there is room for in half of the bound, so that none of them is closed.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.clock import Clock
from ottla.broker.net.connection import Connection

PATIENCE_MS: Final = 10_000
"""Whoever has read nothing for this time goes first."""

_LOOK_MS: Final = 1_000
_LOOKS_PER_IDLE_TIME: Final = 8


class _Waiting:
    """A connection at the last look: its bytes, when some left last, and since when it waits."""

    __slots__ = ("kept", "progress_ms", "since_ms", "unread")

    def __init__(self, now_ms: int) -> None:
        self.unread = self.kept = 0
        self.since_ms = now_ms
        self.progress_ms: int | None = None

    @property
    def heard_ms(self) -> int:
        """The time when some bytes left last, or when it began to wait."""
        return self.since_ms if self.progress_ms is None else self.progress_ms


class UnreadAnswers:
    """Only connections that do not read for the moment are counted, so others cost nothing here.

    Args:
        most_bytes: more is not kept of all together. Then some go: first those who have read nothing for long, then
            those whose answers are new, then those who read; of each the largest first.
        idle_ms: whoever reads nothing for so long goes in any case.
    """

    def __init__(self, most_bytes: int, idle_ms: int, clock: Clock) -> None:
        self.held_bytes = 0
        self._most_bytes = most_bytes
        self._idle_ms = idle_ms
        self._clock = clock
        self._look_ms = max(1, min(_LOOK_MS, idle_ms // _LOOKS_PER_IDLE_TIME))
        self._waiting: dict[Connection, _Waiting] = {}
        self._looks = False

    def __contains__(self, connection: object) -> bool:
        return connection in self._waiting

    @property
    def room_bytes(self) -> int:
        """The size limit of an answer that can be made smaller."""
        return max(0, self._most_bytes // 2 - self.held_bytes)

    def grew(self, connection: Connection) -> None:
        """Count what a connection does not read; over the bound, close some, maybe this one."""
        now_ms = self._clock.monotonic_ms()
        if connection not in self._waiting:
            self._waiting[connection] = _Waiting(now_ms)
            if not self._looks:
                self._look_again(now_ms)
        self._measure(connection, now_ms)
        if self.held_bytes > self._most_bytes:
            self._shed(now_ms)

    def gone(self, connection: Connection) -> None:
        """Forget a connection that reads again, or is lost."""
        if (waiting := self._waiting.pop(connection, None)) is not None:
            self.held_bytes -= waiting.kept

    def _measure(self, connection: Connection, now_ms: int) -> None:
        waiting, unread, kept = self._waiting[connection], connection.unread_bytes, connection.kept_bytes
        if unread < waiting.unread:
            waiting.progress_ms = now_ms
        self.held_bytes += kept - waiting.kept
        waiting.unread, waiting.kept = unread, kept

    def _shed(self, now_ms: int) -> None:
        for connection in self._waiting:
            self._measure(connection, now_ms)

        def harm(connection: Connection) -> tuple[bool, bool, int]:
            waiting = self._waiting[connection]
            return now_ms - waiting.heard_ms >= PATIENCE_MS, waiting.progress_ms is None, waiting.kept

        for connection in sorted(self._waiting, key=harm, reverse=True):
            if self.held_bytes <= self._most_bytes:
                break
            size = self._waiting[connection].kept
            self.gone(connection)
            connection.kill(f"its answers of {size} bytes are not read, and those of all exceed {self._most_bytes}")

    def _look(self) -> None:
        """Note who reads, and close who has not for too long."""
        now_ms = self._clock.monotonic_ms()
        for connection in list(self._waiting):
            self._measure(connection, now_ms)
            waiting = self._waiting[connection]
            if now_ms - waiting.heard_ms >= self._idle_ms:
                self.gone(connection)
                connection.kill(f"its answers of {waiting.unread} bytes were not read for {self._idle_ms} ms")
        self._looks = False
        if self._waiting:
            self._look_again(now_ms)

    def _look_again(self, now_ms: int) -> None:
        self._looks = True
        self._clock.call_at(now_ms + self._look_ms, self._look)
