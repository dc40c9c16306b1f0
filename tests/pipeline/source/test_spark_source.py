"""The source as Spark uses it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.pipeline.source.options import parse_options
from ottla.pipeline.source.rows import table_read
from ottla.testing import Broker
from tests.pipeline.source.reading import commit, create, join, produce, read, where

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DECODES = ("commits", "groups", "ends")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"group.initial.rebalance.delay.ms": 0}, topics={"orders": 3}) as one:
        produce(one.bootstrap_servers, "orders", 60)
        for number in range(20):
            commit(one.bootstrap_servers, f"group-{number}", "orders", {0: number})
        join(one.bootstrap_servers, "g", "orders")
        yield one


def load(spark: SparkSession, broker: Broker, **options: str) -> DataFrame:
    return spark.read.format("ottla").options(**where(broker), **options).load()


def test_rows_have_exactly_the_declared_columns(spark: SparkSession, broker: Broker) -> None:
    for decode in DECODES:
        frame = load(spark, broker, decode=decode)
        options = parse_options({**where(broker), "decode": decode}, streaming=False)
        assert frame.schema == spark.createDataFrame([], table_read(options).ddl(whole=False)).schema
        frame.createOrReplaceTempView(decode)
    (counts,) = spark.sql("SELECT (SELECT count(*) FROM commits), (SELECT count(*) FROM groups)").collect()
    whole = load(spark, broker, decode="commits").rdd.getNumPartitions()
    assert whole == 4, "twice the turns of the session, however many partitions have records"
    assert tuple(counts) == (len(read(broker, decode="commits")), len(read(broker, decode="groups")))


def test_raw_rows_are_those_of_the_kafka_connector(spark: SparkSession, broker: Broker) -> None:
    frame = load(spark, broker, subscribe="orders", includeHeaders="true")
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    rows = frame.orderBy("partition", "offset").collect()
    assert len(rows) == 60
    assert [(one.key, one.value) for one in rows[0].headers] == [("n", b"0"), ("none", None)]
    assert (rows[0].key, rows[0].value, rows[0].timestampType) == (b"key-0", b"0" * 20, 0)


def test_a_group_is_looked_for_where_it_can_be(spark: SparkSession, broker: Broker) -> None:
    frame = load(spark, broker, decode="commits").where("group_id IN ('group-3', 'group-4') AND committed_offset >= 0")
    assert sorted(row.committed_offset for row in frame.collect()) == [3, 4]
    assert frame.rdd.getNumPartitions() <= 2, "no more than the two partitions of their coordinators are read"
    nothing = load(spark, broker, decode="commits").where("group_id = 'a' AND group_id = 'b'")
    assert nothing.collect() == []


def test_what_is_refused_is_told_by_name(spark: SparkSession, broker: Broker) -> None:
    with pytest.raises(Exception, match=r"option 'decode' is 'row'; allowed: one of raw, commits") as refused:
        load(spark, broker, decode="row")
    assert "Traceback" not in str(refused.value)
    with pytest.raises(Exception, match="did you mean subscribe"):
        load(spark, broker, subscirbe="orders")


def test_a_stream_is_exactly_once_when_a_batch_is_made_again(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"

    def run(**more: str) -> list[int]:
        options: dict[str, Any] = {**where(broker), "subscribe": "again", "startingOffsets": "earliest", **more}
        frame = spark.readStream.format("ottla").options(**options).load()
        query = (
            frame.writeStream.format("parquet")
            .option("path", str(out))
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]

    create(broker.bootstrap_servers, "again", 3)
    produce(broker.bootstrap_servers, "again", 30)
    assert run(maxOffsetsPerTrigger="20") == [20, 10]
    # As if the driver had been killed after the last batch was written, and before it was noted as done.
    for name in ("1", ".1.crc"):
        (checkpoint / "commits" / name).unlink()
    produce(broker.bootstrap_servers, "again", 6)
    assert run() in ([10, 6], [6]), "the sink may know the batch already"
    rows = spark.read.parquet(str(out)).select("partition", "offset").collect()
    assert len(rows) == len(set(rows)) == 36


def test_samples_of_ends_as_a_stream(spark: SparkSession, broker: Broker) -> None:
    frame = spark.readStream.format("ottla").options(**where(broker), decode="ends", subscribe="orders").load()
    query = frame.writeStream.format("memory").queryName("samples").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    rows = spark.table("samples").collect()
    assert [(row.partition, row.log_start_offset, row.log_end_offset) for row in rows[:3]] == [
        (partition, 0, 20) for partition in range(3)
    ]
