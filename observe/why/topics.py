"""Changes of topics: members that see one in their metadata join again for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.broker.core.events import Event, TopicChanged, TopicDeleted, TopicsSeen

MOST_TOPICS = 1_000
"""So many changed topics are remembered, those that changed last."""
LOOKS_MS = 600_000
"""Clients look at metadata every five minutes by default: what is older than twice that is no reason any more."""


class Change(NamedTuple):
    """The last change of a topic; the number of its partitions is 0 if it was deleted, and 0 before it was created.

    If both numbers are the same only the racks of its replicas have changed.
    """

    topic: str
    partitions_before: int
    partitions: int
    at_ms: int

    def seen_from(self, owned: Iterable[tuple[str, int]]) -> Change | None:
        """The change as a group sees it that owns these partitions; None if it knew already."""
        known = max((partition + 1 for topic, partition in owned if topic == self.topic), default=0)
        if not self.partitions:
            return self if known else None
        if known > self.partitions_before:
            return None
        return self._replace(partitions_before=known) if known else self  # it may have missed an earlier change, too

    def facts(self, at_ms: int) -> dict[str, str]:
        """The facts that are told."""
        return {
            "topic": self.topic,
            "partitions_before": str(self.partitions_before),
            "partitions": str(self.partitions),
            "changed_ago_ms": str(at_ms - self.at_ms),
        }


class Topics:
    """The topics that changed lately, by name."""

    def __init__(self) -> None:
        self._changes: dict[str, Change] = {}

    def take(self, event: Event) -> None:
        """A topic was created or deleted, or has more partitions."""
        if isinstance(event, TopicChanged):
            self._note(Change(event.topic, event.partitions_before, event.partitions, event.at_ms))
        elif isinstance(event, TopicsSeen):
            for one in event.topics:
                if one.has_other_racks:
                    self._note(Change(one.topic, one.partitions, one.partitions, event.at_ms))
        elif isinstance(event, TopicDeleted):
            self._note(Change(event.topic, 0, 0, event.at_ms))

    def _note(self, change: Change) -> None:
        self._changes.pop(change.topic, None)  # the newest are the last
        self._changes[change.topic] = change
        if len(self._changes) > MOST_TOPICS:
            del self._changes[next(iter(self._changes))]

    def changed(self, topics: Iterable[str], at_ms: int) -> list[Change]:
        """Recent changes of these topics, the last one first."""
        if not self._changes:
            return []
        found = (self._changes.get(topic) for topic in topics)
        lately = [one for one in found if one is not None and at_ms - one.at_ms <= LOOKS_MS]
        return sorted(lately, key=lambda one: -one.at_ms)
