"""Observers of the group coordinator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ottla.broker.core.events.base import Event
from ottla.broker.core.events.commits import CommitNote, commit_event

Emit: TypeAlias = Callable[[Event], None]
"""Takes an event; must not call back into the coordinator."""


def _nothing() -> None:
    pass


class Observer:
    """Takes the group coordinator's events. This one has no use for any.

    Attributes:
        at_once: whether it must be told before anything else happens: it looks at groups as they are at that moment.
        catch_up: has what waits to be told told; to be called before anybody is answered from what was observed.
        wants_requests: whether events are made that only say what was asked and answered.
        wants_all: whether those are made, too, that only say that a commit succeeded. Without them `count_commit` is
            called for each, and `OffsetsCommitted` is made where an offset moved back or a transaction ended.
    """

    at_once = False
    wants_requests = False
    wants_all = False
    catch_up: Callable[[], None] = staticmethod(_nothing)

    def __call__(self, event: Event) -> None:
        """Take an event. Must not call back into the coordinator."""

    def wants(self, kind: type[Event]) -> bool:
        """True if events of a type are to be taken. Each costs something for every observer that is told of it."""
        return True

    def taker(self, kind: type[Event]) -> Emit:
        """The function that takes events of a type."""
        return self

    def note_commit(self, note: CommitNote) -> None:
        """Take a commit that came in. It stands for the event `CommitReceived`, which is made of it where needed."""
        self(commit_event(note))

    def count_commit(self, group_id: str, partitions: int, wall_ms: int) -> None:
        """Take a commit that became durable and of which no event is made.

        Args:
            partitions: how many offsets were committed.
        """

    def count_commits(self, commits: Sequence[tuple[str, int]], wall_ms: int) -> None:
        """Take several of them, by group id and number of offsets, in their order."""
        for group_id, partitions in commits:
            self.count_commit(group_id, partitions, wall_ms)


class ByType(Observer):
    """Takes the types of events for which ``by_type`` has a function."""

    by_type: Mapping[type[Event], Callable[[Any], None]]

    def wants(self, kind: type[Event]) -> bool:
        return kind in self.by_type

    def taker(self, kind: type[Event]) -> Emit:
        return self.by_type.get(kind, self)

    def __call__(self, event: Event) -> None:
        if (take := self.by_type.get(event.__class__)) is not None:
            take(event)


class EveryEvent(Observer):
    """Passes every event on to a function, at once."""

    at_once = wants_requests = wants_all = True

    def __init__(self, take: Emit) -> None:
        self._take = take

    def __call__(self, event: Event) -> None:
        self._take(event)

    def taker(self, kind: type[Event]) -> Emit:
        return self._take


UNOBSERVED = Observer()
"""Stands where nobody observes."""
