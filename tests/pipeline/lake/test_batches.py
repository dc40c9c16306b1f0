"""Columns, typed columns and batches, with Spark."""

import json
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from ottla.pipeline.topic_lake import columns
from ottla.pipeline.topic_lake.folder import BAD, LakeError, TopicFolder
from ottla.pipeline.topic_lake.run import BatchWriter, Written
from tests.pipeline.lake.lakes import KillAt, Killed, rows

RAW = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key STRING, value BINARY>>"
)
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
DDL = "id BIGINT, price DOUBLE, tags ARRAY<STRING>, at STRUCT<city STRING>"


def raw(spark: SparkSession, *values: bytes | None, start: int = 0, at: datetime = NOON) -> DataFrame:
    """Records of two partitions in turn, as ``decode=raw`` gives them."""
    made: list[tuple[Any, ...]] = [
        (b"k", value, "orders", n % 2, start + n // 2, at + timedelta(milliseconds=n), 0, [("h", b"\x00\xff")])
        for n, value in enumerate(values)
    ]
    return spark.createDataFrame(made, RAW).coalesce(1)


def writer(path: Path, ddl: str | None = None, step: Any = None, told: list[Written] | None = None) -> BatchWriter:
    folder = TopicFolder(path, step or (lambda name: None))
    folder.claim(topic="orders")
    folder.checkpoint.mkdir(exist_ok=True)
    (folder.checkpoint / "metadata").write_text(json.dumps({"id": "q"}))
    schema = columns.read_schema(ddl) if ddl else None
    return BatchWriter(folder, "orders", schema, "", told.append if told is not None else None)


def test_every_reader_reads_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    told: list[Written] = []
    write = writer(tmp_path, told=told)
    write(raw(spark, b"a", b"b", None), 0)
    write(raw(spark, b"c", start=7, at=NOON + timedelta(days=1)), 1)
    assert [(one.batch, one.rows, one.bad, one.files) for one in told] == [(0, 3, 0, 1), (1, 1, 0, 1)]

    by_spark = spark.read.parquet(str(tmp_path))
    kinds = [f"{name} {kind.upper()}" for name, kind in by_spark.dtypes]
    assert ", ".join(kinds).replace("KEY:STRING,VALUE:BINARY", "key STRING, value BINARY") == (
        f"{columns.COLUMNS}, date DATE"
    )
    found = sorted((row.partition, row.offset, row.value, row.ts, row.date) for row in by_spark.collect())
    assert [one[:3] for one in found] == [(0, 0, b"a"), (0, 1, None), (0, 7, b"c"), (1, 0, b"b")]
    assert found[2][4] == date(2026, 11, 21)

    by_pandas = pd.read_parquet(tmp_path).sort_values(["partition", "offset"])
    assert by_pandas["value"].to_list() == [b"a", None, b"c", b"b"]
    assert by_pandas["ts"].to_list()[3] == pd.Timestamp(NOON + timedelta(milliseconds=1))
    assert by_pandas["headers"].to_list()[0][0] == {"key": "h", "value": b"\x00\xff"}
    assert rows(tmp_path) == Counter([(0, 0), (0, 1), (0, 7), (1, 0)])


def test_a_batch_that_is_done_again_is_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    write = writer(tmp_path)
    write(raw(spark, b"a", b"b"), 0)
    write(raw(spark, b"a", b"b"), 0)
    assert rows(tmp_path) == Counter([(0, 0), (1, 0)])


@pytest.mark.parametrize("at", range(4))
def test_a_batch_that_was_killed_at_any_step_is_there_once_in_the_end(
    spark: SparkSession, tmp_path: Path, at: int
) -> None:
    kills = KillAt(at)
    with pytest.raises(Killed):
        writer(tmp_path, step=kills)(raw(spark, b"a", b"b"), 0)
    assert kills.steps == ["staged", "noted", "moved", "committed"][: at + 1]
    again = writer(tmp_path)
    again(raw(spark, b"a", b"b"), 0)
    again(raw(spark, b"c", start=1), 1)
    assert rows(tmp_path) == Counter([(0, 0), (1, 0), (0, 1)])


def test_values_become_typed_columns_and_what_does_not_fit_goes_aside(spark: SparkSession, tmp_path: Path) -> None:
    values = {
        b'{"id": 1, "price": 2.5, "tags": ["x"], "at": {"city": "Pest"}, "more": 1}': None,
        b'{"id": null}': None,
        b"{}": None,
        None: None,
        b'{"id": "seven", "price": "dear"}': "does not fit: id is no BIGINT, price is no DOUBLE",
        b'{"tags": 5}': "does not fit: tags is no ARRAY<STRING>",
        b'{"id": 99999999999999999999}': "does not fit: id is no BIGINT",
        b'[{"id": 1}, {"id": 2}]': "not a JSON object",
        b"5": "not a JSON object",
        b"": "not JSON, or not one value",
        b'{"id": 1': "not JSON, or not one value",
        b'{"id": 1} {"id": 2}': "not JSON, or not one value",
        b'{"id": 1}, {"id": 2}': "not JSON, or not one value",
        b'{"id": 1, "tags": ["\xff"]}': "not UTF-8",
    }
    told: list[Written] = []
    writer(tmp_path, DDL, told=told)(raw(spark, *values), 0)
    good = sorted(ds.dataset(tmp_path, partitioning="hive").to_table().to_pylist(), key=lambda row: row["value"] or b"")
    assert [row["value"] for row in good] == [None, *sorted(one for one, error in values.items() if not error and one)]
    assert {key: good[1][key] for key in ("id", "price", "tags", "at")} == {
        "id": 1,
        "price": 2.5,
        "tags": ["x"],
        "at": {"city": "Pest"},
    }
    assert "error" not in good[0]
    bad = ds.dataset(tmp_path / BAD, partitioning="hive").to_table().to_pylist()
    assert {row["value"]: row["error"] for row in bad} == {one: error for one, error in values.items() if error}
    assert list(bad[0]) == [*(one for one in columns.OWN if one != "date"), "error", "date"]
    assert [(one.rows, one.bad) for one in told] == [(14, 10)]


def test_batches_that_are_all_good_all_bad_or_empty(spark: SparkSession, tmp_path: Path) -> None:
    told: list[Written] = []
    write = writer(tmp_path, DDL, told=told)
    write(raw(spark, b"{}", b"{}"), 0)
    assert not (tmp_path / BAD).exists()
    write(raw(spark, b"x", b"y", start=5), 1)
    write(raw(spark, b"x").limit(0), 2)
    assert [(one.rows, one.bad) for one in told] == [(2, 0), (2, 2), (0, 0)]
    assert (rows(tmp_path), rows(tmp_path / BAD)) == (Counter([(0, 0), (1, 0)]), Counter([(0, 5), (1, 5)]))


def test_times_that_no_calendar_has_get_no_day(spark: SparkSession, tmp_path: Path) -> None:
    source = raw(spark, b"a", b"b", b"c")
    moved = source.selectExpr(
        *(name for name in source.columns if name != "timestamp"),
        "CASE WHEN partition = 1 THEN timestamp_millis(1760000000000000L) WHEN offset = 0 THEN timestamp_millis(-1L) "
        "ELSE timestamp END AS timestamp",
    )
    writer(tmp_path)(moved, 0)
    assert sorted(file.parent.name for file in TopicFolder(tmp_path).files()) == [
        "date=2026-11-20",
        "date=__HIVE_DEFAULT_PARTITION__",
    ]
    assert spark.read.parquet(str(tmp_path)).where("date IS NULL").count() == 2


def test_a_schema_comes_from_words_or_a_file(spark: SparkSession, tmp_path: Path) -> None:
    plain = columns.read_schema("id BIGINT,\n  price DOUBLE")
    (tmp_path / "orders.ddl").write_text("id BIGINT,\n price DOUBLE\n")
    (tmp_path / "orders.json").write_text(plain.json())
    assert columns.read_schema(str(tmp_path / "orders.ddl")) == plain
    assert columns.read_schema(str(tmp_path / "orders.json")) == plain


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id BIGINTEGER", "neither columns such as"),
        ("{}", "neither columns such as"),
        ("/no/such/file.ddl", "neither columns such as"),
        ("id INT, offset BIGINT", "'offset' is the name of one of the lake's own columns"),
        ("Key STRING", "--json-prefix"),
        ("error STRING", "--json-prefix"),
        ("id INT, ID INT", "a name of its own"),
    ],
)
def test_a_schema_that_cannot_be_is_refused(spark: SparkSession, text: str, words: str) -> None:
    with pytest.raises(LakeError, match=words):
        columns.read_schema(text)


def test_a_prefix_makes_room_for_names_that_are_taken(spark: SparkSession, tmp_path: Path) -> None:
    schema = columns.read_schema("ts BIGINT, key STRING", "json_")
    made = columns.rows(raw(spark, b'{"ts": 5, "key": "k"}'), schema, "json_").collect()[0]
    assert (made.json_ts, made.json_key, made.key) == (5, "k", b"k")


def test_columns_may_be_added_but_not_change_their_type(spark: SparkSession) -> None:
    before = columns.read_schema("id BIGINT, price DOUBLE").json()
    columns.check_change(before, columns.read_schema("price DOUBLE, more STRING"))
    columns.check_change(None, columns.read_schema("id INT"))
    with pytest.raises(LakeError, match=r"'id' was \"long\" in this lake, and is \"integer\" now"):
        columns.check_change(before, columns.read_schema("id INT"))


def test_files_say_times_in_microseconds_and_utc(spark: SparkSession, tmp_path: Path) -> None:
    writer(tmp_path)(raw(spark, b"a"), 0)
    (file,) = TopicFolder(tmp_path).files()
    assert str(pq.read_schema(file).field("ts").type) == "timestamp[us, tz=UTC]"
    assert pq.read_metadata(file).row_group(0).column(0).compression == "ZSTD"
