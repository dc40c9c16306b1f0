"""The observer that knows which groups something happened to, for those who look at them again."""

from __future__ import annotations

from ottla.broker.core.events import Event, Input

MOST_GROUPS = 10_000
"""So many wait to be looked at again. More, as of names that somebody makes up, are left to the round of all groups."""


class Changes:
    """It takes note only while somebody follows.

    Attributes:
        wants_requests: see `ottla.broker.observe.observers.Observers`.
    """

    wants_requests = False

    def __init__(self) -> None:
        self._groups: dict[str, None] | None = None

    @staticmethod
    def wants(kind: type[Event]) -> bool:
        """Whether events of a type may change what a group looks like: what is asked does not, what is decided does."""
        return not issubclass(kind, Input)

    def __call__(self, event: Event) -> None:
        """Take an event."""
        if self._groups is not None and len(self._groups) < MOST_GROUPS:
            self._groups[event.group_id] = None

    def count_commit(self, group_id: str, partitions: int, wall_ms: int) -> None:
        """Take a commit of which there is no event."""
        if self._groups is not None and len(self._groups) < MOST_GROUPS:
            self._groups[group_id] = None

    def follow(self) -> dict[str, None]:
        """From now on put the ids of groups into what is returned, in order; whoever has it takes them out."""
        self._groups = {}
        return self._groups

    def leave(self) -> None:
        """Follow no more."""
        self._groups = None
