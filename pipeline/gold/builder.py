"""Build the gold tables of a lake from its silver ones."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.pipeline.gold.objectives import Objectives
from ottla.pipeline.parquet_files import committed, dataset, filesystem, rows_of
from ottla.pipeline.tables import GOLD, SILVER, TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.pipeline.lake import Lake

EVENT_KINDS = ("oversized_barrier", "zombie")
"""Findings that only ``__ottla_group_events`` can show. The broker's sentinels may add others, by their names."""
KINDS = (
    "storm",
    "rolling_restart",
    "stopped",
    "stalled",
    "rewound",
    "slow",
    "hot_partition",
    "unread_deleted",
    "flapping_static_member",
    *EVENT_KINDS,
)
"""All kinds of findings, but for alarms of other sentinels."""
LOOK_BACK = timedelta(days=8)
"""So much before the first date is read of commits, samples and events: one day more than a commit is carried forward,
which is Kafka's ``offsets.retention.minutes``."""
_RUNS = ("consumer_rebalances", "rebalance_runs", "rebalance_storms", "slo_breaches", "findings")
REACH = dict.fromkeys(_RUNS, timedelta(days=7)) | {"rebalances": timedelta(days=1)}
"""A run, a breach or a finding that began so long before the first date is still brought up to date; so are rebalances,
after which the first commit may come on the day after."""

SMALL_ROWS = 200_000
_SMALL = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}
_RULES = ("storms", "stopped", "stalled", "slow", "rewound", "unread", "static", "events")
_WHOLE = ("partition_owners", "member_sessions", "flapping_clients", "partition_status", "lag_forecast")
"""Tables that are replaced as a whole: sessions last long, the others tell how it is now."""
_UNBOUNDED = ("group_generations", "consumer_group_changes")
"""Silver tables of which everything is read: a generation is compared with the one before it, however old that is, and
a consumer group is what all of its records say."""
_EPOCH = date(1970, 1, 1)
_OBJECTIVES = (
    "SELECT inline(transform(from_json(:rows, 'ARRAY<ARRAY<STRING>>'), one -> named_struct("
    "'rank', CAST(one[0] AS INT), 'pattern', one[1], 'seconds', CAST(one[2] AS DOUBLE))))"
)
_ORDER = tuple(table.name for table in GOLD)
"""A table may read those before it."""


class TableResult(NamedTuple):
    """The result for a table.

    Attributes:
        rows: written now; dates that were left as they are do not count.
        seconds: that it took.
    """

    table: str
    rows: int
    seconds: float


def build(
    spark: SparkSession,
    lake: Lake,
    *,
    since: date | None = None,
    objectives: Objectives = Objectives(),  # noqa: B008  (an immutable tuple)
    progress: Callable[[TableResult], None] | None = None,
) -> list[TableResult]:
    """Build all gold tables, or what of them may have changed since a date. The same silver tables give the same rows.

    Args:
        since: the earliest ``log_date`` to which something was added, in UTC; rows of earlier dates stay. What is
            carried over from before is read too. Tables of runs (storms, breaches, findings) are brought up to date
            from seven days earlier on, those of sessions and of the present state as a whole. None builds everything.
        objectives: what ``slo_breaches`` holds groups to.
        progress: told each table once it is written.

    Raises:
        ValueError: an objective is none.
    """
    work = _session(spark)
    first = since or _EPOCH
    _silver(work, lake, since)
    work.sql(_OBJECTIVES, args={"rows": json.dumps(objectives.rows())}).createOrReplaceTempView("objectives")
    _suit(work, work.table("offset_commits").count())
    results, cached = [], []
    for name in _ORDER:
        began = time.monotonic()
        if name == "rebalance_runs":
            _sql(work, "_clients").createOrReplaceTempView("clients")
        if name == "findings":
            cached = _prepare_findings(work)
        bound = first - REACH.get(name, timedelta(0)) if since else first
        whole = since is None or name in _WHOLE
        rows = _write(work, lake, name, bound, since, whole=whole)
        gold = lake.read(work, name)
        if since and name not in _WHOLE and name != "group_members":
            gold = gold.where(gold["date"] >= first - LOOK_BACK)
        gold.createOrReplaceTempView(name)
        if name == "lag_by_partition":
            _suit(work, rows)  # the large one; what follows is made of it
        results.append(TableResult(name, rows, time.monotonic() - began))
        if progress:
            progress(results[-1])
    for one in cached:
        one.unpersist()
    return results


def unknowable(lake: Lake) -> list[str]:
    """The kinds of findings that nothing can be said of, as the lake has no events of groups; needs no Spark.

    Raises:
        UnreadableTable: see `ottla.pipeline.parquet_files.dataset`.
    """
    for folder in (lake.where("group_events"), lake.backfilled("group_events")):
        if dataset(folder, TABLES["group_events"]).head(1, columns=["ts"]).num_rows:
            return []
    return list(EVENT_KINDS)


def _session(spark: SparkSession) -> SparkSession:
    """One with temporary views and settings of its own: nobody else's tables are hidden by ours."""
    work = spark.newSession()
    work.conf.set("spark.sql.session.timeZone", "UTC")
    work.conf.set("spark.sql.shuffle.partitions", spark.conf.get("spark.sql.shuffle.partitions", "4") or "4")
    work.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    return work


def _suit(work: SparkSession, rows: int) -> None:
    """Below some 200,000 rows compiling stages and planning anew between them costs more than it saves."""
    if rows < SMALL_ROWS:
        for name, value in _SMALL.items():
            work.conf.set(name, value)


def _silver(work: SparkSession, lake: Lake, since: date | None) -> None:
    for table in SILVER:
        if table.name == "quarantine":
            continue
        rows = lake.read(work, table.name)
        if since and table.name not in _UNBOUNDED:
            rows = rows.where(rows["log_date"] >= since - LOOK_BACK)
        rows.createOrReplaceTempView(table.name)


@cache
def _text(name: str) -> str:
    return files("ottla.pipeline.gold").joinpath(f"{name}.sql").read_text(encoding="utf-8")


def _sql(work: SparkSession, name: str, bound: date = _EPOCH, since: date | None = None) -> DataFrame:
    return work.sql(_text(name), args=_args(_text(name), bound, since))


def _args(text: str, bound: date, since: date | None) -> dict[str, Any]:
    args: dict[str, Any] = {}
    if ":since" in text:
        args["since"] = bound
    if ":from_ts" in text:
        # A few minutes more than are written: a minute is compared with the one before it.
        start = datetime.combine(bound, datetime.min.time(), UTC) - (timedelta(minutes=10) if since else timedelta(0))
        args["from_ts"] = start
    return args


def _prepare_findings(work: SparkSession) -> list[DataFrame]:
    """The views that findings are made of; those that are used again and again are kept until the end."""
    moves = _sql(work, "_moves").persist()
    moves.createOrReplaceTempView("moves")
    for rule in _RULES:
        _sql(work, f"_finding_{rule}").createOrReplaceTempView(f"finding_{rule}")
    return [moves]


def _write(work: SparkSession, lake: Lake, name: str, bound: date, since: date | None, *, whole: bool) -> int:
    """Replace a table from a date on, or as a whole; rows of a file are in the order of their key. Gives the rows.

    All of it is one statement: each step that a DataFrame is led through would have Spark analyze the plan once more,
    which took longer than the rows of a small lake. What was written is told by the files' footers for the same reason.
    """
    table, where = TABLES[name], lake.where(name)
    columns = ", ".join(f"CAST(`{one.name}` AS {one.kind}) AS `{one.name}`" for one in table.all_columns)
    spread = "`date`, group_id" if name in ("lag_by_partition", "group_members") else "`date`"
    keys = ", ".join(f"`{one}`" for one in ("date", "cluster_id", *table.key))
    text = f"SELECT {columns} FROM (\n{_text(name)}\n) DISTRIBUTE BY {spread} SORT BY {keys}"
    before = set(committed(where))
    mode = "static" if whole else "dynamic"
    writer = work.sql(text, args=_args(text, bound, since)).write.mode("overwrite")
    writer.option("partitionOverwriteMode", mode).partitionBy("date").parquet(where)
    written = [one for one in committed(where) if one not in before]
    if not whole:
        _drop_dates(work, where, bound, {one.rsplit("/", 2)[-2].removeprefix("date=") for one in written})
    return rows_of(written, filesystem(where)[0])


def _drop_dates(work: SparkSession, where: str, bound: date, kept: set[str]) -> None:
    """Remove the dates from ``bound`` on for which there are no rows any more: overwriting does not know of them."""
    jvm = work.sparkContext._jvm
    folder = jvm.org.apache.hadoop.fs.Path(where)  # type: ignore[union-attr]
    system = folder.getFileSystem(work.sparkContext._jsc.hadoopConfiguration())
    for status in system.globStatus(jvm.org.apache.hadoop.fs.Path(folder, "date=*")) or ():  # type: ignore[union-attr]
        day = status.getPath().getName().removeprefix("date=")
        if day >= bound.isoformat() and day not in kept:
            system.delete(status.getPath(), True)
