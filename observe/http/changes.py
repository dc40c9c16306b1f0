"""The observer that knows which groups something happened to, for those who look at them again."""

from __future__ import annotations

from ottla.broker.core.events import Event, Input, Observer

MOST_GROUPS = 10_000
"""So many wait to be looked at again. More, as of names that somebody makes up, are left to the round of all groups."""


class Changes(Observer):
    """It takes note only while somebody follows."""

    def __init__(self) -> None:
        self._groups: dict[str, None] | None = None

    def wants(self, kind: type[Event]) -> bool:
        return not issubclass(kind, Input)  # what is asked changes no group, what is decided does

    def __call__(self, event: Event) -> None:
        if self._groups is not None and len(self._groups) < MOST_GROUPS:
            self._groups[event.group_id] = None

    def count_commit(self, group_id: str, partitions: int, wall_ms: int) -> None:
        if self._groups is not None and len(self._groups) < MOST_GROUPS:
            self._groups[group_id] = None

    def follow(self) -> dict[str, None]:
        """Collect the ids of groups in the dict that is returned, in order; the caller takes them out."""
        self._groups = {}
        return self._groups

    def leave(self) -> None:
        """Follow no more."""
        self._groups = None
