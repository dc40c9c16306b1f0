"""Commits and lag of each group in buckets of time: the lower rows of the timeline.

There are twelve minutes in fine buckets, four hours in coarser ones and a day in coarse ones. Memory is bounded: the
groups of which nothing was heard for longest are forgotten first; and while there is none that was silent for a
while, new ones find no place. Else, of more groups than there is room for, nothing would be known of any.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.broker.core.events import Event, Observer, OffsetsCommitted

if TYPE_CHECKING:
    from ottla.observe.timeline.model import Flow

TIERS = ((5_000, 144), (60_000, 240), (360_000, 240))
"""Width of a bucket in milliseconds, and how many of them are kept."""
FINEST_MS = TIERS[0][0]
"""All widths are multiples of this."""
MOST_NEW = 10_000
"""Of so many groups commits are counted before they are put into buckets."""
HOLDS_MS = 30_000
"""For how long a lag is taken to be what it was when somebody looked last."""
SURPLUS = 1.25
"""A row is trimmed when it is this many times as long as wanted."""
SILENT_MS = 600_000
"""A group of which nothing was heard for so long gives way to another."""
GROUP_BYTES = int(sum(count for _, count in TIERS) * SURPLUS * (4 + 8)) + 1_200
"""Most bytes that one group takes."""


class Row:
    """The buckets of one width; ``first`` is the number of the first one, counted from 1970."""

    __slots__ = ("commits", "count", "first", "lag", "width_ms")

    def __init__(self, width_ms: int, count: int) -> None:
        self.width_ms = width_ms
        self.count = count
        self.first = 0
        self.commits = array("i")
        self.lag = array("q")

    @property
    def end_ms(self) -> int:
        """The end of the last bucket."""
        return (self.first + len(self.commits)) * self.width_ms

    def index(self, wall_ms: int) -> int:
        """Index of the bucket of ``wall_ms``; earlier times count as the oldest."""
        bucket = wall_ms // self.width_ms
        if not self.commits:
            self.first = bucket
        missing = bucket - self.first - len(self.commits) + 1
        if missing > 0:
            if missing > self.count:
                self.commits = array("i")
                self.lag = array("q")
                self.first = bucket
                missing = 1
            self.commits.extend([0] * missing)
            self.lag.extend([-1] * missing)
            if len(self.commits) >= self.count * SURPLUS:
                surplus = len(self.commits) - self.count
                del self.commits[:surplus]
                del self.lag[:surplus]
                self.first += surplus
        return max(bucket - self.first, 0)


class Traffic(Observer):
    """Observes commits; lag is told by whoever looks at the groups from time to time.

    Args:
        budget_bytes: the memory it may take.
    """

    def __init__(self, budget_bytes: int) -> None:
        self._most = max(budget_bytes // GROUP_BYTES, 1)
        self._groups: dict[str, list[Row]] = {}
        # The commits of the present fine bucket: a hundred in a bucket cost one look at the rows.
        self._bucket = 0
        self._new: dict[str, int] = {}

    def wants(self, kind: type[Event]) -> bool:
        return kind is OffsetsCommitted

    def __call__(self, event: Event) -> None:
        if isinstance(event, OffsetsCommitted) and event.producer_id < 0:  # else it is told a second time
            self.count_commit(event.group_id, event.partitions, event.wall_ms)

    def count_commit(self, group_id: str, partitions: int, wall_ms: int) -> None:
        self.count_commits([(group_id, partitions)], wall_ms)

    def count_commits(self, commits: Sequence[tuple[str, int]], wall_ms: int) -> None:
        bucket, new = wall_ms // FINEST_MS, self._new
        if bucket != self._bucket or len(new) >= MOST_NEW:
            self._store()
            self._bucket = bucket
            new = self._new
        for group_id, _ in commits:
            new[group_id] = new.get(group_id, 0) + 1

    def _store(self) -> None:
        """Put the commits of a bucket into the rows."""
        new, self._new = self._new, {}
        wall_ms = self._bucket * FINEST_MS
        for group_id, commits in new.items():
            for row in self._rows(group_id, wall_ms):
                index = row.index(wall_ms)
                row.commits[index] += commits

    def lag(self, group_id: str, lag: int, wall_ms: int) -> None:
        """Take the lag that a group has now."""
        if self._new:
            self._store()
        for row in self._rows(group_id, wall_ms):
            index = row.index(wall_ms)
            row.lag[index] = lag

    def flow(self, group_id: str, from_ms: int, until_ms: int) -> Flow | None:
        """Commits and lag of a time, in the finest buckets that reach back to ``from_ms``; None if that is nothing."""
        from ottla.observe.timeline.model import Flow  # a broker observes commits before anybody asks

        self._store()
        rows = self._groups.get(group_id)
        if rows is None:
            return None
        # The finest row that has not yet lost what came before; the coarsest if they all have.
        row = next((one for one in rows if until_ms - from_ms <= one.width_ms * one.count), rows[-1])
        skipped = max(from_ms // row.width_ms - row.first, 0)
        end = max(until_ms // row.width_ms - row.first + 1, 0)
        if skipped >= min(end, len(row.commits)):
            return None
        return Flow(
            start=(row.first + skipped) * row.width_ms - from_ms,
            bucket_ms=row.width_ms,
            commits=row.commits[skipped:end].tolist(),
            lag=_held(row.lag[skipped:end].tolist(), HOLDS_MS // row.width_ms),
        )

    def _rows(self, group_id: str, wall_ms: int) -> list[Row]:
        """The rows of a group; none if there is no room for it."""
        rows = self._groups.pop(group_id, None)
        if rows is None:
            if len(self._groups) >= self._most:
                eldest = next(iter(self._groups))
                if wall_ms - self._groups[eldest][0].end_ms < SILENT_MS:
                    return []
                del self._groups[eldest]
            rows = [Row(*tier) for tier in TIERS]
        self._groups[group_id] = rows
        return rows


def _held(values: list[int], most: int) -> list[int]:
    """Lag that holds until somebody looks again, for so many buckets at most."""
    known, age = -1, 0
    for index, value in enumerate(values):
        known, age = (value, 0) if value >= 0 else (known, age + 1)
        if value < 0 and age <= most:
            values[index] = known
    return values
