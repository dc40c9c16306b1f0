"""The contents of a report, before they are a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import NamedTuple

from ottla.pipeline.report.span import Span
from ottla.pipeline.report.words import severity, status_level


class Cell(NamedTuple):
    """Lag of a group in a bucket; no cell at all is a group that had committed nothing yet, or nothing any more.

    Attributes:
        seconds: the worst of the partitions and minutes; None where the ends of logs were not sampled.
        minimum: it is at least that.
    """

    seconds: float | None
    minimum: bool = False


class Finding(NamedTuple):
    """A row of ``gold.findings``."""

    group: str
    kind: str
    started_at: datetime
    ended_at: datetime | None
    topic: str | None
    partitions: int | None
    suspect: str | None
    evidence: str | None


class Rebalance(NamedTuple):
    """A row of ``gold.rebalances``, as far as it is shown."""

    generation: int
    first: bool
    completed_at: datetime
    duration_ms: int | None
    reason: str | None
    trigger: str | None
    members: int
    moved: int | None


class Storm(NamedTuple):
    """A row of ``gold.rebalance_storms``."""

    group: str
    started_at: datetime
    ended_at: datetime
    rebalances: int
    paused_ms: int | None
    moved: int | None
    reason: str | None
    kind: str
    suspect: str | None


class Breach(NamedTuple):
    """A row of ``gold.slo_breaches``."""

    group: str
    topic: str
    started_at: datetime
    last_minute: datetime
    minutes: int
    worst_seconds: float | None


class Forecast(NamedTuple):
    """A row of ``gold.lag_forecast``."""

    group: str
    topic: str
    as_of: datetime
    lag_now: int
    lag_per_s: float
    r2: float | None
    minutes_to_500k: float | None
    minutes_to_drain: float | None


class NotOk(NamedTuple):
    """Partitions of a group and topic that have the same status other than OK."""

    group: str
    topic: str
    status: str
    partitions: tuple[int, ...]
    lag: int
    last_commit: datetime | None


class Hot(NamedTuple):
    """A partition of ``__consumer_offsets`` and who writes most to it."""

    partition: int
    records: int
    groups: int
    top_group: str
    top_records: int


@dataclass(slots=True)
class Group:
    """A group in the span.

    Attributes:
        cells: one for each bucket.
        now: how far it is behind at the newest minute; None where that is not known.
        breaches: of its objective, the longest first.
        status: the worst of its partitions, where that is not OK.
        records: records behind at the newest minute.
        paused_ms: how long all rebalances took that say so.
    """

    name: str
    cells: list[Cell | None]
    worst: float = 0.0
    worst_bucket: int | None = None
    now: Cell | None = None
    records: int | None = None
    members: int | None = None
    rebalances: list[Rebalance] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    storms: list[Storm] = field(default_factory=list)
    breaches: list[Breach] = field(default_factory=list)
    status: str | None = None

    @property
    def paused_ms(self) -> int | None:
        known = [one.duration_ms for one in self.rebalances if one.duration_ms is not None and not one.first]
        return sum(known) if known else None

    @property
    def moved(self) -> int:
        """Partitions that changed hands in all rebalances."""
        return sum(one.moved or 0 for one in self.rebalances if not one.first)

    @property
    def changes(self) -> int:
        """Rebalances but for the first generation that is known, which need not have been one."""
        return sum(not one.first for one in self.rebalances)

    @property
    def trouble(self) -> tuple[int, int, float, int]:
        """For sorting: the more, the higher it stands."""
        worst = max((severity(one.kind) for one in self.findings), default=0)
        worst = max(worst, status_level(self.status) if self.status else 0, 2 if self.breaches else 0)
        lasting = any(one.ended_at is None for one in self.findings)
        now = self.now.seconds if self.now and self.now.seconds is not None else 0.0
        return worst, int(lasting) + (self.status is not None), max(now, self.worst), self.changes

    @property
    def worst_cell(self) -> Cell | None:
        """The cell in which it was furthest behind."""
        return None if self.worst_bucket is None else self.cells[self.worst_bucket]

    @property
    def in_trouble(self) -> bool:
        return bool(self.findings or self.breaches or self.status) or self.worst >= BEHIND_S


BEHIND_S = 60.0
"""A group that was never this far behind, and of which nothing was found, is well."""


@dataclass(slots=True)
class Scene:
    """Everything that the page shows.

    Attributes:
        sampled_once: the ends of logs were looked at a single time, so that seconds and most states cannot be known.
    """

    lake: str
    cluster: str
    span: Span
    groups: list[Group]
    findings: list[Finding]
    storms: list[Storm]
    breaches: list[Breach]
    forecasts: list[Forecast]
    not_ok: list[NotOk]
    hot: list[Hot]
    hot_since: datetime
    commits: int
    quarantine: list[tuple[str, int]]
    has_events: bool
    earlier: date | None
    only: str | None
    missing: list[str]
    points: dict[tuple[str, str], list[tuple[datetime, int]]] = field(default_factory=dict)
    unsampled: list[int] = field(default_factory=list)
    sampled_once: bool = False

    @property
    def cannot_tell(self) -> int:
        """Records that are unread while nobody can say for how long, as the ends of logs were seen once: 0 if not."""
        return sum(group.records or 0 for group in self.groups) if self.sampled_once else 0
