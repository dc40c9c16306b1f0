"""Silver tables of all that is there now, in one batch a table; doing it again doubles nothing and loses nothing.

Rows are written beside the table and then put into it day by day: a day that is new is moved there, one that is there
becomes the union of both, by key. So a day keeps what the log has lost since, to compaction or retention. Where it ends
is noted, and the first stream of the lake begins there; where a stream began before, it ends.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ottla.pipeline.cluster import Cluster
from ottla.pipeline.lake import Lake
from ottla.pipeline.parquet_files import rows_of
from ottla.pipeline.running import tasks_told
from ottla.pipeline.silver import Feed, Work, feeds, offsets_json, rows, samples_first, source_options
from ottla.pipeline.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Filled(NamedTuple):
    """The result of a backfill for a table: the number of rows read, and their days."""

    rows: int
    days: list[date]


class Places:
    """The folders of a table's days while they change."""

    def __init__(self, lake: Lake, table: str) -> None:
        self.target = Path(lake.backfilled(table))
        self.staged, self.merged, self.replaced = (
            Path(lake.path) / "staging" / table / what for what in ("read", "merged", "replaced")
        )

    def mend(self) -> None:
        """After a crash: a day that was taken away and not put back is put back."""
        for old in self.replaced.glob("*=*") if self.replaced.is_dir() else ():
            if not (self.target / old.name).exists():
                self.target.mkdir(parents=True, exist_ok=True)
                os.rename(old, self.target / old.name)
        self.clear()

    def clear(self) -> None:
        for place in (self.staged, self.merged, self.replaced):
            shutil.rmtree(place, ignore_errors=True)


def run(
    work: Work,
    *,
    since: date | None = None,
    again: Callable[[], Cluster] | None = None,
    tell: Callable[[str, int, int], None] = lambda table, done, of: None,
    done: Callable[[str, int], None] = lambda table, rows: None,
) -> dict[str, Filled]:
    """Read all that is there now into the lake.

    Args:
        since: only days from this one on.
        again: looks at the cluster once more, when its ends were sampled, so that what is read reaches behind them.
        tell: told the table, how many of its tasks are done, and how many there are.
        done: told the table, when it is done, and its rows.
    """
    lake = work.lake
    found: dict[str, Filled] = {}
    for feed in samples_first(feeds(work.config)):
        if feed.topic and again is not None:
            work, again = work._replace(cluster=again()), None
        places = Places(lake, feed.table)
        places.mend()
        noted = lake.noted("backfills").get(feed.table, {})
        ends = _ends(lake, work.cluster, feed)
        lake.note("backfills", **{feed.table: noted | {"unfinished": True}})
        found[feed.table] = _fill(work, feed, ends, since, places, tell)
        done(feed.table, found[feed.table].rows)
        # What an earlier one has read stays read, whatever is not there this time: other files, a topic less.
        to = {int(number): end for number, end in (noted.get("to") or {}).items()}
        to |= {number: max(end, to.get(number, 0)) for number, end in (ends or {}).items()}
        at = datetime.now(UTC).isoformat(timespec="seconds")
        lake.note("backfills", **{feed.table: {"to": to or None, "at": at}})
    return {feed.table: found[feed.table] for feed in feeds(work.config)}


def _ends(lake: Lake, cluster: Cluster, feed: Feed) -> dict[int, int] | None:
    """The offsets to stop before: the present ends, or where the lake's stream began. None without a log."""
    logs = cluster.topics.get(feed.topic) if feed.topic else None
    if logs is None:
        return None
    stream = lake.noted("streams").get(feed.table)
    if stream is None:
        return logs.ends
    # A partition that came after the stream began is the stream's from its beginning.
    return {number: min(end, stream["from"].get(str(number), 0)) for number, end in logs.ends.items()}


def _fill(
    work: Work,
    feed: Feed,
    ends: dict[int, int] | None,
    since: date | None,
    places: Places,
    tell: Callable[[str, int, int], None],
) -> Filled:
    options = source_options(work.config, feed)
    if ends is not None:
        options["endingOffsets"] = offsets_json(feed.topic, ends)
    read = rows(work.spark.read.format("ottla").options(**options).load(), feed, work.cluster_id)
    read = _within(read, work.lake, feed, since)
    column = TABLES[feed.table].partition_column
    with tasks_told(work.spark, lambda done, of: tell(feed.table, done, of)):
        read.write.mode("overwrite").partitionBy(column).parquet(str(places.staged))
        days = sorted(places.staged.glob(f"{column}=*"))
        count = rows_of(places.staged.glob(f"{column}=*/*.parquet"))
        for day in days:
            _put(work.spark, feed, places, day)
    places.clear()
    return Filled(count, [date.fromisoformat(day.name.partition("=")[2]) for day in days])


def _within(read: DataFrame, lake: Lake, feed: Feed, since: date | None) -> DataFrame:
    from pyspark.sql import functions as f

    if since is not None:
        read = read.where(f.col(TABLES[feed.table].partition_column) >= f.lit(since))
    began = lake.noted("streams").get(feed.table)
    if began is not None and not feed.topic:
        # Samples have no offsets: those of the stream begin when it began.
        read = read.where(f.col(feed.time) < f.lit(datetime.fromisoformat(began["at"])))
    return read


def _put(spark: SparkSession, feed: Feed, places: Places, staged: Path) -> None:
    """Bring a day into the table."""
    target = places.target / staged.name
    places.target.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        os.rename(staged, target)
        return
    table = TABLES[feed.table]
    # The day is the folder's name, and in no file.
    schema = ", ".join(f"`{one.name}` {one.kind}" for one in table.all_columns[:-1])
    key = ["cluster_id", *table.key] + [feed.time] * (feed.time not in table.key)
    both = spark.read.schema(schema).parquet(str(target), str(staged)).dropDuplicates(key)
    merged = places.merged / staged.name
    both.write.mode("overwrite").parquet(str(merged))
    (merged / "_SUCCESS").unlink(missing_ok=True)
    places.replaced.mkdir(parents=True, exist_ok=True)
    os.rename(target, places.replaced / staged.name)
    os.rename(merged, target)
