"""Delta and Iceberg: a batch that comes twice counts once, and Spark reads back what was written."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ottla.pipeline import sinks
from ottla.pipeline.lake import Lake
from ottla.pipeline.tables import GROUP_GENERATIONS, QUARANTINE, TABLES, Table

FORMATS = ["delta", "iceberg"]
ADD: dict[str, Any] = {"delta": sinks.add_to_delta, "iceberg": sinks.add_to_iceberg}


def rows(table: Table, *offsets: int, day: int = 22) -> pa.Table:
    at = datetime(2026, 11, day, 12, tzinfo=UTC)
    known = {"cluster_id": "c", "log_partition": 3, "log_ts": at, "log_date": date(2026, 11, day)}
    member = {
        "member_id": "m",
        "topics": ["orders"],
        "subscription_version": 3,
        "assigned": [{"topic": "orders", "partition": 1}],
    }
    more = (
        {"group_id": "g", "members": [member], "value_version": 3} if table is GROUP_GENERATIONS else {"error": "odd"}
    )
    return pa.Table.from_pylist([known | more | {"log_offset": one} for one in offsets], table.arrow())


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("table", [QUARANTINE, GROUP_GENERATIONS], ids=lambda table: table.name)
def test_a_batch_that_comes_twice(format: str, table: Table, spark: SparkSession, tmp_path: Path) -> None:
    lake, add = Lake(str(tmp_path)), ADD[format]
    assert add(lake, table, lambda: rows(table, 1, 2), 0)
    assert not add(lake, table, lambda: rows(table, 1, 2), 0)
    assert not add(lake, table, lambda: rows(table), 1), "an empty batch needs no version"
    assert add(lake, table, lambda: rows(table, 3, day=23), 2)
    assert not add(lake, table, lambda: rows(table, 3, day=23), 2)
    assert not add(lake, table, lambda: rows(table, 1, 2), 0)
    read = lake.read(spark, table.name)
    assert read.columns == [one.name for one in table.all_columns]
    found = sorted((row.log_offset, row.log_date.day) for row in read.collect())
    assert found == [(1, 22), (2, 22), (3, 23)]
    if table is GROUP_GENERATIONS:
        member = read.first().members[0]  # type: ignore[union-attr]
        assert (member.subscription_version, member.topics, member.assigned[0].partition) == (3, ["orders"], 1)
        assert member.owned is None


def test_iceberg_streams_that_begin_together(tmp_path: Path) -> None:
    """Their first batches make one catalog, and a table each."""
    tables = [TABLES[name] for name in ("offset_commits", "group_generations", "log_end_samples", "quarantine")]
    for lake in [Lake(str(tmp_path / str(number))) for number in range(5)]:
        together = threading.Barrier(len(tables))

        def make(table: Table, lake: Lake = lake, together: threading.Barrier = together) -> str:
            together.wait()
            return str(sinks.iceberg_table(lake, table).name()[-1])

        with ThreadPoolExecutor(len(tables)) as threads:
            assert list(threads.map(make, tables)) == [table.name for table in tables]


@pytest.mark.parametrize("format", FORMATS)
def test_columns_that_are_new(format: str, spark: SparkSession, tmp_path: Path) -> None:
    """A table of an earlier version gets them with the next batch, and they are NULL before; the change is noted."""
    lake, older = Lake(str(tmp_path)), QUARANTINE._replace(columns=QUARANTINE.columns[:-1])
    ADD[format](lake, older, lambda: rows(QUARANTINE, 1).drop_columns(["value"]), 0)
    if format == "iceberg":
        stored = sinks.iceberg_table(lake, QUARANTINE)
        with stored.transaction() as changes:
            changes.set_properties({"ottla.schema.version": "0"})
    value = pa.array([b"x"], pa.binary())
    newer = rows(QUARANTINE, 2)
    newer = newer.set_column(newer.schema.get_field_index("value"), "value", value)
    ADD[format](lake, QUARANTINE, lambda: newer, 1)
    read = lake.read(spark, "quarantine")
    assert sorted((row.log_offset, row.value) for row in read.collect()) == [(1, None), (2, b"x")]


@pytest.mark.parametrize("format", FORMATS)
def test_a_package_that_is_missing(format: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(sinks, "find_spec", lambda name: None)
    with pytest.raises(sinks.NoPackage, match=rf"pip install 'ottla\[{format}\]'"):
        sinks.check(format)
    sinks.check("parquet")
