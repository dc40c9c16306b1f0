"""A `Scene` out of a lake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from typing import Any

from ottla.pipeline.report import lag
from ottla.pipeline.report.reading import NothingToReport, Tables, within
from ottla.pipeline.report.scene import Breach, Finding, Forecast, Group, Hot, NotOk, Rebalance, Scene, Storm
from ottla.pipeline.report.span import DEFAULT_DAYS, Span
from ottla.pipeline.report.words import severity, status_level
from ottla.pipeline.tables import GOLD

TIMES = {"lag_by_partition": "minute", "rebalances": "completed_at"}
"""The tables that say how far a lake goes, and their columns of time."""
HOT_ROWS = 30_000_000
"""With more commits than this, only those of the last hour are counted."""
BEFORE_FORECAST = timedelta(minutes=60)
CALM = timedelta(minutes=1)
"""Rebalances further apart are not of one storm."""


def scene(tables: Tables, since: datetime | None, until: datetime | None) -> Scene:
    """Read what the page shows.

    Raises:
        NothingToReport: the span holds no data, or the group is not in the lake.
    """
    span, earlier = _span(tables, since, until)
    findings, storms, breaches = _findings(tables, span), _storms(tables, span), _breaches(tables, span)
    not_ok = _not_ok(tables, span)
    findings = [_ended(one, storms, span) for one in findings]
    groups = _groups(tables, span, findings, storms, breaches, not_ok)
    hot, hot_since, commits = _hot(tables, span)
    forecasts = _forecasts(tables, span)
    return Scene(
        lake=tables.lake,
        cluster=_cluster(tables),
        span=span,
        groups=groups,
        findings=_worst_first(findings, groups),
        storms=storms,
        breaches=breaches,
        forecasts=forecasts,
        not_ok=not_ok,
        hot=hot,
        hot_since=hot_since,
        commits=commits,
        quarantine=_quarantine(tables, span),
        has_events=tables.count("group_events", days=span.dates) > 0,
        earlier=earlier,
        only=tables.group,
        missing=[one.name for one in GOLD if one.name in TIMES and not tables.has(one.name)],
        unsampled=_unsampled(groups, span),
        sampled_once=_sampled_once(tables, span),
    )


def _span(tables: Tables, since: datetime | None, until: datetime | None) -> tuple[Span, date | None]:
    """The span, and the lake's first day if that lies before it and nobody asked for less."""
    days = sorted({day for table in TIMES for day in tables.days(table)})
    if days:
        wanted = (since or datetime.min.replace(tzinfo=UTC)).date(), (until or datetime.max.replace(tzinfo=UTC)).date()
        inside = [day for day in days if wanted[0] <= day <= wanted[1]]
        if not inside:
            raise NothingToReport(
                f"the lake {tables.lake} holds {days[0]} to {days[-1]}, and nothing of the time that was asked for"
            )
        default = None if since else inside[-1] - timedelta(days=DEFAULT_DAYS - 1)
        inside = [day for day in inside if default is None or day >= default]
        ends = [_extent(tables, edge, since, until) for edge in (inside[0], inside[-1])]
        found = [when for pair in ends for when in pair]
        if found:
            span = Span.of(min(found), max(found) + timedelta(microseconds=1))
            return span, days[0] if since is None and days[0] < span.start.date() else None
    if tables.group is not None:
        raise NothingToReport(_no_group(tables, None))
    of = "the time that was asked for" if since or until else "any group"
    raise NothingToReport(
        f"the gold tables of {tables.lake} hold nothing of {of}; "
        f"`ottla pipeline gold --lake {tables.lake}` builds them anew from what was read"
    )


def _extent(tables: Tables, day: date, since: datetime | None, until: datetime | None) -> list[datetime]:
    """The first and the last time of a day, of the rows that count; nothing if there are none."""
    import pyarrow.compute as pc

    found: list[datetime] = []
    for table, column in TIMES.items():
        where = within(column, since, until)
        for batch in tables.batches(table, [column], days=(day, day), where=where):
            if batch.num_rows:
                edge = pc.min_max(batch[column]).as_py()
                found += [one for one in (edge["min"], edge["max"]) if one is not None]
                # A minute is named by its beginning, and lasts until the next.
                if column == "minute" and edge["max"] is not None:
                    found.append(edge["max"] + timedelta(seconds=59))
    return [min(found), max(found)] if found else []


def _no_group(tables: Tables, known: Iterable[str] | None) -> str:
    """Say that the group is not there, with names that are like it."""
    names = set(known or ())
    everyone = Tables(tables.lake)
    for table in TIMES:
        for batch in everyone.batches(table, ["group_id"]):
            names.update(batch["group_id"].unique().to_pylist())
    names.discard(None)
    near = get_close_matches(tables.group or "", names, 3, 0.5)
    like = f"; like it: {', '.join(near)}" if near else ""
    return f"the lake {tables.lake} has no group {tables.group!r} among its {len(names)}{like}"


def _touches(span: Span, start: datetime, end: datetime | None) -> bool:
    return start < span.end and (end is None or end >= span.start)


def _findings(tables: Tables, span: Span) -> list[Finding]:
    columns = ["date", *Finding._fields]
    columns[1] = "group_id"
    newest: dict[Any, Finding] = {}
    for _, *row in sorted(tables.lines("findings", columns), key=lambda row: row[0] or date.min):
        one = Finding(*row)
        if one.started_at is not None and _touches(span, one.started_at, one.ended_at):
            # One that lasts over midnight may stand in two days: the later knows more.
            newest[one.group, one.kind, one.started_at, one.topic] = one
    return list(newest.values())


def _ended(one: Finding, storms: list[Storm], span: Span) -> Finding:
    """A finding of a storm that is over by the end of the span, though lag of so late was not there to tell it."""
    if one.ended_at is None and one.kind in ("storm", "rolling_restart"):
        for storm in storms:
            if (storm.group, storm.started_at) == (one.group, one.started_at) and storm.ended_at + CALM <= span.end:
                return one._replace(ended_at=storm.ended_at)
    return one


def _worst_first(findings: list[Finding], groups: list[Group]) -> list[Finding]:
    rank = {group.name: index for index, group in enumerate(groups)}
    return sorted(
        findings,
        key=lambda one: (
            -severity(one.kind),
            one.ended_at is not None,
            rank.get(one.group, len(rank)),
            one.started_at,
            one.topic or "",
        ),
    )


def _storms(tables: Tables, span: Span) -> list[Storm]:
    columns = ["group_id", "started_at", "ended_at", "rebalances", "paused_ms", "partitions_moved"]
    columns += ["main_reason", "kind", "suspect_client"]
    storms = (Storm(*row) for row in tables.lines("rebalance_storms", columns))
    touching = (one for one in storms if _touches(span, one.started_at, one.ended_at))
    return sorted(touching, key=lambda one: (one.kind != "storm", -one.rebalances, one.group, one.started_at))


def _breaches(tables: Tables, span: Span) -> list[Breach]:
    columns = ["group_id", "topic", "started_at", "last_minute", "minutes", "worst_lag_seconds"]
    breaches = (Breach(*row) for row in tables.lines("slo_breaches", columns))
    touching = (one for one in breaches if _touches(span, one.started_at, one.last_minute))
    return sorted(touching, key=lambda one: (-one.minutes, -(one.worst_seconds or 0), one.group, one.topic))


def _newest(tables: Tables, table: str, columns: list[str], span: Span) -> Iterable[Any]:
    """The rows of the newest day: each run of gold writes all of such a table anew, by the day of the newest record."""
    days = [day for day in tables.days(table) if span.dates[0] <= day <= span.dates[1]]
    return tables.lines(table, columns, days=(days[-1], days[-1])) if days else ()


def _not_ok(tables: Tables, span: Span) -> list[NotOk]:
    columns = ["group_id", "topic", "partition", "status", "lag", "last_commit"]
    gathered: dict[tuple[str, str, str], list[tuple[int, int, datetime | None]]] = {}
    for group, topic, partition, status, behind, commit in _newest(tables, "partition_status", columns, span):
        if status != "OK":
            gathered.setdefault((group, topic, status), []).append((partition, behind or 0, commit))
    listed = [
        NotOk(
            *key,
            partitions=tuple(sorted(row[0] for row in rows)),
            lag=sum(row[1] for row in rows),
            last_commit=max((row[2] for row in rows if row[2] is not None), default=None),
        )
        for key, rows in gathered.items()
    ]
    return sorted(listed, key=lambda one: (-status_level(one.status), -one.lag, one.group, one.topic))


def _forecasts(tables: Tables, span: Span) -> list[Forecast]:
    columns = ["group_id", "topic", "as_of", "lag_now", "lag_per_s", "r2", "minutes_to_500k", "minutes_to_drain"]
    rows = _newest(tables, "lag_forecast", columns, span)
    # A line through points that are all the same has no slope, or no r2: nothing is foreseen.
    known = [Forecast(*row) for row in rows if row[3] is not None and row[4] is not None]
    growing = sorted((one for one in known if one.lag_per_s > 0), key=lambda one: (-one.lag_per_s, one.group))
    return growing + sorted((one for one in known if one.lag_per_s < 0), key=lambda one: (-one.lag_now, one.group))


def _rebalances(tables: Tables, span: Span) -> dict[str, list[Rebalance]]:
    columns = ["group_id", "generation", "prev_generation", "completed_at", "duration_ms", "reason"]
    columns += ["trigger_member", "members_after", "partitions_moved"]
    found: dict[str, list[Rebalance]] = {}
    where = within("completed_at", span.start, span.end)
    for group, generation, previous, *rest in tables.lines("rebalances", columns, days=span.dates, where=where):
        found.setdefault(group, []).append(Rebalance(generation, previous is None, *rest))
    for line in found.values():
        line.sort(key=lambda one: (one.completed_at, one.generation))
    return found


def _groups(
    tables: Tables,
    span: Span,
    findings: list[Finding],
    storms: list[Storm],
    breaches: list[Breach],
    not_ok: list[NotOk],
) -> list[Group]:
    """Every group that anything is known of, the most troubled first."""
    lines, now, rebalances = lag.cells(tables, span), lag.now(tables, span), _rebalances(tables, span)
    names = {*lines, *rebalances, *(one.group for one in findings), *(one.group for one in breaches)}
    if not names:
        raise NothingToReport(_no_group(tables, ()) if tables.group else f"{tables.lake} holds no group in this time")
    groups = {name: Group(name, lines.get(name) or [None] * span.buckets) for name in sorted(names)}
    for name, group in groups.items():
        seconds = [cell.seconds if cell and cell.seconds is not None else -1.0 for cell in group.cells]
        if (most := max(seconds)) >= 0:
            group.worst, group.worst_bucket = most, seconds.index(most)
        group.now, group.records = now.get(name, (None, None))
        group.rebalances = rebalances.get(name, [])
        group.members = group.rebalances[-1].members if group.rebalances else None
    for finding in findings:
        groups[finding.group].findings.append(finding)
    for storm in storms:
        if storm.group in groups:
            groups[storm.group].storms.append(storm)
    for breach in breaches:
        groups[breach.group].breaches.append(breach)
    for part in not_ok:
        if part.group in groups and groups[part.group].status is None:
            groups[part.group].status = part.status  # they come worst first
    return sorted(groups.values(), key=lambda one: (tuple(-part for part in one.trouble), one.name))


def _unsampled(groups: list[Group], span: Span) -> list[int]:
    """The buckets of which no group has a figure though some had before and some after."""
    seen = {
        index
        for group in groups
        for index, cell in enumerate(group.cells)
        if cell is not None and cell.seconds is not None
    }
    return [index for index in range(min(seen), max(seen)) if index not in seen] if seen else []


def _sampled_once(tables: Tables, span: Span) -> bool:
    """Tell whether there is a single sample of the ends of logs: all topics' are taken at the same time."""
    seen: set[Any] = set()
    for batch in tables.batches("log_end_samples", ["sample_ts"], days=(date.min, span.dates[1])):
        seen.update(batch["sample_ts"].unique().to_pylist())
        if len(seen) > 1:
            break
    return len(seen) == 1


def _hot(tables: Tables, span: Span) -> tuple[list[Hot], datetime, int]:
    """The writers of each partition of __consumer_offsets, since when they were counted, and the commits in all."""
    import pyarrow.compute as pc

    since = span.start
    if tables.count("offset_commits", days=span.dates) > HOT_ROWS:
        since = max(since, span.end - timedelta(hours=1))
    columns = {"partition": pc.field("log_partition"), "group": pc.field("group_id")}
    days = (since.date(), span.dates[1])
    counts = tables.aggregate(
        "offset_commits",
        ["log_partition", "log_ts"],
        columns,
        ["partition", "group"],
        [("", "hash_count_all")],
        days=days,
        where=within("log_ts", since, span.end),
    )
    found: dict[int, list[tuple[int, str]]] = {}
    for partition, group, many in counts:
        found.setdefault(partition, []).append((many, group))
    hot = [
        Hot(partition, sum(many for many, _ in line), len(line), max(line)[1], max(line)[0])
        for partition, line in found.items()
    ]
    return sorted(hot, key=lambda one: (-one.records, one.partition)), since, sum(one.records for one in hot)


def _quarantine(tables: Tables, span: Span) -> list[tuple[str, int]]:
    errors: Counter[str] = Counter()
    for (error,) in tables.lines("quarantine", ["error"], days=span.dates):
        errors[error or "not said"] += 1
    return errors.most_common()


def _cluster(tables: Tables) -> str:
    if tables.cluster_id:
        return tables.cluster_id
    for table in TIMES:
        for (cluster,) in tables.lines(table, ["cluster_id"]):
            if cluster:
                return str(cluster)
    return "a cluster without a name"


def points(tables: Tables, forecasts: list[Forecast]) -> lag.Points:
    """The lag before some forecasts, for their lines."""
    if not forecasts:
        return {}
    times = [one.as_of for one in forecasts]
    wanted = [(one.group, one.topic) for one in forecasts]
    return lag.points(tables, wanted, min(times) - BEFORE_FORECAST, max(times) + timedelta(minutes=1))
