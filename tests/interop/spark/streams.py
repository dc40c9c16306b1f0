"""Structured streaming."""

from __future__ import annotations

from tests.interop.spark.harness import AVAILABLE, T, raises, test, values
from tests.support.waiting import wait_for

START = 1_700_000_000_000
LOST = ("DATA_LOSS", "data loss", "failOnDataLoss", "may have been missed")


@test
def stream_source_and_sink(t: T) -> None:
    t.create(2)
    out = t.create(3, end="-out")
    for partition in range(2):
        t.send(range(partition * 50, partition * 50 + 50), partition=partition)
    frame = t.stream(includeHeaders=True).selectExpr(
        "key",
        "concat('<', CAST(value AS STRING), '>') AS value",
        "array(struct('from' AS key, key AS value)) AS headers",
    )
    query = t.start(frame, "kafka", topic=out)
    wait_for(lambda: t.read(out).count() == 100, "the first hundred")
    t.send(range(100, 120))
    wait_for(lambda: t.read(out).count() == 120, "what came later")
    query.stop()
    found = t.read(out, includeHeaders=True).collect()
    assert sorted(row.value.decode() for row in found) == sorted(f"<{n}>" for n in range(120))
    assert all(row.headers[0].key == "from" and row.headers[0].value == row.key for row in found)
    sources = [source for one in query.recentProgress for source in one["sources"] if one["numInputRows"]]
    assert all(source["description"] == f"KafkaV2[Subscribe[{t.topic}]]" for source in sources)


@test
def stream_from_latest_and_from_a_time(t: T) -> None:
    t.create()
    t.send(range(10), timestamp=START)
    latest = t.start(t.stream(startingOffsets="latest"), "memory", "latest", name=f"latest_{t.name}")
    wait_for(lambda: latest.recentProgress, "the end, as it was")
    timed = t.stream(startingOffsetsByTimestamp={t.topic: {"0": START + 7}})
    by_time = t.start(timed, "memory", "by-time", name=f"by_time_{t.name}")
    t.send([10, 11], timestamp=START + 10)
    wait_for(lambda: t.spark.table(f"latest_{t.name}").count() == 2, "two records")
    wait_for(lambda: t.spark.table(f"by_time_{t.name}").count() == 5, "five records")
    assert values(t.spark.table(f"latest_{t.name}")) == ["10", "11"]
    assert values(t.spark.table(f"by_time_{t.name}")) == ["7", "8", "9", "10", "11"]
    latest.stop()
    by_time.stop()


@test
def stream_stateful(t: T) -> None:
    t.create(2)

    def counts() -> dict[str, int]:
        words = t.stream().selectExpr("CAST(value AS STRING) AS word").groupBy("word").count()
        t.finish(t.start(words, "memory", mode="complete", trigger=AVAILABLE, name=t.name))
        return {row.word: row["count"] for row in t.spark.table(t.name).collect()}

    for partition in range(2):
        t.send(["a", "b", "a"], partition=partition, timestamp=START)
    assert counts() == {"a": 4, "b": 2}
    t.send(["a", "c"], timestamp=START + 5000)
    assert counts() == {"a": 5, "b": 2, "c": 1}  # the state is taken up from the checkpoint


@test
def stream_windows_and_watermarks(t: T) -> None:
    t.create()
    frame = t.stream().selectExpr("timestamp", "value").withWatermark("timestamp", "10 seconds")
    t.spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    frame.createOrReplaceTempView("windows_in")
    windows = t.spark.sql(
        "SELECT window(timestamp, '10 seconds').start AS start, count(*) AS count FROM windows_in"
        " GROUP BY window(timestamp, '10 seconds')"
    )
    query = t.start(windows, "memory", mode="append", name=t.name)
    for second in (0, 1, 9, 10, 12, 25, 41):
        t.send([second], timestamp=START + second * 1000)
    wait_for(lambda: t.spark.table(t.name).count() == 3, "three closed windows")
    query.stop()
    found = sorted(
        (round(row.start.timestamp()) - START // 1000, row["count"]) for row in t.spark.table(t.name).collect()
    )
    assert found == [(0, 3), (10, 2), (20, 1)]


@test
def stream_max_offsets_per_trigger(t: T) -> None:
    t.create(3)
    for partition in range(3):
        t.send(range(40), partition=partition)
    query = t.start(t.stream(maxOffsetsPerTrigger=30), "memory", trigger=AVAILABLE, name=t.name)
    t.finish(query)
    sizes = [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]
    assert sum(sizes) == 120
    assert len(sizes) >= 4
    assert max(sizes) <= 30
    assert t.spark.table(t.name).count() == 120


@test
def stream_subscribe_pattern(t: T) -> None:
    t.send(["one"], t.create(end=".one"))
    frame = t.stream(subscribePattern=f"{t.topic}\\..*", kafka_metadata_max_age_ms=500)
    query = t.start(frame, "memory", name=t.name)
    wait_for(lambda: t.spark.table(t.name).count() == 1, "the topic that was there")
    t.send(["two"], t.create(2, end=".two"), partition=1)
    wait_for(lambda: t.spark.table(t.name).count() == 2, "the topic that came later")
    query.stop()


@test
def stream_partitions_are_added(t: T) -> None:
    t.create()
    t.send(range(5))
    query = t.start(t.stream(kafka_metadata_max_age_ms=500), "memory", name=t.name)
    wait_for(lambda: t.spark.table(t.name).count() == 5, "the first partition")
    t.kit.grow(t.topic, 3)
    t.send(range(5), partition=2)  # read from its start, though the query is past that
    wait_for(lambda: t.spark.table(t.name).count() == 10, "the new partition")
    query.stop()
    assert {row.partition for row in t.spark.table(t.name).collect()} == {0, 2}


@test
def stream_read_committed(t: T) -> None:
    t.create()
    producer = t.producer()
    query = t.start(t.stream(kafka_isolation_level="read_committed"), "memory", name=t.name)
    for end in ("abort", "commit"):
        producer.begin()
        producer.send(t.topic, [end.encode()])
        producer.commit() if end == "commit" else producer.abort()
    producer.begin()
    producer.send(t.topic, [b"open"])
    wait_for(lambda: t.spark.table(t.name).count() >= 1, "the committed record")
    assert values(t.spark.table(t.name)) == ["commit"]
    producer.commit()
    wait_for(lambda: t.spark.table(t.name).count() >= 2, "the one that is committed now")
    assert values(t.spark.table(t.name)) == ["commit", "open"]
    query.stop()


@test
def stream_fail_on_data_loss(t: T) -> None:
    t.create()
    t.send(range(5))

    def go_on(name: str, fail: bool) -> list[str]:
        frame = t.stream(failOnDataLoss=fail).selectExpr("CAST(value AS STRING) AS value")
        t.finish(t.start(frame, "parquet", name, trigger=AVAILABLE, path=t.directory / f"{name}-out"))
        return [row.value for row in t.spark.read.parquet(str(t.directory / f"{name}-out")).collect()]

    go_on("strict", True)
    go_on("lenient", False)
    t.send(range(5, 15))
    t.kit.delete_records((t.topic, 0), 8)
    with raises(*LOST):
        go_on("strict", True)
    assert sorted(go_on("lenient", False), key=int) == [str(n) for n in (*range(5), *range(8, 15))]


@test
def stream_of_a_topic_made_again(t: T) -> None:
    def go_on() -> None:
        out = t.directory / "out"
        t.finish(t.start(t.stream().select("value"), "parquet", trigger=AVAILABLE, path=out))

    t.create()
    t.send(range(10))
    go_on()
    t.kit.delete(t.topic)
    t.create()
    t.send(["new"])
    with raises(*LOST):
        go_on()


@test
def stream_min_partitions(t: T) -> None:
    t.create(2)
    for partition in range(2):
        t.send(range(60), partition=partition)
    query = t.start(t.stream(minPartitions=6), "memory", trigger=AVAILABLE, name=t.name)
    t.finish(query)
    assert sorted(values(t.spark.table(t.name))) == sorted(str(n) for n in range(60) for _ in range(2))


@test
def stream_joined_with_a_stream(t: T) -> None:
    other = t.create(end="-other")
    t.create()
    t.send(range(20), timestamp=START)
    t.send(range(10, 30), other, timestamp=START)
    left = t.stream().selectExpr("CAST(key AS STRING) AS key", "offset AS left_offset", "timestamp AS left_time")
    right = t.stream(other).selectExpr(
        "CAST(key AS STRING) AS right_key", "offset AS right_offset", "timestamp AS time"
    )
    left, right = left.withWatermark("left_time", "1 minute"), right.withWatermark("time", "1 minute")
    joined = left.join(right, left.key == right.right_key)
    t.finish(t.start(joined, "memory", trigger=AVAILABLE, name=t.name))
    found = {row.key for row in t.spark.table(t.name).collect()}
    assert found == {f"k{n}" for n in range(10, 20)}


def _goes_on(t: T, mode: str, trigger: dict[str, str]) -> None:
    """Records are in the sink soon after they are in the source, and the query does not fail."""
    t.create()
    out = t.create(end="-out")
    query = t.start(t.stream().select("key", "value"), "kafka", mode=mode, topic=out, trigger=trigger)
    for n in range(0, 30, 10):
        t.send(range(n, n + 10))
        wait_for(lambda n=n: query.exception() or t.read(out).count() == n + 10, f"{n + 10} records")
    assert query.exception() is None, query.exception()
    query.stop()
    assert values(t.read(out)) == [str(n) for n in range(30)]


@test
def stream_in_real_time(t: T) -> None:
    """The trigger without micro-batches in between: offsets are asked for once in each long batch."""
    _goes_on(t, "update", {"realTime": "5 seconds"})


@test
def stream_continuous(t: T) -> None:
    _goes_on(t, "append", {"continuous": "500 milliseconds"})


@test
def broker_restart(t: T) -> None:
    t.create()
    out = t.create(end="-out")
    frame = t.stream().select("key", "value")
    query = t.start(frame, "kafka", topic=out)
    t.send(range(50))
    wait_for(lambda: t.read(out).count() == 50, "the first fifty")
    t.restart_broker()
    t.send(range(50, 100))
    wait_for(lambda: query.exception() is not None or t.read(out).count() >= 100, "the rest")
    assert query.exception() is None, query.exception()
    query.stop()
    assert {int(value) for value in values(t.read(out))} == set(range(100))
