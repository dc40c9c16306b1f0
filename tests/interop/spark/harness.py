"""A Spark session, kafka-python to arrange things, and tests; they are played as those of the Python clients are."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.interop.python.harness import Stage
from tests.support.kit import Row, Transactional, WholeKit

BOOTSTRAP = os.environ["BOOTSTRAP"]
SCRATCH = Path(os.environ["SCRATCH"])
TESTS: list[tuple[str, Callable[[T], None]]] = []


AVAILABLE = {"availableNow": True}


def session(name: str) -> SparkSession:
    os.environ.pop("SPARK_HOME", None)  # pyspark's own Spark, not one that the machine may have
    quick = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    arguments = ["--driver-class-path", os.environ["JARS"], "--driver-java-options", f'"{quick}"']
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(["--master", "local[2]", *arguments, "pyspark-shell"])
    builder = SparkSession.builder.appName(name)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",  # it would be drawn into the lines of results
        "spark.log.level": "FATAL",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(SCRATCH / "warehouse"),
        "spark.local.dir": str(SCRATCH / "local"),
        "spark.sql.adaptive.enabled": "false",
        # Queries that fail in a test fail at once, and are not run again.
        "spark.task.maxFailures": "1",
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


class T(Stage):
    """The stage of a test: the session, kafka-python to arrange things, and names of its own."""

    def __init__(self, kit: WholeKit, name: str) -> None:
        super().__init__(kit, name)
        self.name = name
        self.spark = session("ottla-interop")
        self.directory = SCRATCH / name
        self.queries: list[StreamingQuery] = []
        self.closing.callback(self.close)

    def create(self, partitions: int = 1, *, end: str = "") -> str:
        """The test's topic, or one whose name begins alike."""
        self.kit.create(self.topic + end, partitions)
        return self.topic + end

    def send(
        self, values: Iterable[object], topic: str | None = None, *, partition: int = 0, timestamp: int | None = None
    ) -> None:
        """One record for each value, in order, a millisecond apart."""
        start = timestamp if timestamp is not None else time.time_ns() // 1_000_000
        texts = enumerate(map(str, values))
        rows = [Row(text.encode(), f"k{text}".encode(), timestamp_ms=start + at) for at, text in texts]
        self.kit.produce(topic or self.topic, rows, partition=partition)

    def producer(self) -> Transactional:
        made: Transactional = self.kit.transactional(f"{self.topic}-id")
        self.closing.callback(made.close)
        return made

    def read(self, topic: str | None = None, **options: object) -> DataFrame:
        """A batch of the source; options as Spark names them, with _ for the dot of ``kafka.``."""
        return self._options(self.spark.read, topic, options).load()

    def stream(self, topic: str | None = None, **options: object) -> DataFrame:
        given = {"startingOffsets": "earliest"} if not any(key.startswith("starting") for key in options) else {}
        return self._options(self.spark.readStream, topic, given | options).load()

    def _options(self, reader: Any, topic: str | None, options: dict[str, object]) -> Any:
        reader = reader.format("kafka").option("kafka.bootstrap.servers", BOOTSTRAP)
        reader = reader.option("fetchOffset.retryIntervalMs", "50")  # a second, else, between tries that all fail
        if not {"subscribe", "subscribePattern", "assign"} & set(options):
            reader = reader.option("subscribe", topic or self.topic)
        for key, value in options.items():
            reader = reader.option(dotted(key), text_of(value))
        return reader

    def write(self, frame: DataFrame, topic: str | None = None, **options: object) -> None:
        writer = frame.write.format("kafka").option("kafka.bootstrap.servers", BOOTSTRAP)
        if topic is not None:
            writer = writer.option("topic", topic)
        for key, value in options.items():
            writer = writer.option(dotted(key), text_of(value))
        writer.save()

    def start(self, frame: DataFrame, sink: str, checkpoint: str = "checkpoint", **options: object) -> StreamingQuery:
        """Start a query of a checkpoint in the test's directory. ``mode`` and ``trigger`` (a dict) are Spark's own."""
        mode, trigger = str(options.pop("mode", "append")), options.pop("trigger", None)
        writer = frame.writeStream.format(sink).outputMode(mode)
        writer = writer.option("checkpointLocation", str(self.directory / checkpoint))
        if sink == "kafka":
            writer = writer.option("kafka.bootstrap.servers", BOOTSTRAP)
        if isinstance(trigger, dict):
            writer = writer.trigger(**trigger)
        for key, value in options.items():
            writer = writer.queryName(str(value)) if key == "name" else writer.option(dotted(key), text_of(value))
        query = writer.start()
        self.queries.append(query)
        return query

    def finish(self, query: StreamingQuery, seconds: float = 60) -> StreamingQuery:
        """Wait for a query that ends by itself."""
        assert query.awaitTermination(seconds), f"still running: {query.status}"
        return query

    def close(self) -> None:
        for query in self.queries:
            query.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def dotted(key: str) -> str:
    return key.replace("_", ".") if key.startswith("kafka_") else key


def text_of(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, dict) else str(value)


def values(frame: DataFrame) -> list[str]:
    """The values as text, in the order of partitions and offsets."""
    rows = frame.selectExpr("CAST(value AS STRING) AS value", "partition", "offset").collect()
    return [row.value for row in sorted(rows, key=lambda row: (row.partition, row.offset))]


@contextmanager
def raises(*words: str) -> Any:
    """The block fails, with one of the words somewhere in the error or its causes."""
    try:
        yield
    except Exception as error:
        found = str(error)
        assert any(word in found for word in words), found
        return
    raise AssertionError(f"it did not fail with {' or '.join(words)}")


def test(body: Callable[[T], None]) -> Callable[[T], None]:
    """Register a test under its name."""
    TESTS.append((body.__name__, body))
    return body
