"""What operators ask, as named queries over the lake."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.pipeline.lake import Lake

DEFAULT_LIMIT = 1000
MOST_ROWS = 1_000_000


class Query(NamedTuple):
    """A question.

    Attributes:
        text: the question, in a sentence.
        tables: what it reads.
        parameters: what may be given besides ``limit``; all of them may be left out.
    """

    name: str
    text: str
    tables: tuple[str, ...]
    parameters: tuple[str, ...]

    @property
    def sql(self) -> str:
        """The statement, with named parameter markers."""
        return _text(self.name)


@cache
def _text(name: str) -> str:
    return files("ottla.pipeline.queries").joinpath(f"{name}.sql").read_text(encoding="utf-8")


_ALL = (
    Query("findings", "What is wrong?", ("findings",), ("group", "topic", "since")),
    Query("lag", "Which groups are behind, in seconds and records?", ("lag_by_partition",), ("group", "topic", "at")),
    Query(
        "status", "Which partitions are stopped, stalled, rewound or slow?", ("partition_status",), ("group", "topic")
    ),
    Query(
        "storms",
        "Which groups had a storm of rebalances, why, and through whom?",
        ("rebalance_storms",),
        ("group", "since"),
    ),
    Query(
        "cost",
        "What did rebalances cost: moves, pause, and the worst lag within three minutes after?",
        ("rebalances", "lag_by_partition"),
        ("group", "since"),
    ),
    Query("owner", "Who owned a partition at a moment?", ("group_members",), ("group", "topic", "partition", "at")),
    Query(
        "breaches",
        "When did groups break their objective, and for how long?",
        ("slo_breaches",),
        ("group", "topic", "since"),
    ),
    Query(
        "forecast",
        "When will a growing lag reach 500,000 records, and when will a shrinking one be gone?",
        ("lag_forecast",),
        ("group", "topic"),
    ),
    Query("flapping", "Which clients come and go, and on which hosts?", ("member_sessions",), ("group", "since")),
    Query(
        "hotspots",
        "Which partitions of __consumer_offsets are written most, and by whom?",
        ("offset_commits",),
        ("group", "since"),
    ),
    Query(
        "rewinds",
        "Which groups went back, and how much do they repeat?",
        ("offset_commits",),
        ("group", "topic", "since"),
    ),
)
QUERIES: Mapping[str, Query] = MappingProxyType({one.name: one for one in _ALL})
"""All questions by name."""


def run(spark: SparkSession, lake: Lake, name: str, **parameters: Any) -> DataFrame:
    """Ask a question.

    Args:
        name: one of `QUERIES`.
        parameters: those of the question, and ``limit`` (rows at most, 1000 unless given). ``at`` and ``since`` are
            datetimes or ISO 8601, in UTC if they do not say otherwise; ``partition`` and ``limit`` numbers or digits.
            None is as if it were not given. Values are bound, never put into the statement.

    Raises:
        ValueError: no such question, no such parameter, or a value that cannot be one; the message says what can.
    """
    if name not in QUERIES:
        raise ValueError(f"no question {name!r}; there are {', '.join(QUERIES)}")
    query = QUERIES[name]
    allowed = (*query.parameters, "limit")
    if unknown := [one for one in parameters if one not in allowed]:
        raise ValueError(f"no parameter {unknown[0]!r} of {name}; there are {', '.join(allowed)}")
    given = {key: None if parameters.get(key) is None else _KINDS[key](key, parameters[key]) for key in allowed}
    given["limit"] = DEFAULT_LIMIT if given["limit"] is None else given["limit"]
    work = spark.newSession()  # its temporary views hide nobody's
    work.conf.set("spark.sql.session.timeZone", "UTC")
    for table in query.tables:
        lake.read(work, table).createOrReplaceTempView(table)
    return work.sql(query.sql, args=given)


def _name(_key: str, value: Any) -> str:
    return str(value)


def _moment(key: str, value: Any) -> datetime:
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        raise ValueError(f"{key} {value!r} is no time: write it as 2026-03-02T08:15 or 2026-03-02") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


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
