"""Operators' questions by name. Each is answered from one gold table, so that none needs Spark or Java."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from operator import and_, or_
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.pipeline.lake import Lake, LakeError
from ottla.pipeline.parquet_files import committed, dataset
from ottla.pipeline.report.span import as_time
from ottla.pipeline.tables import TABLES

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

DEFAULT_LIMIT = 1000
MOST_ROWS = 1_000_000
_MINUTE = timedelta(minutes=1)


class Query(NamedTuple):
    """A question.

    Attributes:
        text: the question, in a sentence.
        table: the gold table that has the answer.
        columns: what is told of it, after ``cluster_id``.
        parameters: what may be given besides ``limit``, and the column that it is about; all may be left out.
        order: the columns to sort by, ``-`` before those whose largest come first; NULL comes last.
    """

    name: str
    text: str
    table: str
    columns: tuple[str, ...]
    parameters: Mapping[str, str]
    order: tuple[str, ...]


def _query(name: str, text: str, table: str, columns: str, order: str, **parameters: str) -> Query:
    given = {"group": "group_id"} | parameters
    return Query(name, text, table, tuple(columns.split()), MappingProxyType(given), tuple(order.split()))


_ALL = (
    _query(
        "findings",
        "What is wrong?",
        "findings",
        "group_id kind started_at ended_at topic partitions suspect evidence",
        "-started_at group_id kind topic",
        topic="topic",
        since="ended_at",
    ),
    _query(
        "lag",
        "Which groups are behind, in seconds and records?",
        "lag_by_topic",
        "group_id topic lag_seconds lag_records lag_seconds_is_minimum partitions minute",
        "-lag_seconds -lag_records group_id topic",
        topic="topic",
        at="minute",
    ),
    _query(
        "status",
        "Which partitions are stopped, stalled, rewound or slow?",
        "partition_status",
        "group_id topic partition status lag last_commit",
        "-lag group_id topic partition",
        topic="topic",
    ),
    _query(
        "rebalances",
        "Which groups rebalanced when, how often, for how long, and at what cost?",
        "rebalance_runs",
        "group_id started_at ended_at rebalances paused_ms commit_gap_ms worst_lag_seconds partitions_moved members "
        "client main_reason generations_missing",
        "-started_at group_id",
        since="ended_at",
    ),
    _query(
        "storms",
        "Which groups had a storm of rebalances, why, and through whom?",
        "rebalance_storms",
        "group_id kind suspect_client main_reason rebalances paused_ms commit_gap_ms partitions_moved members "
        "distinct_clients started_at ended_at",
        "-rebalances group_id started_at",
        since="ended_at",
    ),
    _query(
        "owner",
        "Who owned a partition at a moment?",
        "partition_owners",
        "group_id topic partition member_id client_id client_host generation since until",
        "group_id topic partition",
        topic="topic",
        partition="partition",
        at="since",
    ),
    _query(
        "breaches",
        "When did groups break their objective, and for how long?",
        "slo_breaches",
        "group_id topic started_at last_minute minutes worst_lag_seconds",
        "-minutes -worst_lag_seconds group_id topic started_at",
        topic="topic",
        since="last_minute",
    ),
    _query(
        "forecast",
        "When will a growing lag reach 500,000 records, and when will a shrinking one be gone?",
        "lag_forecast",
        "group_id topic lag_now lag_per_s r2 minutes_to_500k minutes_to_drain as_of",
        "minutes_to_500k minutes_to_drain group_id topic",
        topic="topic",
    ),
    _query(
        "flapping",
        "Which clients come and go three times a day or more, and on which hosts?",
        "flapping_clients",
        "date group_id client_id sessions shortest_generations median_seconds hosts last_seen",
        "-sessions group_id client_id date",
        since="last_seen",
    ),
    _query(
        "hotspots",
        "Which partitions of __consumer_offsets are written most, and by whom?",
        "commit_rates",
        "date log_partition partition_commits group_id commits per_s last_commit",
        "-partition_commits log_partition date -commits group_id",
        since="last_commit",
    ),
    _query(
        "rewinds",
        "Which groups went back, and how much do they repeat?",
        "rewinds",
        "group_id topic partition log_ts records_repeated committed_offset",
        "-records_repeated group_id topic partition log_ts",
        topic="topic",
        since="log_ts",
    ),
)
QUERIES: Mapping[str, Query] = MappingProxyType({one.name: one for one in _ALL})
"""All questions by name."""


def ask(lake: Lake, name: str, **parameters: Any) -> pa.Table:
    """Ask a question of what gold has written.

    Args:
        name: one of `QUERIES`.
        parameters: those of the question, and ``limit`` (rows at most, 1000 unless given). ``at`` and ``since`` are
            datetimes or ISO 8601, in UTC if they do not say otherwise; ``partition`` and ``limit`` numbers or digits.
            None is as if it were not given.

    Returns:
        The rows, with the columns of the question.

    Raises:
        ValueError: no such question, no such parameter, or a value that cannot be one; the message says what can.
        LakeError: gold has not been built.
        UnreadableTable: see `ottla.pipeline.parquet_files.dataset`.
    """
    if name not in QUERIES:
        raise ValueError(f"no question {name!r}; there are {', '.join(QUERIES)}")
    query = QUERIES[name]
    allowed = (*query.parameters, "limit")
    if unknown := [one for one in parameters if one not in allowed]:
        raise ValueError(f"no parameter {unknown[0]!r} of {name}; there are {', '.join(allowed)}")
    given = {key: _KINDS[key](key, value) for key, value in parameters.items() if value is not None}
    limit = given.pop("limit", DEFAULT_LIMIT)
    columns = ("cluster_id", *query.columns)
    order = [(one.removeprefix("-"), "descending" if one.startswith("-") else "ascending") for one in query.order]
    try:
        rows = _rows(lake, query.table)
        found = rows.to_table(columns=list(columns), filter=_where(query, rows, given, lake))
    except FileNotFoundError:
        raise LakeError(f"The gold tables of {lake.path} are being written: ask again in a moment.") from None
    return found.sort_by([*order, ("cluster_id", "ascending")]).slice(0, limit)


def _rows(lake: Lake, table: str) -> ds.Dataset:
    if not Path(lake.where(table)).is_dir():
        raise LakeError(f"The lake {lake.path} has no table {table} yet: ottla pipeline gold --lake {lake.path}")
    return dataset(lake.where(table), TABLES[table])


def _where(query: Query, rows: ds.Dataset, given: Mapping[str, Any], lake: Lake) -> pc.Expression | None:
    """The filter for the rows of the answer."""
    import pyarrow.compute as pc

    parts: list[pc.Expression] = []
    for key, column in query.parameters.items():
        field, value = pc.field(column), given.get(key)
        if key == "at":
            parts.append(_at(query, rows, value, lake))
        elif value is not None and key == "since":
            parts.append(field.is_null() | (field >= value))  # NULL is what still lasts
        elif value is not None:
            parts.append(field == value)
    if query.name == "status":
        parts.append(pc.field("status") != "OK")
    elif query.name == "forecast":
        slope = pc.field("lag_per_s")
        parts.append((pc.field("r2") > 0.8) & ((slope > 5) | (slope < -5)))
    return reduce(and_, parts) if parts else None


def _at(query: Query, rows: ds.Dataset, at: datetime | None, lake: Lake) -> pc.Expression:
    """The filter for rows that held at a moment, or hold now."""
    import pyarrow.compute as pc

    if query.name == "owner":
        until = pc.field("until")
        return until.is_null() if at is None else (pc.field("since") <= at) & (until.is_null() | (until > at))
    if at is not None:
        minute = at.replace(second=0, microsecond=0)
        return (pc.field("minute") == minute) & (pc.field("date") == minute.astimezone(UTC).date())
    here, now = pc.field("cluster_id"), _now(rows, lake, query.table)
    none = pc.scalar(False)
    return reduce(or_, ((here == one) & (pc.field("minute") == minute) for one, minute in now.items()), none)


def _now(rows: ds.Dataset, lake: Lake, table: str) -> dict[str, datetime]:
    """The newest minute of each cluster in which ends of logs were sampled; the one before it if that was sampled too,
    as the newest is not over yet."""
    import pyarrow.compute as pc

    day, known = pc.field("date"), pc.field("lag_records").is_valid()
    for last in sorted({_day(name) for name in committed(lake.where(table))}, reverse=True):
        where = known & (day <= last) & (day >= last - timedelta(days=1))
        pairs = rows.to_table(columns=["cluster_id", "minute"], filter=where).group_by(["cluster_id", "minute"])
        if seen := {(row["cluster_id"], row["minute"]) for row in pairs.aggregate([]).to_pylist()}:
            newest = dict(sorted(seen))  # of each cluster the last stays
            return {one: at - _MINUTE if (one, at - _MINUTE) in seen else at for one, at in newest.items()}
    return {}


def _day(name: str) -> date:
    return date.fromisoformat(name.rsplit("/", 2)[-2].removeprefix("date="))


def _name(_key: str, value: Any) -> str:
    return str(value)


def _moment(key: str, value: Any) -> datetime | None:
    return as_time(value if isinstance(value, date) else str(value), key)


def _number(key: str, value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{key} {value!r} is no number") from None
    least, most = (1, MOST_ROWS) if key == "limit" else (0, 2**31 - 1)
    if not least <= number <= most:
        raise ValueError(f"{key} {number} must be {least} to {most}")
    return number


_KINDS: Mapping[str, Callable[[str, Any], Any]] = {
    "group": _name,
    "topic": _name,
    "at": _moment,
    "since": _moment,
    "partition": _number,
    "limit": _number,
}
