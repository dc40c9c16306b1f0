"""Run the alerts: a streaming query for each rule, each with a checkpoint of its own, into one sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from ottla.pipeline.alerts import streams
from ottla.pipeline.alerts.alert import Alert
from ottla.pipeline.alerts.sinks import Sink
from ottla.pipeline.alerts.stopped import StoppedLimits
from ottla.pipeline.alerts.storms import StormLimits
from ottla.pipeline.running import stream_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# transformWithState keeps its state in RocksDB and in nothing else.
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class AlertSettings(NamedTuple):
    """The rules to run, and how to run them.

    Attributes:
        options: of the source: ``kafka.bootstrap.servers`` or ``path``, and others.
        checkpoint: the folder in which queries keep how far they are; there is one below it for each rule.
        storm: None leaves the rule out; so does ``stopped``.
        starting: where the first start begins, ``latest`` or ``earliest``; later ones go on.
        interval_ms: between two looks; None ends the queries when all is read that is there now.
    """

    options: Mapping[str, str]
    checkpoint: str
    storm: StormLimits | None = StormLimits()
    stopped: StoppedLimits | None = StoppedLimits()
    starting: Literal["latest", "earliest"] = "latest"
    interval_ms: int | None = 5000


def start(
    spark: SparkSession,
    settings: AlertSettings,
    sink: Sink,
    *,
    events: bool,
    told: Callable[[list[Alert]], None] | None = None,
) -> dict[str, StreamingQuery]:
    """Start a query for each rule; gives them by name. `ottla.pipeline.running.watch` waits for them.

    Args:
        events: the topic ``__ottla_group_events`` is there.
        told: called with what was written, on the queries' threads.
    """
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", _STATE_STORE)
    options = {**settings.options, "startingOffsets": settings.starting}
    queries = {}
    if settings.storm is not None:
        groups = streams.source(spark, "groups", options)
        told_of = streams.source(spark, "events", options) if events else None
        queries["storm"] = _query(streams.storms(groups, told_of, settings.storm), "storm", settings, sink, told)
    if settings.stopped is not None:
        commits = streams.source(spark, "commits", options)
        ends = streams.source(spark, "ends", settings.options)
        queries["stopped"] = _query(streams.stopped(commits, ends, settings.stopped), "stopped", settings, sink, told)
    return queries


def _query(
    alerts: DataFrame,
    name: str,
    settings: AlertSettings,
    sink: Sink,
    told: Callable[[list[Alert]], None] | None,
) -> StreamingQuery:
    def write(batch: DataFrame, batch_id: int) -> None:
        found = [msgspec.json.decode(row.alert, type=Alert) for row in batch.collect()]
        found.sort(key=lambda alert: alert.ts_ms)
        sink.write(found)
        if told is not None and found:
            told(found)

    writer = stream_writer(alerts, f"ottla alerts: {name}", f"{settings.checkpoint}/{name}", settings.interval_ms)
    return writer.foreachBatch(write).start()
