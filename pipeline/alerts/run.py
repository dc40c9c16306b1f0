"""Run the alerts: a streaming query for each rule, each with a checkpoint of its own, into one sink."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from ottla.pipeline.alerts import streams
from ottla.pipeline.alerts.alert import Alert
from ottla.pipeline.alerts.sinks import Sink
from ottla.pipeline.alerts.stopped import StoppedLimits
from ottla.pipeline.alerts.storms import StormLimits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

EVENTS_TOPIC = "__ottla_group_events"

# transformWithState keeps its state in RocksDB and in nothing else.
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class AlertSettings(NamedTuple):
    """What runs, and how.

    Attributes:
        options: of the source: ``kafka.bootstrap.servers`` or ``path``, and others.
        checkpoint: the folder in which queries keep how far they are; there is one below it for each rule.
        storm: None leaves the rule out; so does ``stopped``.
        starting: where the first start begins, ``latest`` or ``earliest``; later ones go on.
        interval_s: how often is looked, in seconds.
        mode: ``stream`` runs until it is stopped, ``available-now`` until all is read that is there.
    """

    options: Mapping[str, str]
    checkpoint: str
    storm: StormLimits | None = StormLimits()
    stopped: StoppedLimits | None = StoppedLimits()
    starting: Literal["latest", "earliest"] = "latest"
    interval_s: float = 5.0
    mode: Literal["stream", "available-now"] = "stream"


class AlertsFailed(Exception):
    """A query ended with an error; the message says which and why."""


def start(
    spark: SparkSession,
    settings: AlertSettings,
    sink: Sink,
    *,
    events: bool,
    told: Callable[[list[Alert]], None] | None = None,
) -> list[StreamingQuery]:
    """Start a query for each rule.

    Args:
        events: the topic `EVENTS_TOPIC` is there; see `has_events`.
        told: called with what was written, on the queries' threads.
    """
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", _STATE_STORE)
    options = {**settings.options, "startingOffsets": settings.starting}
    queries = []
    if settings.storm is not None:
        groups = streams.source(spark, "groups", options)
        told_of = streams.source(spark, "events", options) if events else None
        queries.append(_query(streams.storms(groups, told_of, settings.storm), "storm", settings, sink, told))
    if settings.stopped is not None:
        commits = streams.source(spark, "commits", options)
        ends = streams.source(spark, "ends", settings.options)
        queries.append(_query(streams.stopped(commits, ends, settings.stopped), "stopped", settings, sink, told))
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

    writer = alerts.writeStream.foreachBatch(write).queryName(f"ottla alerts: {name}").outputMode("append")
    writer = writer.option("checkpointLocation", f"{settings.checkpoint}/{name}")
    if settings.mode == "available-now":
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=f"{round(settings.interval_s * 1000)} milliseconds")
    return writer.start()


def wait(queries: list[StreamingQuery], stopping: Callable[[], bool], *, step_s: int = 1) -> None:
    """Until all queries have ended, or ``stopping`` says so; then they are stopped.

    Raises:
        AlertsFailed: one has failed; the others are stopped.
    """
    try:
        while any(query.isActive for query in queries) and not stopping():
            for query in queries:
                if query.isActive:
                    query.awaitTermination(step_s)
    except Exception as error:
        raise AlertsFailed(_first_line(error)) from error
    finally:
        for query in queries:
            if query.isActive:
                query.stop()
    for query in queries:
        if (failed := query.exception()) is not None:
            raise AlertsFailed(f"{query.name}: {_first_line(failed)}")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def has_events(options: Mapping[str, str]) -> bool:
    """Whether the topic of coordinator events is there: Ottla has it, Apache Kafka does not.

    Args:
        options: of the source.

    Raises:
        KafkaError: no broker answers.
    """
    if path := options.get("path"):
        return any(Path(path).glob(f"**/{EVENTS_TOPIC}-0"))
    servers = options.get("kafka.bootstrap.servers") or options.get("bootstrap.servers", "")
    return EVENTS_TOPIC in asyncio.run(_topics(servers))


async def _topics(bootstrap: str) -> set[str]:
    from ottla.clients import Admin

    async with Admin(bootstrap_servers=bootstrap) as admin:
        return set(await admin.list_topics())
