"""What a node has of its logs in memory: the tail of what it appended, and pages that were read from the database.

Pure machines. A page ends below the high watermark that its log had when the page was asked for, however much more can
be seen in the database: what is not acknowledged may still go.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ottla.broker.storage.postgres.database import Page, Row

PAGE_BYTES: Final = 1024 * 1024
PAGE_MEMORY_BYTES: Final = 64 * 1024 * 1024
TAIL_MEMORY_BYTES: Final = 128 * 1024 * 1024


def _from(rows: Sequence[Row], bases: Sequence[int], offset: int) -> Sequence[Row]:
    """The rows from the one that contains an offset on, or from the next one, as compaction leaves gaps."""
    index = max(bisect_right(bases, offset) - 1, 0)
    if index < len(rows) and rows[index].last_offset < offset:
        index += 1
    return rows[index:]


_GONE: Final = Row(0, 0, -1, 0, 0, b"", b"")


@dataclass(slots=True)
class _LogTail:
    begin: int = 0
    """Everything acknowledged from here on is in the rows."""
    rows: list[Row] = field(default_factory=list)
    bases: list[int] = field(default_factory=list)
    _gone: int = 0
    """Rows at the front that were let go. They are cut off once they are half, as that moves all others."""

    def add(self, row: Row) -> None:
        self.rows.append(row)
        self.bases.append(row.base_offset)

    def let_go(self) -> Row:
        row, self.rows[self._gone] = self.rows[self._gone], _GONE
        self.begin = row.last_offset + 1
        self._gone += 1
        if self._gone * 2 >= len(self.rows):
            del self.rows[: self._gone], self.bases[: self._gone]
            self._gone = 0
        return row


class Tail:
    """The latest acknowledged rows of each log that this node has appended: readers at the end need no database.

    When memory is full the oldest rows of the log that was read least recently go.
    """

    def __init__(self, *, memory_bytes: int = TAIL_MEMORY_BYTES) -> None:
        self.memory_bytes = 0
        self._most_memory_bytes = memory_bytes
        self._logs: OrderedDict[int, _LogTail] = OrderedDict()

    def lead(self, log_id: int, end_offset: int) -> None:
        """Begin anew with a log that was loaded and ends there."""
        self.drop(log_id)
        self._logs.setdefault(log_id, _LogTail(begin=end_offset))

    def drop(self, log_id: int) -> None:
        """Forget a log that is not led any more."""
        gone = self._logs.pop(log_id, None)
        if gone is not None:
            self.memory_bytes -= sum(row.size for row in gone.rows)

    def add(self, row: Row) -> None:
        """Keep a row that was acknowledged."""
        self._logs[row.log_id].add(row)
        self.memory_bytes += row.size
        while self.memory_bytes > self._most_memory_bytes:
            tail = next(tail for tail in self._logs.values() if tail.rows)
            self.memory_bytes -= tail.let_go().size

    def rows(self, log_id: int, offset: int) -> Sequence[Row] | None:
        """The acknowledged rows from the one that contains an offset on; None if the offset lies before the tail."""
        tail = self._logs.get(log_id)
        if tail is None or offset < tail.begin:
            return None
        self._logs.move_to_end(log_id)
        return _from(tail.rows, tail.bases, offset)

    def forget(self, log_id: int) -> None:
        """Rows of a log were replaced: what comes from now on is kept."""
        tail = self._logs.get(log_id)
        if tail is not None and tail.rows:
            begin = tail.rows[-1].last_offset + 1
            self.lead(log_id, begin)


@dataclass(frozen=True, slots=True)
class Fetch:
    """Ask the database for a page, and tell its rows to `Pages.came`."""

    page: Page


@dataclass(frozen=True, slots=True)
class Ready:
    """Ask again: a page has come, or could not be read."""

    token: object
    log_id: int


@dataclass(slots=True)
class _Held:
    start: int
    upto: int
    rows: Sequence[Row]
    bases: Sequence[int]
    size: int
    pins: set[object] = field(default_factory=set)


@dataclass(slots=True)
class _LogPages:
    leader_epoch: int
    held: list[_Held] = field(default_factory=list)
    asked: Page | None = None
    waiting: list[tuple[object, int, int]] = field(default_factory=list)


class Pages:
    """Pages of logs that are led here: one in flight a log, and one read ahead.

    Who asked pins the page until he was answered, so that no eviction can starve him.
    """

    def __init__(self, *, memory_bytes: int = PAGE_MEMORY_BYTES, page_bytes: int = PAGE_BYTES) -> None:
        self.effects: list[Fetch | Ready] = []
        self.memory_bytes = 0
        self._most_memory_bytes = memory_bytes
        self._page_bytes = page_bytes
        self._logs: dict[int, _LogPages] = {}
        self._order: deque[tuple[int, _Held]] = deque()

    def lead(self, log_id: int, leader_epoch: int) -> None:
        """Take a log; nothing is kept of an earlier epoch."""
        self.drop(log_id)
        self._logs.setdefault(log_id, _LogPages(leader_epoch)).leader_epoch = leader_epoch

    def drop(self, log_id: int) -> None:
        """Forget a log that is not led any more; who waits is to ask again."""
        log = self._logs.pop(log_id, None)
        if log is None:
            return
        self.effects += [Ready(token, log_id) for token, _, _ in log.waiting]
        self._order = deque((one, held) for one, held in self._order if one != log_id)
        self.memory_bytes -= sum(held.size for held in log.held)

    def forget(self, log_id: int) -> None:
        """Rows were replaced or deleted: pages are read anew."""
        log = self._logs.get(log_id)
        if log is not None:
            waiting, log.waiting = log.waiting, []
            self.lead(log_id, log.leader_epoch)
            self._logs[log_id].waiting = waiting
            self._next(log_id, self._logs[log_id])

    def rows(self, log_id: int, offset: int) -> Sequence[Row] | None:
        """The rows of a page from the one that contains an offset on; None if no page has it."""
        log = self._logs.get(log_id)
        for held in () if log is None else log.held:
            if held.start <= offset < held.upto:
                return _from(held.rows, held.bases, offset)
        return None

    def want(self, log_id: int, offset: int, high_watermark: int, token: object) -> None:
        """Have a page read that contains an offset, which lies below the high watermark; `Ready` tells the token."""
        log = self._logs[log_id]
        log.waiting.append((token, offset, high_watermark))
        self._next(log_id, log)

    def answered(self, log_id: int, token: object) -> None:
        """Who asked was answered: he needs no page any more."""
        log = self._logs.get(log_id)
        if log is not None:
            log.waiting = [one for one in log.waiting if one[0] != token]
            for held in log.held:
                held.pins.discard(token)
            self._evict()

    def came(self, page: Page, rows: Sequence[Row]) -> None:
        """The rows of a page that was asked for. Under another epoch, or after `forget`, they are of no use."""
        log = self._logs.get(page.log_id)
        if log is None or log.asked is not page:
            return
        log.asked = None
        rows = [row for row in rows if row.last_offset < page.upto_offset]
        # It may have been cut short by its size; only where there is no row at all, nothing is up to its end.
        upto = rows[-1].last_offset + 1 if rows else page.upto_offset
        held = _Held(page.start_offset, upto, rows, [row.base_offset for row in rows], sum(row.size for row in rows))
        log.held.append(held)
        self._order.append((page.log_id, held))
        self.memory_bytes += held.size
        for token, offset, _ in log.waiting:
            if held.start <= offset < held.upto:
                held.pins.add(token)
                self.effects.append(Ready(token, page.log_id))
        log.waiting = [one for one in log.waiting if not held.start <= one[1] < held.upto]
        self._evict()
        if not log.waiting and held.pins and held.upto < page.upto_offset:
            self._ask(page.log_id, log, held.upto, page.upto_offset)
        self._next(page.log_id, log)

    def failed(self, page: Page) -> None:
        """The page was not read: its connection has ended, or the epoch is another. Who waits is to ask again."""
        log = self._logs.get(page.log_id)
        if log is not None and log.asked is page:
            log.asked = None
            waiting, log.waiting = log.waiting, []
            self.effects += [Ready(token, page.log_id) for token, _, _ in waiting]

    def _next(self, log_id: int, log: _LogPages) -> None:
        if log.asked is None and log.waiting:
            _, offset, high_watermark = log.waiting[0]
            self._ask(log_id, log, offset, high_watermark)

    def _ask(self, log_id: int, log: _LogPages, start: int, upto: int) -> None:
        log.asked = Page(log_id, log.leader_epoch, start, upto, self._page_bytes)
        self.effects.append(Fetch(log.asked))

    def _evict(self) -> None:
        """The oldest pages go first, but for those that are pinned."""
        kept: list[tuple[int, _Held]] = []
        while self._order and self.memory_bytes > self._most_memory_bytes:
            log_id, held = self._order.popleft()
            if held.pins:
                kept.append((log_id, held))
            else:
                self._logs[log_id].held.remove(held)
                self.memory_bytes -= held.size
        self._order.extendleft(reversed(kept))
