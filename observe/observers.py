"""Hands each event of the coordinator to all who observe it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ottla.broker.core.events import CommitNote, CommitReceived, Emit, Event, Observer
from ottla.broker.logger import Logger

Count: TypeAlias = Callable[[str, int, int], None]
"""Takes the group of a commit, how many offsets it has, and Unix time in ms."""


class Observers(Observer):
    """An observer made of several. One that fails is reported; the others and the group go on.

    Args:
        observers: called in this order.
        wants_requests: somebody who comes later will.
    """

    def __init__(self, observers: Sequence[Observer], log: Logger, *, wants_requests: bool = False) -> None:
        self._log = log
        self._set(observers)
        self.wants_requests = wants_requests or any(one.wants_requests for one in observers)
        self.wants_all = any(one.wants_all for one in observers)

    def add(self, observer: Observer) -> None:
        """Let somebody observe from now on, after the others."""
        self._set((*self._observers, observer))

    def _set(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)
        self._noting: tuple[Callable[[CommitNote], None], ...] | None = None  # until a commit comes
        self._counting = tuple(
            one.count_commit for one in observers if type(one).count_commit is not Observer.count_commit
        )
        self._by_type: dict[type[Event], tuple[Emit, ...]] = {}

    def __call__(self, event: Event) -> None:
        observers = self._by_type.get(event.__class__)
        if observers is None:
            observers = self._choose(event.__class__)
        for observer in observers:
            try:
                observer(event)
            except Exception:  # what is observed must not depend on who looks
                self._log.error("an observer failed", of=type(event).__name__, exc_info=True)

    def note_commit(self, note: CommitNote) -> None:
        noting = self._noting
        if noting is None:
            noting = tuple(one.note_commit for one in self._observers if one.wants(CommitReceived))
            self._noting = noting
        for take in noting:
            try:
                take(note)
            except Exception:  # as above
                self._log.error("an observer failed", of=CommitReceived.__name__, exc_info=True)

    def count_commit(self, group_id: str, partitions: int, wall_ms: int) -> None:
        for count in self._counting:
            try:
                count(group_id, partitions, wall_ms)
            except Exception:  # as above
                self._log.error("an observer failed", of="a commit", exc_info=True)

    def _choose(self, kind: type[Event]) -> tuple[Emit, ...]:
        chosen = tuple(one.taker(kind) for one in self._observers if one.wants(kind))
        self._by_type[kind] = chosen
        return chosen
