"""A Spark session, the Java client that comes with it to arrange things, and tests, each reported as a line of JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaMember
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

BOOTSTRAP = os.environ["BOOTSTRAP"]
SCRATCH = Path(os.environ["SCRATCH"])
RUN = f"{time.time_ns():x}"[-8:]
TESTS: list[tuple[str, Callable[[T], None]]] = []


AVAILABLE = {"availableNow": True}


class Skipped(Exception):
    """The test does not apply; the text says why."""


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


class Kafka:
    """The Java clients in Spark's own virtual machine."""

    def __init__(self, spark: SparkSession) -> None:
        self.jvm: Any = spark._jvm
        self.clients = self.jvm.org.apache.kafka.clients
        self.admin = self.clients.admin.Admin.create(self._properties({}))
        self._plain: Any = None

    def _properties(self, settings: dict[str, str]) -> Any:
        properties = self.jvm.java.util.Properties()
        for key, value in {"bootstrap.servers": BOOTSTRAP, **settings}.items():
            properties.setProperty(key, value)
        return properties

    def producer(self, **settings: str) -> Any:
        text = "org.apache.kafka.common.serialization.StringSerializer"
        named = {key.replace("_", "."): value for key, value in settings.items()}
        return self.clients.producer.KafkaProducer(
            self._properties({"key.serializer": text, "value.serializer": text, **named})
        )

    def send(
        self,
        topic: str,
        values: Iterable[object],
        *,
        partition: int = 0,
        timestamp: int | None = None,
        producer: Any = None,
    ) -> None:
        """One record for each value, in order, a millisecond apart."""
        if producer is None:
            producer = self._plain = self._plain or self.producer()
        start = timestamp if timestamp is not None else time.time_ns() // 1_000_000
        for at, value in enumerate(values):
            producer.send(self.clients.producer.ProducerRecord(topic, partition, start + at, f"k{value}", str(value)))
        producer.flush()

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> str:
        topic = self.clients.admin.NewTopic(name, partitions, 1)
        topic.configs({key.replace("_", "."): value for key, value in configs.items()} or self.jvm.java.util.HashMap())
        self.admin.createTopics(self._list(topic)).all().get()
        return name

    def delete_topic(self, name: str) -> None:
        self.admin.deleteTopics(self._list(name)).all().get()

    def add_partitions(self, topic: str, count: int) -> None:
        wanted = self.jvm.java.util.HashMap()
        wanted.put(topic, self.clients.admin.NewPartitions.increaseTo(count))
        self.admin.createPartitions(wanted).all().get()

    def delete_records(self, topic: str, before: int, partition: int = 0) -> None:
        wanted = self.jvm.java.util.HashMap()
        place = self.jvm.org.apache.kafka.common.TopicPartition(topic, partition)
        # py4j finds no static method beside one of the same name that is not static.
        name = "z:org.apache.kafka.clients.admin.RecordsToDelete"
        wanted.put(place, JavaMember("beforeOffset", None, name, self.jvm._gateway_client)(before))
        self.admin.deleteRecords(wanted).all().get()

    def groups(self) -> list[str]:
        return [listing.groupId() for listing in self.admin.listConsumerGroups().all().get()]

    def _list(self, *items: Any) -> Any:
        found = self.jvm.java.util.ArrayList()
        for item in items:
            found.add(item)
        return found


class T:
    """What a test gets: the session, the clients, and names of its own."""

    def __init__(self, name: str, spark: SparkSession, kafka: Kafka) -> None:
        self.name, self.spark, self.kafka = name, spark, kafka
        self.topic = f"{name}-{RUN}"
        self.directory = SCRATCH / name
        self.queries: list[StreamingQuery] = []

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


def until(condition: Callable[[], object], what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not in {seconds} s: {what}")
        time.sleep(0.05)


def restart_broker() -> None:
    """Have the broker killed and started again on its data."""
    directory = os.environ.get("RESTARTS")
    if not directory:
        raise Skipped("the broker was given from outside and is not restarted")
    number = len(list(Path(directory).glob("done-*"))) + 1
    (Path(directory) / f"wanted-{number}").touch()
    done = Path(directory) / f"done-{number}"
    until(done.exists, "the broker is there again")
    assert not (wrong := done.read_text("utf-8")), wrong


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


def run_all(name: str) -> None:
    spark = session(name)
    kafka = Kafka(spark)
    for test_name, body in TESTS:
        if len(sys.argv) > 1 and test_name not in sys.argv[1:]:
            continue
        began = time.monotonic()
        given = T(test_name, spark, kafka)
        outcome, reason = "passed", ""
        try:
            body(given)
        except Skipped as skipped:
            outcome, reason = "skipped", str(skipped)
        except Exception:
            outcome, reason = "failed", traceback.format_exc()[-3000:]
        finally:
            given.close()
        seconds = round(time.monotonic() - began, 2)
        print(json.dumps({"test": test_name, "outcome": outcome, "reason": reason, "seconds": seconds}), flush=True)
    spark.stop()
