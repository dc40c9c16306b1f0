"""Counters of what happens to groups, made from events and episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ottla.broker.core import events
from ottla.observe.metrics.histogram import Durations
from ottla.observe.why.history import Running
from ottla.observe.why.model import Episode
from ottla.observe.why.waits import REVOKES

CHANGES = ("joined", "left", "expired", "missed_join", "missed_sync", "missed_revocation", "replaced", "refused")
"""Fates of members: the values of the label ``change``."""


FENCED = {"left": "left", "removed by LeaveGroup": "left", "revocation timed out": "missed_revocation"}
"""What became of members of consumer groups, by the coordinator's reason; those that expired are told of otherwise."""


class Counters(events.ByType):
    """An observer that counts.

    Args:
        max_groups: of so many groups there are counts of their own.

    Attributes:
        rebalances: that have ended, by class of cause; durations: how long they took.
        reconciliations: how long consumer groups took to come to their targets; revocations: how long their members
            took to give partitions up; regexes: how often the regexes of a group were held against topics.
        commits: OffsetCommits that became durable; committed: the offsets in them.
        stood_ms: partition-milliseconds in which nobody consumed, of what has ended, and as far as `running` was told
            of what runs.
        group_rebalances, group_stood_ms, group_committed: the same group by group.
    """

    def __init__(self, max_groups: int) -> None:
        self._max_groups = max_groups
        self.members: Counter[str] = Counter()
        self.rebalances: Counter[str] = Counter()
        self.durations = Durations()
        self.reconciliations = Durations()
        self.revocations = Durations()
        self.regexes = 0
        self.stood_ms = 0
        self.commits = 0
        self.committed = 0
        self._told: dict[tuple[str, int], int] = {}
        """What was counted of each rebalance that runs, by its group and its start."""
        self.group_rebalances: dict[str, int] = {}
        self.group_stood_ms: dict[str, int] = {}
        self.group_committed: dict[str, int] = {}
        self.by_type = {
            events.OffsetsCommitted: self._committed,
            events.MemberAdded: lambda event: self.members.update(joined=1),
            events.MemberSubscribed: lambda event: self.members.update(joined=int(event.is_new)),
            events.MemberFenced: self._fenced,
            events.RegexesResolved: self._resolved,
            events.MemberLeft: lambda event: self.members.update(left=int(not event.was_pending)),
            events.SessionExpired: lambda event: self.members.update(expired=1),
            events.MemberReplaced: lambda event: self.members.update(replaced=1),
            events.MemberRejected: lambda event: self.members.update(refused=1),
            events.BarrierClosed: self._closed,
            events.GroupRemoved: self._removed,
        }

    def on_episode(self, episode: Episode) -> None:
        """Something that happened to a group is over."""
        if episode.stood_ms:
            self._stood(episode.group_id, episode.started_ms, episode.stood_ms)
        if episode.kind == "rebalance":
            self.rebalances[episode.cause] += 1
            self.durations.add(max(0, episode.duration_ms) * 1_000_000)
            self._count(self.group_rebalances, episode.group_id, 1)
        if episode.protocol and episode.outcome == "stable":
            self.reconciliations.add(max(0, episode.duration_ms) * 1_000_000)
        for wait in episode.member_waits:
            if wait.kind in REVOKES and not wait.goes_on:
                self.revocations.add((wait.until_ms - wait.since_ms) * 1_000_000)

    def running(self, rebalances: Iterable[Running]) -> None:
        """Count what those that run have cost since they were told last, so that alerts need not wait for their end."""
        self._told = {(one.group_id, one.started_ms): self._stood(*one) for one in rebalances}

    def _stood(self, group_id: str, started_ms: int, stood_ms: int) -> int:
        """Count what an episode has cost, but for what was counted while it ran; gives what is counted of it now."""
        told_ms = self._told.pop((group_id, started_ms), 0)
        if stood_ms > told_ms:
            self.stood_ms += stood_ms - told_ms
            self._count(self.group_stood_ms, group_id, stood_ms - told_ms)
        return max(stood_ms, told_ms)

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

    def _fenced(self, event: events.MemberFenced) -> None:
        change = FENCED.get(event.reason)
        if change is not None:
            self.members[change] += 1

    def _resolved(self, event: events.RegexesResolved) -> None:
        self.regexes += 1

    def _closed(self, event: events.BarrierClosed) -> None:
        if event.barrier in ("join", "sync"):
            self.members[f"missed_{event.barrier}"] += len(event.absent)

    def _count(self, table: dict[str, int], group_id: str, more: int) -> None:
        if group_id in table or len(table) < self._max_groups:
            table[group_id] = table.get(group_id, 0) + more

    def _removed(self, event: events.GroupRemoved) -> None:
        for table in (self.group_rebalances, self.group_stood_ms, self.group_committed):
            table.pop(event.group_id, None)
