"""The queue between the logs of a node and one connection: one statement in flight, everything else behind it.

A pure machine; it knows no SQL and no loop. An append gets its offset at once and is told, in its order, what became of
it when that is *certain*: after an unknown outcome the same rows go out again, with the same boundaries and nothing
beside them, until the database says what is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.broker.engine import Busy, EngineError, Fenced, Unavailable
from ottla.broker.storage.postgres.database import Head, Row, Stored
from ottla.protocol.batch import LEADER_EPOCH_AT, MAGIC_AT
from ottla.protocol.compression import Buffer

STATEMENT_BYTES: Final = 4 * 1024 * 1024
STATEMENT_ROWS: Final = 4_000
APPEND_MEMORY_BYTES: Final = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Send:
    """Send this statement. ``is_again`` if it has been sent before and nobody knows what became of it."""

    heads: tuple[Head, ...]
    rows: tuple[Row, ...]
    is_again: bool


@dataclass(frozen=True, slots=True)
class Done:
    """An append or a barrier is settled: it is durable, or it failed. A barrier has no row."""

    token: object
    row: Row | None
    error: EngineError | None


@dataclass(frozen=True, slots=True)
class Lost:
    """A log is not led here any more: it has another epoch, or is deleted. Its appends have been told."""

    log_id: int
    leader_epoch: int
    error: EngineError


@dataclass(frozen=True, slots=True)
class Diverged:
    """A log ends where it should not. It stands still until `Lane.heal` or `Lane.give_up`."""

    log_id: int
    end_offset: int
    base_offset: int


Effect = Send | Done | Lost | Diverged


@dataclass(slots=True, eq=False)
class _Led:
    """A log under one epoch. ``base`` is where it ends in the database, as far as that is known."""

    log_id: int
    leader_epoch: int
    base: int
    end: int
    is_given_up: bool = False
    halted: list[_Entry] | None = None


@dataclass(slots=True, eq=False)
class _Entry:
    """An append, or a barrier, which has no row. What `heal` puts in front of others has no token."""

    led: _Led
    row: Row | None
    token: object


class Lane:
    """See the module.

    Attributes:
        memory_bytes: what appends hold that are not settled.
    """

    def __init__(
        self,
        *,
        most_memory_bytes: int = APPEND_MEMORY_BYTES,
        most_bytes: int = STATEMENT_BYTES,
        most_rows: int = STATEMENT_ROWS,
    ) -> None:
        self.effects: list[Effect] = []
        self.memory_bytes = 0
        self._most_memory_bytes = most_memory_bytes
        self._most_bytes = most_bytes
        self._most_rows = most_rows
        self._logs: dict[int, _Led] = {}
        self._queue: deque[_Entry] = deque()
        self._open: list[_Entry] = []
        self._heads: tuple[Head, ...] = ()
        self._is_connected = False
        self._is_sent = False

    # Logs

    def lead(self, log_id: int, leader_epoch: int, end_offset: int) -> None:
        """Take a log that was loaded. What is left of an earlier epoch is told that it is fenced."""
        self.give_up(log_id, Fenced("led under a new epoch"))
        self._logs[log_id] = _Led(log_id, leader_epoch, end_offset, end_offset)

    def give_up(self, log_id: int, error: EngineError) -> None:
        """Let go of a log. Everything of it that is open or queued is told, and its rows are not sent again."""
        led = self._logs.pop(log_id, None)
        if led is None:
            return
        led.is_given_up = True
        waiting = [entry for entry in (*self._open, *(led.halted or ()), *self._queue) if entry.led is led]
        self._queue = deque(entry for entry in self._queue if entry.led is not led)
        self._settle(waiting, error)
        if not self._is_sent:
            self._drop_given_up()

    # Requests

    def append(
        self, log_id: int, head: bytes, body: Buffer, *, count: int, max_timestamp_ms: int, token: object
    ) -> int:
        """Queue a batch and return its base offset.

        Raises:
            Busy: nothing was queued.
            Fenced: the log is not led here.
        """
        led = self._led(log_id)
        size = len(head) + len(body)
        if self.memory_bytes and self.memory_bytes + size > self._most_memory_bytes:
            raise Busy("too many appends are waiting")
        base = led.end
        led.end = base + count
        epoch = led.leader_epoch.to_bytes(4, "big")
        placed = b"".join((base.to_bytes(8, "big"), head[8:LEADER_EPOCH_AT], epoch, head[MAGIC_AT:]))
        row = Row(log_id, base, base + count - 1, led.leader_epoch, max_timestamp_ms, placed, body)
        self.memory_bytes += size
        self._queue.append(_Entry(led, row, token))
        self._go_on()
        return base

    def barrier(self, log_id: int, token: object) -> None:
        """Learn whether the epoch is the present one at a moment from now on; what was queued before is settled first.

        Raises:
            Fenced: the log is not led here.
        """
        self._queue.append(_Entry(self._led(log_id), None, token))
        self._go_on()

    def heal(self, log_id: int, rows: Sequence[Row]) -> None:
        """Send rows that were acknowledged and are gone before those that found them missing."""
        led = self._led(log_id)
        halted, led.halted = led.halted or [], None
        led.base = rows[0].base_offset
        self.memory_bytes += sum(row.size for row in rows)
        self._queue.extendleft(reversed([*(_Entry(led, row, None) for row in rows), *halted]))
        self._go_on()

    # The connection

    def connected(self) -> None:
        """There is a connection. What is open goes out again, alone, before anything else."""
        self._is_connected = True
        self._drop_given_up()
        self._go_on()

    def lost(self) -> None:
        """The outcome of what was sent is unknown: the connection has ended, or its answer cannot be trusted."""
        self._is_connected = self._is_sent = False

    def rival(self) -> None:
        """The same rows came to be while these were on their way: ask again what is there."""
        self._is_sent = False
        self._drop_given_up()
        self._go_on()

    def answered(self, rows: Sequence[Stored]) -> None:
        """What the database had when it carried out the statement in flight."""
        found = {row.log_id: row for row in rows}
        entries, heads = self._open, self._heads
        self._open, self._heads, self._is_sent = [], (), False
        for head in heads:
            mine = [entry for entry in entries if entry.led.log_id == head.log_id and not entry.led.is_given_up]
            if mine:
                self._judge(mine[0].led, head, mine, found.get(head.log_id))
        self._go_on()

    # Steps

    def _led(self, log_id: int) -> _Led:
        led = self._logs.get(log_id)
        if led is None:
            raise Fenced("not led here")
        return led

    def _judge(self, led: _Led, head: Head, entries: list[_Entry], stored: Stored | None) -> None:
        end = max((entry.row.last_offset + 1 for entry in entries if entry.row is not None), default=head.base_offset)
        if stored is None or stored.leader_epoch != head.leader_epoch:
            error = Unavailable("the log is deleted") if stored is None else Fenced("somebody else leads")
            self._settle(entries, error)
            self.give_up(led.log_id, error)
            self.effects.append(Lost(led.log_id, led.leader_epoch, error))
        elif stored.end_offset in (head.base_offset, end):
            led.base = end
            self._settle(entries, None)
        else:
            led.halted = entries
            self.effects.append(Diverged(led.log_id, stored.end_offset, head.base_offset))

    def _settle(self, entries: Iterable[_Entry], error: EngineError | None) -> None:
        for entry in entries:
            if entry.row is not None:
                self.memory_bytes -= entry.row.size
            if entry.token is not None:
                self.effects.append(Done(entry.token, entry.row, error))

    def _drop_given_up(self) -> None:
        """What is sent again leaves out logs that were given up; the boundaries of the others stay."""
        self._open = [entry for entry in self._open if not entry.led.is_given_up]
        kept = {entry.led.log_id for entry in self._open}
        self._heads = tuple(head for head in self._heads if head.log_id in kept)

    def _go_on(self) -> None:
        if self._is_sent or not self._is_connected:
            return
        is_again = bool(self._open)
        if not is_again:
            self._open = self._take()
            self._heads = tuple(
                Head(led.log_id, led.leader_epoch, led.base)
                for led in sorted({entry.led for entry in self._open}, key=lambda led: led.log_id)
            )
        if self._open:
            self._is_sent = True
            rows = tuple(entry.row for entry in self._open if entry.row is not None)
            self.effects.append(Send(self._heads, rows, is_again))

    def _take(self) -> list[_Entry]:
        """The next statement: everything in order, until it is large. What stands still stays where it is."""
        taken: list[_Entry] = []
        behind: list[_Entry] = []
        size = 0
        while self._queue:
            entry = self._queue[0]
            added = 0 if entry.row is None else entry.row.size
            if taken and (size + added > self._most_bytes or len(taken) >= self._most_rows):
                break
            self._queue.popleft()
            if entry.led.halted is not None:
                behind.append(entry)
            else:
                taken.append(entry)
                size += added
        self._queue.extendleft(reversed(behind))
        return taken
