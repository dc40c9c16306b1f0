"""The rows that the rules want, from the source ``ottla``, and the streams of alerts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ottla.pipeline.alerts.processors import OUTPUT, StoppedProcessor, StormProcessor
from ottla.pipeline.alerts.stopped import COMMITS_KEPT, StoppedLimits
from ottla.pipeline.alerts.storms import StormLimits
from ottla.pipeline.tables import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TURNS = (
    "group_id STRING, ts_ms BIGINT, generation INT, deleted BOOLEAN, "
    "members ARRAY<STRUCT<member_id STRING, client_id STRING, client_host STRING>>, "
    "client_id STRING, client_host STRING, cause STRING, duration_ms BIGINT"
)
"""A generation: of a record of ``decode=groups``, or of an event ``rebalance_completed`` of ``decode=events``."""

PROGRESS = (
    "topic STRING, ts_ms BIGINT, group_id STRING, instants_ms ARRAY<BIGINT>, "
    "offsets ARRAY<STRUCT<partition INT, offset BIGINT>>, partition INT, log_end_offset BIGINT"
)
"""Commits of a group in a topic, some seconds together, or (``group_id`` is NULL) where a partition's log ends."""

BUCKET_MS = 5000
"""Commits of a group and a topic in so long become one row before they are shuffled."""


def source(spark: SparkSession, decode: str, options: Mapping[str, str]) -> DataFrame:
    """A stream of the source ``ottla``."""
    return spark.readStream.format("ottla").options(**options).option("decode", decode).load()


def storms(groups: DataFrame, events: DataFrame | None, limits: StormLimits) -> DataFrame:
    """Alerts about storms.

    Args:
        groups: rows of ``decode=groups``.
        events: rows of ``decode=events``, or None where the topic is missing: then causes and durations stay unknown.
    """
    rows = turns(groups)
    if events is not None:
        rows = rows.unionByName(turns_of_events(events))
    grouped = rows.groupBy("group_id")
    return grouped.transformWithState(StormProcessor(limits), OUTPUT, "Append", "ProcessingTime")


def stopped(commits: DataFrame, ends: DataFrame, limits: StoppedLimits) -> DataFrame:
    """Alerts about stopped groups, from rows of ``decode=commits`` and ``decode=ends``."""
    grouped = progress(commits).unionByName(samples(ends)).groupBy("topic")
    return grouped.transformWithState(StoppedProcessor(limits), OUTPUT, "Append", "ProcessingTime")


def turns(groups: DataFrame) -> DataFrame:
    """Rows of `TURNS` from group records."""
    return groups.selectExpr(
        "group_id",
        "unix_millis(log_ts) AS ts_ms",
        "generation",
        "is_tombstone AS deleted",
        "transform(members, m -> named_struct('member_id', m.member_id, 'client_id', m.client_id, "
        "'client_host', m.client_host)) AS members",
        "CAST(NULL AS STRING) AS client_id",
        "CAST(NULL AS STRING) AS client_host",
        "CAST(NULL AS STRING) AS cause",
        "CAST(NULL AS BIGINT) AS duration_ms",
    )


def turns_of_events(events: DataFrame) -> DataFrame:
    """Rows of `TURNS` from events."""
    done = events.where("event = 'rebalance_completed' AND generation >= 0")
    return done.selectExpr(
        "group_id",
        "unix_millis(ts) AS ts_ms",
        "generation",
        "FALSE AS deleted",
        "CAST(NULL AS ARRAY<STRUCT<member_id STRING, client_id STRING, client_host STRING>>) AS members",
        "client_id",
        "client_host",
        "reason AS cause",
        "duration_ms",
    )


def progress(commits: DataFrame) -> DataFrame:
    """Rows of `PROGRESS` from commits. Every batch of Arrow is reduced where it was read, so that what is shuffled and
    kept grows with groups, not with commits.
    """
    narrow = commits.selectExpr(
        "group_id", "topic", "partition", "unix_millis(log_ts) AS ms", "coalesce(committed_offset, -1) AS at"
    )
    return narrow.mapInArrow(_reduced, PROGRESS)


def samples(ends: DataFrame) -> DataFrame:
    """Rows of `PROGRESS` from samples of log ends."""
    return ends.selectExpr(
        "topic",
        "unix_millis(sample_ts) AS ts_ms",
        "CAST(NULL AS STRING) AS group_id",
        "CAST(NULL AS ARRAY<BIGINT>) AS instants_ms",
        "CAST(NULL AS ARRAY<STRUCT<partition INT, offset BIGINT>>) AS offsets",
        "partition",
        "log_end_offset",
    )


def _reduced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            yield reduce_commits(batch)


def reduce_commits(batch: pa.RecordBatch) -> pa.RecordBatch:
    """One row for the commits of a group in a topic within `BUCKET_MS`.

    Args:
        batch: ``group_id, topic, partition, ms, at`` in the order of the log; ``at`` is -1 for a deleted offset.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    bucket = pc.multiply(pc.divide(batch["ms"], pa.scalar(BUCKET_MS)), pa.scalar(BUCKET_MS))
    instant = pc.if_else(pc.less(batch["at"], 0), pa.scalar(None, pa.int64()), batch["ms"])
    table = pa.table({name: batch[name] for name in ("group_id", "topic", "partition", "ms", "at")})
    table = table.append_column("bucket", bucket).append_column("instant", instant)
    where = ["group_id", "topic", "bucket"]
    last = table.group_by([*where, "partition"], use_threads=False).aggregate([("at", "last"), ("ms", "max")])
    moments = table.group_by(where, use_threads=False).aggregate(
        [("instant", "distinct", pc.CountOptions(mode="only_valid"))]
    )
    rows: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in moments.to_pylist():
        at = sorted(one for one in row["instant_distinct"] if one is not None)[-COMMITS_KEPT:]
        rows[row["group_id"], row["topic"], row["bucket"]] = {
            "topic": row["topic"], "ts_ms": 0, "group_id": row["group_id"], "instants_ms": at, "offsets": []
        }  # fmt: skip
    for row in last.to_pylist():
        made = rows[row["group_id"], row["topic"], row["bucket"]]
        made["ts_ms"] = max(made["ts_ms"], row["ms_max"])
        offset = None if row["at_last"] < 0 else row["at_last"]
        made["offsets"].append({"partition": row["partition"], "offset": offset})
    return pa.RecordBatch.from_pylist(list(rows.values()), pa.schema(list(arrow_type(f"STRUCT<{PROGRESS}>"))))
