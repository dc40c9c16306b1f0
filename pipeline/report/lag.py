"""Lag of every group over time, out of ``gold.lag_by_partition``."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from ottla.pipeline.report.reading import Tables, within
from ottla.pipeline.report.scene import Cell
from ottla.pipeline.report.span import Span

Points = dict[tuple[str, str], list[tuple[datetime, int]]]


def cells(tables: Tables, span: Span) -> dict[str, list[Cell | None]]:
    """The worst lag of each group in each bucket."""
    lines: dict[str, list[Cell | None]] = {}
    for group, bucket, seconds, minimum in _by_bucket(tables, span):
        line = lines.setdefault(group, [None] * span.buckets)
        line[bucket] = Cell(seconds, bool(minimum))
    for line in lines.values():
        _mark_gaps(line)
    return lines


def _by_bucket(tables: Tables, span: Span) -> Iterable[tuple[str, int, float | None, bool | None]]:
    """Group, bucket, seconds, whether that is a minimum."""
    import pyarrow as pa
    import pyarrow.compute as pc

    seconds = pc.divide(pc.field("minute").cast(pa.int64()), 1_000_000)
    columns = {
        "group": pc.field("group_id"),
        "bucket": pc.divide(pc.subtract(seconds, int(span.start.timestamp())), int(span.bucket.total_seconds())),
        "seconds": pc.field("lag_seconds"),
        "minimum": pc.field("lag_seconds_is_minimum"),
    }
    figures = [("seconds", "hash_max"), ("minimum", "hash_any")]
    where = within("minute", span.start, span.end)
    read = ["minute", "lag_seconds", "lag_seconds_is_minimum"]
    return tables.aggregate(
        "lag_by_partition", read, columns, ["group", "bucket"], figures, days=span.dates, where=where
    )


def _mark_gaps(line: list[Cell | None]) -> None:
    """Between a group's first and last row, minutes without one were not sampled."""
    known = [index for index, cell in enumerate(line) if cell is not None]
    for index in range(known[0], known[-1]):
        if line[index] is None:
            line[index] = Cell(None)


def now(tables: Tables, span: Span) -> dict[str, tuple[Cell, int]]:
    """The lag of each group at the end: seconds of its worst partition, and records of all of them.

    The newest minute may be half seen, so each partition counts with its newest row of the last two.
    """
    newest: dict[tuple[str, str, int], tuple[datetime, float | None, bool, int]] = {}
    columns = ["group_id", "topic", "partition", "minute", "lag_seconds", "lag_seconds_is_minimum", "lag_records"]
    where = within("minute", span.end - timedelta(minutes=2), span.end)
    rows = tables.lines("lag_by_partition", columns, days=span.dates, where=where)
    for group, topic, partition, minute, seconds, minimum, records in rows:
        seen = newest.get((group, topic, partition))
        if seen is None or seen[0] < minute:
            newest[group, topic, partition] = (minute, seconds, bool(minimum), records or 0)
    found: dict[str, tuple[Cell, int]] = {}
    for (group, _, _), (_, seconds, minimum, records) in newest.items():
        cell, total = found.get(group, (Cell(None), 0))
        found[group] = (_worse(cell, Cell(seconds, minimum)), total + records)
    return found


def _worse(one: Cell, other: Cell) -> Cell:
    seconds = max((cell.seconds for cell in (one, other) if cell.seconds is not None), default=None)
    return Cell(seconds, one.minimum or other.minimum)


def points(tables: Tables, wanted: Iterable[tuple[str, str]], since: datetime, until: datetime) -> Points:
    """Records behind by minute of some groups' topics."""
    import pyarrow.compute as pc

    keys = set(wanted)
    if not keys:
        return {}
    sums: dict[tuple[str, str], dict[datetime, int]] = {key: {} for key in keys}
    columns = ["group_id", "topic", "minute", "lag_records"]
    where = within("minute", since, until) & pc.field("group_id").isin(sorted({group for group, _ in keys}))
    rows = tables.lines("lag_by_partition", columns, days=(since.date(), until.date()), where=where)
    for group, topic, minute, records in rows:
        if (line := sums.get((group, topic))) is not None:
            line[minute] = line.get(minute, 0) + (records or 0)
    return {key: sorted(line.items()) for key, line in sums.items()}
