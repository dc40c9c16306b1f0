"""What happened to a cluster's logs, as clients were told it and as the database has it, and whether it may be so.

Plain data, so that the checker can be tried on histories that were made up. ``at`` counts events: what was told before
something began has a smaller number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.sim.kernel import Violation


class Batch(NamedTuple):
    """Offsets of a log, and what is there: who wrote it, and its number."""

    log_id: int
    base: int
    last: int
    name: str
    number: int


class Inserted(NamedTuple):
    """A batch that became part of a log, under an epoch."""

    batch: Batch
    epoch: int


class Removed(NamedTuple):
    """A batch that retention or compaction took out."""

    log_id: int
    base: int


class Led(NamedTuple):
    """An epoch was given to an incarnation of a node."""

    log_id: int
    epoch: int
    node_id: int
    incarnation: int


class Begun(NamedTuple):
    """The start of an epoch was noted."""

    log_id: int
    epoch: int
    start: int


class Started(NamedTuple):
    """A log begins at an offset from now on."""

    log_id: int
    offset: int


Change = Inserted | Removed | Led | Begun | Started


class Told(NamedTuple):
    """An answer that said a number, and when its request began and it came. ``log_id`` of a commit is its group's."""

    log_id: int
    name: str
    value: int
    began: int
    at: int


class Read(NamedTuple):
    """A batch that a reader was shown, the offset that he had asked for, and the high watermark that he was told."""

    offset: int
    batch: Batch
    high_watermark: int


class Viewed(NamedTuple):
    """The epoch of a log's leader, as a node in one life said it to a client."""

    client: str
    life: tuple[int, int]
    log_id: int
    version: int


def is_passing(name: str) -> bool:
    """Whether compaction removes everything that one of this name wrote, as it does with tombstones."""
    return name.startswith("x")


@dataclass
class History:
    """See the module.

    Attributes:
        changes: the commits of the database that is left at the end, in order.
        acked: appends of idempotent producers that were acknowledged.
        failed: appends that were told to have failed for good, as name and number.
        holes: reads below the high watermark that showed nothing, of logs that are not compacted.
        commits: values that were acknowledged, by group; each group commits rising numbers.
        fetches: values that were said to be committed; -1 for none.
        ends: ends of logs that were told, and acknowledged ends of appends are in ``acked``.
        compacted: logs of which only the last value of each name must stay.
        usurped: logs that were taken from a leader whose lease held.
        cut_short: logs that were handed over while appends to them were open.
        stuck: who did not get on after all faults had ended.
    """

    changes: list[Change] = field(default_factory=list)
    acked: list[tuple[int, Batch]] = field(default_factory=list)
    failed: list[tuple[str, int]] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    holes: list[str] = field(default_factory=list)
    commits: list[Told] = field(default_factory=list)
    fetches: list[Told] = field(default_factory=list)
    ends: list[Told] = field(default_factory=list)
    views: list[Viewed] = field(default_factory=list)
    id_blocks: list[int] = field(default_factory=list)
    topics_created: list[tuple[int, str]] = field(default_factory=list)
    topics_denied: list[tuple[int, str]] = field(default_factory=list)
    topics: set[str] = field(default_factory=set)
    compacted: frozenset[int] = frozenset()
    usurped: list[str] = field(default_factory=list)
    cut_short: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Raise the first violation there is."""
        for rule, what in self.anomalies():
            raise Violation(rule, what)

    def anomalies(self) -> Iterator[tuple[str, str]]:
        """Every violation: its rule, and what broke it."""
        logs = _Logs(self.compacted)
        for change in self.changes:
            yield from logs.apply(change)
        yield from self._appends(logs)
        yield from self._reads(logs)
        yield from self._commits(logs)
        yield from self._views()
        yield from (("taken under a lease", what) for what in self.usurped)
        yield from (("handed over unsettled", what) for what in self.cut_short)
        yield from (("stuck", what) for what in self.stuck)

    def _appends(self, logs: _Logs) -> Iterator[tuple[str, str]]:
        for _, batch in self.acked:
            there = logs.ever.get((batch.log_id, batch.base))
            if there is None:
                yield "lost write", f"{batch} was acknowledged"
            elif there != batch:
                yield "inconsistent offset", f"{batch} was acknowledged, {there} is there"
            elif logs.there(batch) is None and not logs.may_be_missing(batch):
                yield "lost write", f"{batch} was acknowledged and has been removed"
        for name, number in self.failed:
            if (name, number) in logs.written:
                yield "failure that was none", f"{name} was told that {number} had failed"

    def _reads(self, logs: _Logs) -> Iterator[tuple[str, str]]:
        yield from (("skipped", what) for what in self.holes)
        for offset, batch, high_watermark in self.reads:
            if batch.last >= high_watermark:
                yield "shown too early", f"{batch} below {high_watermark}"
            there = logs.ever.get((batch.log_id, batch.base))
            if there is None:
                yield "shown and gone", f"{batch} was read"
            elif there != batch:
                yield "inconsistent offset", f"{batch} was read, {there} is there"
            for one in logs.between(batch.log_id, offset, batch.base):
                if not logs.may_be_missing(one):
                    yield "skipped", f"a read from {offset} showed {batch} and not {one}"
        ends = _Rising((batch.log_id, at, batch.last + 1) for at, batch in self.acked)
        for end in self.ends:
            known = ends.before(end.log_id, end.began, 0)
            if end.value < known:
                yield "stale end", f"{end}, and {known} was known before"

    def _commits(self, logs: _Logs) -> Iterator[tuple[str, str]]:
        for commit in self.commits:
            if (commit.name, commit.value) not in logs.written:
                yield "lost write", f"{commit} was acknowledged"
        last: dict[str, int] = {}
        for batch in (batch for one in logs.by_log.values() for batch in one):
            if batch.log_id in self.compacted and logs.there(batch) is not None:
                last[batch.name] = batch.number
        for name in sorted({commit.name for commit in self.commits}):
            most = max(commit.value for commit in self.commits if commit.name == name)
            if last.get(name, -1) < most:
                yield "lost write", f"{name} has committed {most}, {last.get(name)} is left"
        values = _Rising((commit.name, commit.at, commit.value) for commit in self.commits)
        for fetch in self.fetches:
            known = values.before(fetch.name, fetch.began, -1)
            if fetch.value < known:
                yield "stale commit", f"{fetch}, and {known} was committed before"
            if fetch.value >= 0 and (fetch.name, fetch.value) not in logs.written:
                yield "shown and gone", f"{fetch}"

    def _views(self) -> Iterator[tuple[str, str]]:
        newest: dict[tuple[str, tuple[int, int], int], int] = {}
        for view in self.views:
            said_by = (view.client, view.life, view.log_id)
            before = newest.setdefault(said_by, view.version)
            if view.version < before:
                yield "view goes back", f"{view}, after {before}"
            newest[said_by] = max(before, view.version)
        for block in self.id_blocks:
            if self.id_blocks.count(block) > 1:
                yield "ids given twice", str(block)
        for _, topic in self.topics_created:
            if topic not in self.topics:
                yield "lost topic", topic
        for began, topic in self.topics_denied:
            if any(one == topic and at < began for at, one in self.topics_created):
                yield "topic denied", topic


class _Rising:
    """The largest value of each key that was told before a moment."""

    def __init__(self, told: Iterable[tuple[object, int, int]]) -> None:
        self._times: dict[object, list[int]] = {}
        self._most: dict[object, list[int]] = {}
        for key, at, value in sorted(told, key=lambda one: one[1]):
            most = self._most.setdefault(key, [])
            most.append(max(value, most[-1]) if most else value)
            self._times.setdefault(key, []).append(at)

    def before(self, key: object, at: int, least: int) -> int:
        index = bisect_left(self._times.get(key, []), at)
        return max(self._most[key][index - 1], least) if index else least


class _Logs:
    """Logs as the changes make them."""

    def __init__(self, compacted: frozenset[int]) -> None:
        self.compacted = compacted
        self.ever: dict[tuple[int, int], Batch] = {}
        self.by_log: dict[int, list[Batch]] = {}
        self.written: set[tuple[str, int]] = set()
        self._there: dict[int, dict[int, Batch]] = {}
        self._ends: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._leaders: dict[tuple[int, int], tuple[int, int]] = {}
        self._begun: dict[tuple[int, int], int] = {}
        self._latest: dict[tuple[int, str], int] = {}

    def there(self, batch: Batch) -> Batch | None:
        """What is left where a batch was."""
        return self._there.get(batch.log_id, {}).get(batch.base)

    def between(self, log_id: int, offset: int, end: int) -> Sequence[Batch]:
        """The batches with records from an offset on that begin below an end."""
        batches = self.by_log.get(log_id, [])
        first = bisect_left(batches, offset, key=lambda batch: batch.last)
        return batches[first : bisect_left(batches, end, key=lambda batch: batch.base)]

    def may_be_missing(self, batch: Batch) -> bool:
        """Whether retention or compaction may have removed it."""
        if batch.last < self._starts.get(batch.log_id, 0):
            return True
        is_later = self._latest.get((batch.log_id, batch.name), 0) > batch.base
        return batch.log_id in self.compacted and (is_passing(batch.name) or is_later)

    def apply(self, change: Change) -> Iterator[tuple[str, str]]:
        match change:
            case Inserted(batch, epoch):
                yield from self._insert(batch, epoch)
            case Removed(log_id, base):
                self._there.get(log_id, {}).pop(base, None)
            case Led(log_id, epoch, node_id, incarnation):
                leader = self._leaders.setdefault((log_id, epoch), (node_id, incarnation))
                if leader != (node_id, incarnation):
                    yield "two leaders of an epoch", f"{change}, and {leader}"
            case Begun(log_id, epoch, start):
                self._begun[log_id, epoch] = start
            case Started(log_id, offset):
                self._starts[log_id] = max(offset, self._starts.get(log_id, 0))

    def _insert(self, batch: Batch, epoch: int) -> Iterator[tuple[str, str]]:
        log_id = batch.log_id
        there = self._there.setdefault(log_id, {})
        if self.ever.get((log_id, batch.base)) == batch and batch.last < self._starts.get(log_id, 0):
            return  # a copy that looked before it was deleted: nobody sees it, and the next sweep takes it
        end = self._ends.get(log_id, 0)
        if batch.base < end:
            yield "overlap", f"{batch} in a log that ends at {end}"
        if batch.base > end:
            yield "gap", f"{batch} in a log that ends at {end}"
        if epoch < self._epochs.get(log_id, 0):
            yield "falling epoch", f"{batch} under {epoch}, after {self._epochs[log_id]}"
        if (log_id, epoch) not in self._begun:
            yield "unnoted epoch", f"{batch} under {epoch}"
        if log_id not in self.compacted and (batch.name, batch.number) in self.written:
            yield "duplicate", f"{batch}"
        self.ever[log_id, batch.base] = there[batch.base] = batch
        self.by_log.setdefault(log_id, []).append(batch)
        self.written.add((batch.name, batch.number))
        self._latest[log_id, batch.name] = batch.base
        self._ends[log_id] = batch.last + 1
        self._epochs[log_id] = epoch
