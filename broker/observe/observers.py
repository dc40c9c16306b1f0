"""Hands each event of the coordinator to all who observe it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from ottla.broker.core.events import Emit, Event

Count: TypeAlias = Callable[[str, int, int], None]
"""Takes the group of a commit, how many offsets it has, and Unix time in ms."""


class Report(Protocol):
    """Where a bug is reported."""

    def error(self, event: str, **fields: Any) -> Any: ...


class Observers:
    """An observer made of several. One that fails is reported; the others and the group go on.

    An observer that has an attribute ``wants``, a function of a type of events, is only given the types for which it
    answers True: what comes with every commit costs something for each who is told. One that has an attribute
    ``taker``, a function of a type too, says what takes events of that type in its place.

    One that has a method ``count_commit`` is told with it of each commit that became durable and of which there is no
    event, as nobody wants all: `OffsetsCommitted` is told then where an offset moved back, or a transaction ended.

    Args:
        observers: called in this order.
        wants_requests: somebody who comes later will.

    Attributes:
        wants_requests: whether anybody has a use for events that only say what was asked and answered.
        wants_all: whether for those, too, that say once more that a commit succeeded; none that says what it wants has.
    """

    def __init__(self, observers: Sequence[Emit], report: Report, *, wants_requests: bool = False) -> None:
        self._observers = tuple(observers)
        self._counting = _counting(observers)
        self._report = report
        self._by_type: dict[type[Event], tuple[Emit, ...]] = {}
        self.wants_requests = wants_requests or any(getattr(one, "wants_requests", True) for one in observers)

        self.wants_all = any(getattr(one, "wants_all", not hasattr(one, "wants")) for one in observers)

    def add(self, observer: Emit) -> None:
        """Let somebody observe from now on, after the others."""
        self._observers = (*self._observers, observer)
        self._counting = _counting(self._observers)
        self._by_type.clear()

    def __call__(self, event: Event) -> None:
        observers = self._by_type.get(event.__class__)
        if observers is None:
            observers = self._choose(event.__class__)
        for observer in observers:
            try:
                observer(event)
            except Exception:  # what is observed must not depend on who looks
                self._report.error("an observer failed", of=type(event).__name__, exc_info=True)

    def count_commit(self, group_id: str, partitions: int, wall_ms: int) -> None:
        """So many offsets of a group are durable and visible, and nothing about them is remarkable."""
        for count in self._counting:
            try:
                count(group_id, partitions, wall_ms)
            except Exception:  # as above
                self._report.error("an observer failed", of="a commit", exc_info=True)

    def _choose(self, kind: type[Event]) -> tuple[Emit, ...]:
        chosen = tuple(_taker(one, kind) for one in self._observers if getattr(one, "wants", _everything)(kind))
        self._by_type[kind] = chosen
        return chosen


def _counting(observers: Sequence[Emit]) -> tuple[Count, ...]:
    return tuple(one.count_commit for one in observers if hasattr(one, "count_commit"))


def _taker(observer: Emit, kind: type[Event]) -> Emit:
    taker: Emit = observer.taker(kind) if hasattr(observer, "taker") else observer
    return taker


def _everything(kind: type[Event]) -> bool:
    return True
