"""Fetches that wait for records: parked by partition, woken by what is appended there or when their time is up.

The purgatory reads no log. It is told how large each watched log was when the fetch was parked and how large it is
after an append, and wakes a fetch once enough bytes have come, at its deadline, or when something happened that must be
looked at (a log was trimmed or deleted). Whoever takes the `Wake` effects reads again and decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

from ottla.broker.core.purgatory import Deadlines
from ottla.broker.settings import INT64_MAX
from ottla.protocol.records import TopicPartition


@dataclass(slots=True, eq=False)
class Parked:
    """A fetch that waits.

    Args:
        ctx: the request's context; opaque.
        request: the request; its ``look_again`` is called with this when it was woken.
        deadline_ms: when it must be answered whatever there is (monotonic).
        missing_bytes: how much must come before it is worth looking again; at least 1.
        watched: the logs that it waits for, with their sizes in bytes now.
        stable: their last stable offsets now, if nothing beyond these may be read.

    Attributes:
        expired: its time was up when it was woken.
    """

    ctx: Any
    request: Any
    _: KW_ONLY
    deadline_ms: int
    missing_bytes: int
    watched: dict[TopicPartition, int]
    stable: Mapping[TopicPartition, int] | None = None
    expired: bool = field(default=False, init=False)


@dataclass(slots=True)
class Wake:
    """Look at this fetch again: read, and answer or park it anew."""

    parked: Parked


TURN_BYTES: Final = 16 << 20
"""So much is read for Fetch requests in one turn of the event loop; of others, that come in the same turn, at least one
batch each. It takes some 20 ms, in which nobody else is served."""
_NOTED_BYTES: Final = 256 << 10
"""Less is not worth a callback."""


class TurnReads:
    """Bytes that one turn of the event loop has read for Fetch: many large ones at once must not delay everybody.

    Args:
        defer: calls back in the next turn; None: nothing is counted.

    Attributes:
        room_bytes: how much a further request may read in this turn; the first may read anything.
    """

    __slots__ = ("_defer", "room_bytes")

    def __init__(self, defer: Callable[[Callable[[], None]], Any] | None = None) -> None:
        self._defer = defer
        self.room_bytes = INT64_MAX

    def took(self, size_bytes: int) -> None:
        """Count what a request has read."""
        if size_bytes >= _NOTED_BYTES and self._defer is not None:
            if self.room_bytes == INT64_MAX:
                self._defer(self._begin)
            self.room_bytes = max(0, min(self.room_bytes, TURN_BYTES) - size_bytes)

    def _begin(self) -> None:
        self.room_bytes = INT64_MAX


class FetchPurgatory:
    """Every parked fetch, by partition and by deadline.

    There is at most one for each connection, as a connection has one open request. An append costs the number of
    fetches that wait for that partition.

    Attributes:
        effects: what is to be done; whoever called takes and clears them (`take_effects`).
    """

    __slots__ = ("_deadlines", "_parked", "_waiting", "effects")

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, dict[Parked, None]] = {}
        self._parked: dict[Parked, None] = {}
        self._deadlines: Deadlines[Parked] = Deadlines()
        self.effects: list[Wake] = []

    def __len__(self) -> int:
        return len(self._parked)

    def take_effects(self) -> list[Wake]:
        """The effects since they were last taken."""
        effects, self.effects = self.effects, []
        return effects

    def park(self, parked: Parked) -> None:
        """Keep a fetch until it is woken or dropped."""
        self._parked[parked] = None
        self._deadlines.set(parked, parked.deadline_ms)
        waiting = self._waiting
        for tp in parked.watched:
            watchers = waiting.get(tp)
            if watchers is None:
                waiting[tp] = {parked: None}
            else:
                watchers[parked] = None

    def drop(self, parked: Parked) -> None:
        """Forget a fetch, as its connection is gone. Nothing happens if it is not parked."""
        if parked not in self._parked:
            return
        del self._parked[parked]
        self._deadlines.cancel(parked)
        waiting = self._waiting
        for tp in parked.watched:
            watchers = waiting[tp]
            del watchers[parked]
            if not watchers:
                del waiting[tp]

    def watches(self, tp: TopicPartition) -> bool:
        """Whether somebody waits for a log."""
        return tp in self._waiting

    def appended(self, tp: TopicPartition, size_bytes: int, stable_offset: int = INT64_MAX) -> None:
        """The high watermark of a log has moved; the log is ``size_bytes`` large now.

        Args:
            stable_offset: its last stable offset now. Who may not read beyond it sleeps on while it stays where it was.
        """
        watchers = self._waiting.get(tp)
        if watchers is None:
            return
        for parked in list(watchers):
            if parked.stable is not None and stable_offset <= parked.stable[tp]:
                continue
            if parked.missing_bytes > 1:
                watched = parked.watched
                parked.missing_bytes -= size_bytes - watched[tp]
                watched[tp] = size_bytes
                if parked.missing_bytes > 0:
                    continue
            self._wake(parked)

    def touched(self, tp: TopicPartition) -> None:
        """A log was trimmed or deleted: let everybody who waits for it look again."""
        for parked in list(self._waiting.get(tp, ())):
            self._wake(parked)

    def take_all(self) -> list[Parked]:
        """Give up every parked fetch, in the order in which they were parked: the broker stops."""
        everything = list(self._parked)
        for parked in everything:
            self.drop(parked)
        return everything

    def next_deadline_ms(self) -> int | None:
        """When `advance` has something to do, None if never."""
        return self._deadlines.next()

    def advance(self, now_ms: int, wall_ms: int) -> None:
        """Wake the fetches whose time is up, in the order of their deadlines."""
        for parked in self._deadlines.expired(now_ms):
            parked.expired = True
            self._wake(parked)

    def _wake(self, parked: Parked) -> None:
        self.drop(parked)
        self.effects.append(Wake(parked))
