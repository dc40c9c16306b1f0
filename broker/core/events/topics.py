"""Changes of topics. No decision of the coordinator depends on it: groups learn of it from their clients."""

from __future__ import annotations

from ottla.broker.core.events.base import Event


class TopicChanged(Event, kw_only=True):
    """A topic was created, and ``partitions_before`` is 0, or it has more partitions now.

    `TopicDeleted` is the end of one.
    """

    topic: str
    partitions: int
    partitions_before: int
