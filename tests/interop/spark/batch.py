"""Batch reads and writes."""

from __future__ import annotations

from pyspark.sql import Row

from tests.interop.spark.harness import T, raises, test, values

START = 1_700_000_000_000


@test
def batch_read_all(t: T) -> None:
    t.create(3)
    for partition in range(3):
        t.send(range(partition * 100, partition * 100 + 20), partition=partition, timestamp=START)
    frame = t.read()
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    rows = frame.collect()
    assert len(rows) == 60
    assert {(row.partition, row.offset) for row in rows} == {(p, o) for p in range(3) for o in range(20)}
    for row in rows:
        assert (row.topic, row.timestampType) == (t.topic, 0)
        assert row.value.decode() == str(row.partition * 100 + row.offset)
        assert row.key == b"k" + row.value
        assert round(row.timestamp.timestamp() * 1000) == START + row.offset
    assert not [group for group in t.kit.groups() if group.startswith("spark-kafka")]


@test
def batch_offsets_per_partition(t: T) -> None:
    t.create(3)
    for partition in range(3):
        t.send(range(10), partition=partition)
    wanted = {t.topic: {"0": 4, "1": -2, "2": 7}}
    until = {t.topic: {"0": 6, "1": 3, "2": -1}}
    frame = t.read(startingOffsets=wanted, endingOffsets=until)
    assert values(frame) == ["4", "5", "0", "1", "2", "7", "8", "9"]
    only = t.read(assign={t.topic: [1]}, startingOffsets={t.topic: {"1": 8}})
    assert values(only) == ["8", "9"]
    with raises("not equal to the TopicPartitions", "TopicPartitions"):
        t.read(startingOffsets={t.topic: {"0": 0}}).collect()


@test
def batch_by_timestamp(t: T) -> None:
    t.create(2)
    for partition in range(2):
        t.send(range(10), partition=partition, timestamp=START + partition * 5)
    frame = t.read(startingTimestamp=START + 6, endingTimestamp=START + 9)
    assert values(frame) == ["6", "7", "8", "1", "2", "3"]
    by_partition = t.read(
        startingOffsetsByTimestamp={t.topic: {"0": START + 8, "1": START + 13}},
        endingOffsetsByTimestamp={t.topic: {"0": START + 99, "1": START + 14}},
    )
    assert values(by_partition) == ["8", "9", "8"]  # no record that late: up to the end


@test
def batch_timestamp_without_match(t: T) -> None:
    t.create()
    t.send(range(5), timestamp=START)
    late = {t.topic: {"0": START + 1000}}
    with raises("No offset matched", "no offset matched", "NO_OFFSET"):
        t.read(startingOffsetsByTimestamp=late).collect()
    assert values(t.read(startingOffsetsByTimestamp=late, startingOffsetsByTimestampStrategy="latest")) == []


@test
def batch_subscribe_pattern(t: T) -> None:
    for word in ("red", "blue"):
        t.send([word], t.create(end=f".{word}"))
    t.kit.create(f"not-{t.topic}")
    t.send(["other"], f"not-{t.topic}")
    frame = t.read(subscribePattern=f"{t.topic}\\..*")
    assert sorted((row.topic.rpartition(".")[2], row.value.decode()) for row in frame.collect()) == [
        ("blue", "blue"),
        ("red", "red"),
    ]
    assert "__consumer_offsets" not in {row.topic for row in t.read(subscribePattern=f"{t.topic}.*|__.*").collect()}


@test
def batch_sink_with_headers(t: T) -> None:
    t.create(2)
    rows = [
        Row(key=b"a", value=b"1", partition=0, headers=[Row(key="h", value=b"x"), Row(key="h", value=None)]),
        Row(key=None, value=b"2", partition=1, headers=None),
        Row(key=b"c", value=None, partition=1, headers=[]),
    ]
    schema = "key BINARY, value BINARY, partition INT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    t.write(t.spark.createDataFrame(rows, schema).coalesce(1), t.topic)
    found = sorted(t.read(includeHeaders=True).collect(), key=lambda row: (row.partition, row.offset))
    assert [(row.partition, row.key, row.value) for row in found] == [(0, b"a", b"1"), (1, None, b"2"), (1, b"c", None)]
    assert [(one.key, one.value) for one in found[0].headers] == [("h", b"x"), ("h", None)]
    assert not found[1].headers and not found[2].headers


@test
def batch_sink_of_several_topics(t: T) -> None:
    names = [t.create(end=f"-{n}") for n in range(3)]
    frame = t.spark.range(300).selectExpr(
        f"concat('{t.topic}-', id % 3) AS topic", "CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value"
    )
    t.write(frame.repartition(4))
    for n, name in enumerate(names):
        assert sorted(int(value) for value in values(t.read(name))) == list(range(n, 300, 3))
    with raises("InvalidTopicException"):
        t.write(frame.limit(1).drop("topic"), f"{t.topic} is not valid", kafka_max_block_ms=2000)


def _codec(codec: str) -> None:
    def body(t: T) -> None:
        t.create()
        text = "concat(CAST(id AS STRING), repeat(' squeeze me', 300)) AS value"
        t.write(t.spark.range(200).selectExpr(text).coalesce(1), t.topic, kafka_compression_type=codec)
        found = values(t.read())
        assert [value.split()[0] for value in found] == [str(n) for n in range(200)]
        assert all(len(value) > 3000 for value in found)

    body.__name__ = f"codec_{codec}"
    test(body)


for _name in ("none", "gzip", "snappy", "lz4", "zstd"):
    _codec(_name)


@test
def batch_min_partitions(t: T) -> None:
    t.create(2)
    for partition in range(2):
        t.send(range(100), partition=partition)
    frame = t.read(minPartitions=7)
    assert frame.rdd.getNumPartitions() >= 7
    assert frame.count() == 200


@test
def batch_read_committed(t: T) -> None:
    t.create()
    producer = t.producer()
    for round_, end in enumerate(["commit", "abort", "commit"]):
        producer.begin()
        producer.send(t.topic, [f"{end}-{round_}-{n}".encode() for n in range(3)])
        producer.commit() if end == "commit" else producer.abort()
    committed = ["commit-0-0", "commit-0-1", "commit-0-2", "commit-2-0", "commit-2-1", "commit-2-2"]
    assert values(t.read(kafka_isolation_level="read_committed")) == committed
    assert len(values(t.read())) == 9
    producer.begin()
    producer.send(t.topic, [b"open"])
    t.send(["behind"])
    # The end that Spark asks for is the last stable offset.
    assert values(t.read(kafka_isolation_level="read_committed")) == committed
    assert values(t.read())[-2:] == ["open", "behind"]
    producer.commit()
    assert values(t.read(kafka_isolation_level="read_committed")) == [*committed, "open", "behind"]


@test
def batch_after_deleted_records(t: T) -> None:
    t.create()
    t.send(range(10))
    t.kit.delete_records((t.topic, 0), 6)
    assert values(t.read()) == ["6", "7", "8", "9"]
    early = {t.topic: {"0": 2}}
    with raises("lost", "out of range", "failOnDataLoss", "OffsetOutOfRange", "KAFKA_DATA_LOSS"):
        t.read(startingOffsets=early).collect()
    assert values(t.read(startingOffsets=early, failOnDataLoss=False)) == ["6", "7", "8", "9"]


@test
def batch_compacted_topic_with_gaps(t: T) -> None:
    t.create()
    producer = t.producer()
    for n in range(20):
        producer.begin()
        producer.send(t.topic, [b"%d" % n])
        producer.commit()
    frame = t.read(minPartitions=5)  # some begin or end at a marker
    assert values(frame) == [str(n) for n in range(20)]
