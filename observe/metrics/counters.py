"""Counters of what happens to groups, made from events and episodes."""

from __future__ import annotations

from collections import Counter

from ottla.broker.core import events
from ottla.observe.metrics.histogram import Durations
from ottla.observe.why.model import Episode

CHANGES = ("joined", "left", "expired", "missed_join", "missed_sync", "replaced", "refused")
"""Fates of members: the values of the label ``change``."""


class Counters(events.ByType):
    """An observer that counts.

    Args:
        max_groups: of so many groups there are counts of their own.

    Attributes:
        rebalances: that have ended, by class of cause; durations: how long they took.
        commits: OffsetCommits that became durable; committed: the offsets in them.
        group_rebalances, group_stood_ms, group_committed: the same group by group, and partition-milliseconds in which
            nobody consumed.
    """

    def __init__(self, max_groups: int) -> None:
        self._max_groups = max_groups
        self.members: Counter[str] = Counter()
        self.rebalances: Counter[str] = Counter()
        self.durations = Durations()
        self.stood_ms = 0
        self.commits = 0
        self.committed = 0
        self.group_rebalances: dict[str, int] = {}
        self.group_stood_ms: dict[str, int] = {}
        self.group_committed: dict[str, int] = {}
        self.by_type = {
            events.OffsetsCommitted: self._committed,
            events.MemberAdded: lambda event: self._changed("joined"),
            events.MemberLeft: lambda event: None if event.was_pending else self._changed("left"),
            events.SessionExpired: lambda event: self._changed("expired"),
            events.MemberReplaced: lambda event: self._changed("replaced"),
            events.MemberRejected: lambda event: self._changed("refused"),
            events.BarrierClosed: self._closed,
            events.GroupRemoved: self._removed,
        }

    def on_episode(self, episode: Episode) -> None:
        """Something that happened to a group is over."""
        self.stood_ms += episode.stood_ms
        if episode.stood_ms:
            self._count(self.group_stood_ms, episode.group_id, episode.stood_ms)
        if episode.kind == "rebalance":
            self.rebalances[episode.cause] += 1
            self.durations.add(max(0, episode.duration_ms) * 1_000_000)
            self._count(self.group_rebalances, episode.group_id, 1)

    def of_group(self, table: dict[str, int], group_id: str) -> int | None:
        """A group's own count; None if it was not counted, as there were too many groups."""
        return table.get(group_id, 0 if len(table) < self._max_groups else None)

    def _committed(self, event: events.OffsetsCommitted) -> None:
        if event.producer_id >= 0:
            return  # a transaction has ended; what it committed was counted as it became durable
        self.count_commit(event.group_id, event.partitions, event.wall_ms)

    def count_commit(self, group_id: str, partitions: int, wall_ms: int) -> None:
        """Take a commit that became durable."""
        self.commits += 1
        self.committed += partitions
        self._count(self.group_committed, group_id, partitions)

    def _closed(self, event: events.BarrierClosed) -> None:
        if event.barrier == "join":
            self._changed("missed_join", len(event.absent))
        elif event.barrier == "sync":
            self._changed("missed_sync", len(event.absent))

    def _changed(self, change: str, times: int = 1) -> None:
        self.members[change] += times

    def _count(self, table: dict[str, int], group_id: str, more: int) -> None:
        if group_id in table or len(table) < self._max_groups:
            table[group_id] = table.get(group_id, 0) + more

    def _removed(self, event: events.GroupRemoved) -> None:
        for table in (self.group_rebalances, self.group_stood_ms, self.group_committed):
            table.pop(event.group_id, None)
