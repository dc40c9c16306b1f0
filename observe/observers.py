"""Hands each event of the coordinator to all who observe it: to some at once, to the others between turns.

What happens leaves an event, or a note of a commit, in a short queue. Those who look at the group as it is at that
moment are told at once. The others are told of many together, which costs them half as much: once the turn of the
event loop is over, when there are many or large ones, or when somebody asks what was observed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ottla.broker.core.events import (
    AssignmentsPublished,
    BarrierClosed,
    BarrierOpened,
    CommitNote,
    CommitReceived,
    Event,
    FetchParked,
    GroupLoaded,
    JoinReceived,
    LeaveReceived,
    NamedBytes,
    Observer,
    OffsetDeleteReceived,
    OffsetsCommitted,
    SyncReceived,
    TxnCommitReceived,
)
from ottla.broker.logger import Logger
from ottla.observe.recorder import Recorder

Soon: TypeAlias = Callable[[Callable[[], None]], object]
"""Calls a function once the present turn is over."""

_Takers: TypeAlias = tuple[Callable[[Any], None], ...]

MOST_WAITING = 256
"""So many events wait at most, if none of them is large."""
FEW = 8
"""Events about so many offsets, protocols and members wait for others; larger ones do not."""
FEW_BYTES = 4096


class Observers(Observer):
    """An observer made of several. One that fails is reported; the others and the group go on.

    Nobody waits for the end of a turn before `defer` was called.

    Args:
        observers: called in this order; a recorder before all others that wait.
        wants_requests: somebody who comes later will.
    """

    def __init__(self, observers: Sequence[Observer], log: Logger, *, wants_requests: bool = False) -> None:
        self._log = log
        self._soon: Soon | None = None
        self._waiting: list[Event | CommitNote] = []
        self._is_due = False
        self._has_large = False  # something that waits takes much memory
        self._set(observers)
        self.wants_requests = wants_requests or any(one.wants_requests for one in observers)
        self.wants_all = any(one.wants_all for one in observers)

    def add(self, observer: Observer) -> None:
        """Let somebody observe from now on, after the others."""
        self.tell()
        self._set((*self._observers, observer))

    def defer(self, soon: Soon | None) -> None:
        """Tell those who can wait when a turn is over; None: at once again."""
        self.tell()
        self._soon = soon

    def _set(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)
        self._recorders = tuple(one for one in observers if isinstance(one, Recorder))
        self._now_by_type: dict[type[Any], tuple[_Takers, Callable[[Any], bool] | None]] = {}
        self._later_by_type: dict[type[Any], _Takers] = {}
        self._now_by_note: _Takers | None = None
        self._counting = tuple(
            one.count_commits for one in observers if type(one).count_commit is not Observer.count_commit
        )
        for one in observers:
            one.catch_up = self.tell

    def __call__(self, event: Event) -> None:
        found = self._now_by_type.get(event.__class__)
        takers, is_large = self._choose(event.__class__) if found is None else found
        for take in takers:
            try:
                take(event)
            except Exception:  # what is observed must not depend on who looks
                self._report(event)
        waiting = self._waiting
        waiting.append(event)
        is_time = len(waiting) >= MOST_WAITING
        if is_large is not None and is_large(event):
            is_time = is_time or self._has_large or event.__class__ not in _OF_REBALANCES
            self._has_large = True
        if is_time or self._soon is None:
            self.tell()
        elif not self._is_due:
            self._is_due = True
            self._soon(self.tell)

    def note_commit(self, note: CommitNote) -> None:
        takers = self._now_by_note
        if takers is None:
            takers, _ = self._choose(tuple)
            self._now_by_note = takers
        for take in takers:
            try:
                take(note)
            except Exception:  # as above
                self._report(note)
        waiting = self._waiting
        waiting.append(note)
        if not 0 < len(note[6]) <= FEW_BYTES:
            self._has_large = True
            self.tell()
        elif self._soon is None or len(waiting) >= MOST_WAITING:
            self.tell()
        elif self.wants_all and not self._is_due:
            self._is_due = True
            self._soon(self.tell)

    def count_commit(self, group_id: str, partitions: int, wall_ms: int) -> None:
        self.count_commits([(group_id, partitions)], wall_ms)

    def count_commits(self, commits: Sequence[tuple[str, int]], wall_ms: int) -> None:
        for count in self._counting:
            try:
                count(commits, wall_ms)
            except Exception:  # as above
                self._log.error("an observer failed", of="a commit", exc_info=True)

    def tell(self) -> None:
        """Tell those who wait of all that has happened until now."""
        waiting, self._waiting = self._waiting, []
        has_large, self._has_large = self._has_large, False
        self._is_due = False
        if not waiting:
            return
        for recorder in self._recorders:
            try:
                recorder.take(waiting, holds=not has_large)
            except Exception:  # as above
                self._report(waiting)
        by_type = self._later_by_type
        for one in waiting:
            takers = by_type.get(one.__class__)
            if takers is None:
                self._choose(one.__class__)
                takers = by_type[one.__class__]
            for take in takers:
                try:
                    take(one)
                except Exception:  # as above
                    self._report(one)

    def _report(self, told: Event | CommitNote | list[Event | CommitNote]) -> None:
        if isinstance(told, list):
            name = "several events"
        else:
            name = CommitReceived.__name__ if isinstance(told, tuple) else type(told).__name__
        self._log.error("an observer failed", of=name, exc_info=True)

    def _choose(self, kind: type[Any]) -> tuple[_Takers, Callable[[Any], bool] | None]:
        """Find who takes events of a type, or notes of commits; returns those who do at once, and what is large."""
        event_kind = CommitReceived if kind is tuple else kind
        chosen = [one for one in self._observers if one not in self._recorders and one.wants(event_kind)]
        now, later = [
            tuple(one.note_commit if kind is tuple else one.taker(kind) for one in chosen if one.at_once is at_once)
            for at_once in (True, False)
        ]
        self._later_by_type[kind] = later
        self._now_by_type[kind] = found = now, _LARGE.get(kind)
        return found


def _is_long(named: Sequence[NamedBytes]) -> bool:
    for one in named:
        if len(one.data) > FEW_BYTES:
            return True
    return len(named) > FEW


_LARGE: dict[type[Event], Callable[[Any], bool]] = {
    AssignmentsPublished: lambda event: len(event.assignments) > FEW,
    BarrierClosed: lambda event: len(event.absent) > FEW,
    BarrierOpened: lambda event: len(event.awaited) > FEW,
    CommitReceived: lambda event: len(event.commits) > FEW,
    FetchParked: lambda event: len(event.wanted) > FEW,
    GroupLoaded: lambda event: bool(event.loaded) or len(event.commits) > FEW,
    JoinReceived: lambda event: _is_long(event.protocols),
    LeaveReceived: lambda event: len(event.leaving) > FEW,
    OffsetDeleteReceived: lambda event: len(event.deletions) > FEW,
    OffsetsCommitted: lambda event: len(event.moved_back) > FEW,
    SyncReceived: lambda event: event.assignments and _is_long(event.assignments),
    TxnCommitReceived: lambda event: len(event.commits) > FEW,
}
"""Types of events that may take much memory, and a test of it: such an event does not wait for others."""

_OF_REBALANCES = frozenset((AssignmentsPublished, BarrierClosed, BarrierOpened, SyncReceived))
"""One of these does wait for the end of the turn: what a large group did takes long enough without its observers."""
