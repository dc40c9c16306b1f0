"""Silver tables from the source: which reads what, from where on, and a streaming query for each."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.clients.structs import EARLIEST
from ottla.pipeline.cluster import Cluster
from ottla.pipeline.lake import Lake, LakeError
from ottla.pipeline.parquet_files import METADATA
from ottla.pipeline.running import stream_writer
from ottla.pipeline.tables import TABLES
from ottla.protocol.internal_topics import GROUP_EVENTS_TOPIC, OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.pipeline.config import Config


_STARTS = 5
_POLL_S = 0.1
_TOO_SLOW = "failed to connect back"


@dataclass(frozen=True)
class Feed:
    """The way to read a silver or bronze table.

    Attributes:
        table: its name.
        decode: what the source is to make of the records.
        topic: the log behind it; "" for the ends of all logs, which are looked at and not read.
        time: the column whose day is the row's.
    """

    table: str
    decode: str
    topic: str
    time: str


FEEDS = (
    Feed("offset_commits", "commits", OFFSETS_TOPIC, "log_ts"),
    Feed("group_generations", "groups", OFFSETS_TOPIC, "log_ts"),
    Feed("consumer_group_changes", "consumer_groups", OFFSETS_TOPIC, "log_ts"),
    Feed("group_events", "events", GROUP_EVENTS_TOPIC, "ts"),
    Feed("log_end_samples", "ends", "", "sample_ts"),
    Feed("quarantine", "quarantine", OFFSETS_TOPIC, "log_ts"),
    Feed("offsets_log", "log", OFFSETS_TOPIC, "log_ts"),
)


def feeds(config: Config) -> list[Feed]:
    """All; bronze only where it is wanted. A topic that is not there is read as soon as it comes."""
    return [one for one in FEEDS if one.table != "offsets_log" or config.keep_raw]


def samples_first(of: Iterable[Feed]) -> list[Feed]:
    """The order in which to read: ends of logs, and then what groups commit.

    Commits that stop before a sample was taken look like groups that stopped, and as far behind as the two lie apart.
    """
    return sorted(of, key=lambda one: bool(one.topic))


def source_options(config: Config, feed: Feed) -> dict[str, str]:
    """The options of the source ``ottla`` for a feed, but where it begins and ends."""
    if feed.topic:
        return config.source_options(decode=feed.decode, isolation=config.isolation)
    return config.source_options(decode=feed.decode, sampleIntervalMs=str(config.sample_interval_ms))


def rows(read: DataFrame, feed: Feed, cluster_id: str) -> DataFrame:
    """Rows of the source as rows of the table: with the cluster before them and the day behind."""
    from pyspark.sql import functions as f

    table = TABLES[feed.table]
    names = [one.name for one in table.columns]
    day = f.to_date(f.col(feed.time)).alias(table.partition_column)
    return read.select(f.lit(cluster_id).alias("cluster_id"), *names, day)


class Work(NamedTuple):
    """The means of a backfill or of streams; ``cluster_id`` is that of the lake."""

    spark: SparkSession
    lake: Lake
    config: Config
    cluster: Cluster
    cluster_id: str


# -- where a stream begins


def begin(lake: Lake, config: Config, cluster: Cluster, feed: Feed) -> dict[int, int] | None:
    """The offsets at which the stream of a feed began or is to begin; None for one that reads no log.

    It follows the backfill before it without a gap. The first time, it is noted in the lake before a row is written:
    backfills end there ever after.

    Raises:
        LakeError: a backfill did not come to its end, or the checkpoint is lost.
    """
    backfill = lake.noted("backfills").get(feed.table, {})
    if backfill.get("unfinished"):
        raise LakeError(
            f"A backfill of {lake.path} did not come to its end: run `ottla pipeline backfill` again first; "
            "it goes on where it was."
        )
    noted = lake.noted("streams").get(feed.table)
    checkpoint = Path(lake.checkpoint(feed.table))
    if noted is not None:
        if not checkpoint.exists() and _written(lake, feed.table):
            raise LakeError(
                f"The checkpoint {checkpoint} is gone, but {lake.where(feed.table)} has rows: without it they would be "
                "written twice. Restore it, or begin with a new --lake."
            )
        return _numbers(noted["from"])
    logs = cluster.topics.get(feed.topic) if feed.topic else None
    found: dict[int, int] | None = None
    if feed.topic:
        after = _numbers(backfill.get("to")) or {}
        begins = logs.begins if logs else {}
        ends = logs.ends if logs else {}
        fresh = ends if config.starting_offsets == "latest" and not after else begins
        found = {number: max(after.get(number, EARLIEST), first) for number, first in fresh.items()} or after
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    lake.note("streams", **{feed.table: {"from": found, "at": at}})
    return found


def _written(lake: Lake, table: str) -> bool:
    folder = Path(lake.where(table))
    return any((folder / name).is_dir() for name in (METADATA, "_delta_log", "metadata"))


def _numbers(noted: dict[str, int] | None) -> dict[int, int] | None:
    """JSON has no numbers for keys."""
    return None if noted is None else {int(number): offset for number, offset in noted.items()}


def offsets_json(topic: str, offsets: dict[int, int]) -> str:
    """As Kafka's connector for Spark has it: ``{"topic":{"0":23}}``."""
    return json.dumps({topic: {str(number): offset for number, offset in sorted(offsets.items())}})


def span(lake: Lake, cluster: Cluster, config: Config) -> tuple[dict[str, int], dict[str, int]]:
    """The offsets at which each table's log is read from and ends now, as sums over partitions: for bars.

    Raises:
        LakeError: see `begin`.
    """
    begins, ends = {}, {}
    for feed in feeds(config):
        logs = cluster.topics.get(feed.topic) if feed.topic else None
        if logs is not None:
            first = begin(lake, config, cluster, feed) or {}
            begins[feed.table] = sum(first.values())
            ends[feed.table] = sum(logs.ends.values())
    return begins, ends


# -- streams


def start(work: Work, *, available_now: bool) -> dict[str, StreamingQuery]:
    """Start a streaming query for each table, and give them by its name.

    Args:
        available_now: end when all that is there now is read; else go on until stopped. Both share the checkpoints.

    Raises:
        LakeError: see `begin`.
    """
    begun = {feed: begin(work.lake, work.config, work.cluster, feed) for feed in feeds(work.config)}
    started = {feed.table: _query(work, feed, begun[feed], available_now) for feed in samples_first(begun)}
    return {feed.table: started[feed.table] for feed in begun}


def _query(work: Work, feed: Feed, begins: dict[int, int] | None, available_now: bool) -> StreamingQuery:
    from ottla.pipeline import sinks

    config, checkpoint = work.config, work.lake.checkpoint(feed.table)
    options = source_options(config, feed)
    if feed.topic:
        options["maxOffsetsPerTrigger"] = str(config.max_offsets_per_trigger)
        options["startingOffsets"] = offsets_json(feed.topic, begins) if begins else config.starting_offsets
    read = work.spark.readStream.format("ottla").options(**options).load()
    interval_ms = None if available_now else config.trigger_ms
    writer = stream_writer(rows(read, feed, work.cluster_id), f"ottla-{feed.table}", checkpoint, interval_ms)
    return _started(sinks.attach(writer, config.format, work.lake, feed.table))


def _started(writer: Any) -> StreamingQuery:
    """A query whose planning process runs.

    Spark gives that process ten seconds to start, whatever the machine has to do besides: queries start one after the
    other, and one that was too slow is started again.
    """
    starts = 0
    while True:
        query: StreamingQuery = writer.start()
        starts += 1
        while query.isActive and query.status["message"].startswith("Initializing"):
            time.sleep(_POLL_S)  # awaitTermination would raise what comes next
        error = None if query.isActive else query.exception()
        if error is None or _TOO_SLOW not in str(error) or starts == _STARTS:
            return query
