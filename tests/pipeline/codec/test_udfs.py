"""The functions for Spark: their rows are the tables', for records from anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from ottla import pipeline
from ottla.pipeline import udfs
from ottla.pipeline.codec import decode, table_of, walk
from ottla.pipeline.codec.arrays import chunk_of
from ottla.pipeline.codec.spark_sql import OFFSET_COMMITS
from ottla.protocol.records import Record
from tests.pipeline.codec.logs import commit, generation, member
from tests.pipeline.codec.test_events import FULL
from tests.pipeline.codec.test_groups import record
from tests.support.batches import build_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOME = [
    commit("g1", "orders", 3, 100, metadata="é"),
    replace(commit("g2"), value=None),
    record(generation(members=[member()])),
    record(None),
    Record(key=b"\0\3\0\1g", value=bytes.fromhex("00000000000200")),
    Record(key=None, value=b"\0\0"),
    Record(key=commit().key, value=b""),
    commit("g3", version=4),
]
ERRORS = [None, None, "a group", "a group", "key type 3", "no key", "record value of 0 bytes", None]


@pytest.fixture
def records(spark: SparkSession) -> Any:
    rows = [(i, None if one.key is None else bytearray(one.key), one.value) for i, one in enumerate(SOME)]
    return spark.createDataFrame(rows, "i INT, key BINARY, value BINARY")


def test_committed_offsets(records: Any) -> None:
    some = records.select("i", pipeline.decode_offset_commit("key", "value").alias("c")).select("i", "c.*")
    rows = [row.asDict() for row in some.orderBy("i").collect()]
    said = [row.pop("error") for row in rows]
    assert all(
        (want is None) == (got is None) and (want or "") in (got or "") for want, got in zip(ERRORS, said, strict=True)
    )
    table = decode("commits", walk(build_batch(SOME))).to_pylist()
    places = [one.pop("log_offset") for one in table]
    for place, one in zip(places, table, strict=True):
        # Without a time zone, as Spark gives times to Python: the session's is UTC.
        wanted = {k: v.replace(tzinfo=None) if hasattr(v, "tzinfo") else v for k, v in one.items() if k in rows[place]}
        assert {k: v for k, v in rows[place].items() if k != "i"} == wanted
    nothing = [row for place, row in enumerate(rows) if place not in places]
    assert all(value is None for row in nothing for name, value in row.items() if name != "i")


def test_in_sql_with_a_filter_on_raw_bytes(spark: SparkSession, records: Any) -> None:
    udfs.register_functions(spark)
    records.createOrReplaceTempView("offset_records")
    found = spark.sql(
        "SELECT g.generation, g.members.member_id, g.error FROM"
        " (SELECT decode_group_metadata(key, value) AS g FROM offset_records"
        " WHERE substring(key, 1, 2) = X'0002' ORDER BY i)"
    )
    assert [tuple(row) for row in found.collect()] == [(3, ["m"], None), (None, None, None)]
    plan = spark.sql(
        "SELECT decode_offset_commit(key, value) AS c FROM offset_records WHERE substring(key, 1, 2) <= X'0001'"
    )._jdf.queryExecution()
    assert plan.executedPlan().toString().count("ArrowEvalPython") == 1


def test_events(spark: SparkSession) -> None:
    some = spark.createDataFrame([(json.dumps(FULL).encode(),), (b"{",), (None,)], "value BINARY")
    rows = some.select(pipeline.decode_group_event("value").alias("e")).select("e.*").collect()
    assert (rows[0]["group_id"], rows[0]["duration_ms"], rows[0]["error"]) == ("g", 2500, None)
    assert [row["group_id"] for row in rows[1:]] == [None, None]
    assert "no JSON" in rows[1]["error"]
    assert "without a value" in rows[2]["error"]


def test_sessions_of_another_time_zone(spark: SparkSession, records: Any) -> None:
    """A time is a moment, whatever the session shows it in."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        (row,) = (
            records.where("i = 0")
            .select(pipeline.decode_offset_commit("key", "value").alias("c"))
            .selectExpr("unix_millis(c.commit_ts)")
            .collect()
        )
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert row[0] == 1_700_000_000_000


def columns() -> Iterator[tuple[pa.Array, pa.Array]]:
    keys, values = ([getattr(one, name) for one in SOME] for name in ("key", "value"))
    yield pa.array(keys, pa.binary()), pa.array(values, pa.binary())
    yield pa.array([b"x", *keys], pa.binary())[1:], pa.array([None, *values, b"y"], pa.binary())[1:-1]
    yield pa.array(keys, pa.large_binary()), pa.array(values, pa.binary_view())


@pytest.mark.parametrize("pair", list(columns()))
def test_columns_of_any_shape(pair: tuple[pa.Array, pa.Array]) -> None:
    chunk = chunk_of(*pair)
    assert [chunk.key(row) for row in range(len(SOME))] == [one.key for one in SOME]
    assert [chunk.value(row) for row in range(len(SOME))] == [one.value for one in SOME]
    assert udfs._commits(*pair).field("group_id").to_pylist() == ["g1", "g2", None, None, None, None, None, "g3"]


def test_columns_of_nothing() -> None:
    none = pa.array([], pa.binary())
    assert len(udfs._commits(none, none)) == len(udfs._generations(none, none)) == len(udfs._events(none)) == 0
    nulls = pa.nulls(2, pa.binary())
    assert udfs._commits(nulls, nulls).field("error").to_pylist() == ["no key", "no key"]


def test_spark_without_python_says_the_same_of_what_is_sound(spark: SparkSession) -> None:
    some = [
        commit("a group", "orders", partition, offset, version, metadata=metadata)
        for version in range(5)
        for partition, offset, metadata in [(0, 0, ""), (5, (1 << 63) - 1, "m"), (1 << 20, -(1 << 63), "ü" * 60)]
    ]
    some += [
        commit(leader_epoch=-1),
        commit(leader_epoch=1 << 30),
        commit(version=1, expire_timestamp=5),
        replace(commit(), value=None),
    ]
    chunk = walk(build_batch([*some, record(None), Record(key=b"\0\3", value=b"x")]), topic="t", partition=9)
    raw = decode("raw", chunk).to_pylist()
    rows = [(row["partition"], row["offset"], row["timestamp"], row["key"], row["value"]) for row in raw]
    spark.createDataFrame(
        rows, "partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY"
    ).createOrReplaceTempView("kafka_rows")
    found = spark.sql(OFFSET_COMMITS.format(records="kafka_rows")).orderBy("log_offset")
    declared = spark.createDataFrame([], table_of("commits").ddl(whole=False))
    assert found.schema.simpleString() == declared.schema.simpleString()
    assert found.toArrow().to_pylist() == decode("commits", chunk).to_pylist()


@pytest.mark.usefixtures("spark")
def test_nothing_is_kept_of_a_session_that_may_be_stopped() -> None:
    """A function of Spark's that was used keeps its context, and a later one cannot reach what that one closed."""
    assert udfs._udf(udfs._commits, udfs.COMMIT) is not udfs._udf(udfs._commits, udfs.COMMIT)
