"""The lake's notes: what it is, who writes, which columns it has since when, and what changed since gold was built."""

import fcntl
import json
import multiprocessing
import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ottla.pipeline import tables, touched
from ottla.pipeline.lake import Lake, LakeError
from ottla.pipeline.vacuum import vacuum
from tests.pipeline.parquet import put

DAY = date(2026, 11, 22)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def sample(offset: int, day: date = DAY, **more: Any) -> dict[str, Any]:
    row = {
        "cluster_id": "c",
        "sample_ts": datetime(day.year, day.month, day.day, 1, tzinfo=UTC),
        "topic": "orders",
        "partition": 0,
        "log_start_offset": 0,
        "log_end_offset": offset,
    }
    return row | more


def put_samples(folder: str, rows: list[dict[str, Any]], day: date = DAY, *name: str, **more: Any) -> Path:
    return put(folder, "log_end_samples", rows, day, *name, **more)


def test_a_lake_is_of_one_cluster_and_format(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    assert lake.about() is None
    with pytest.raises(LakeError, match="--cluster-id"):
        lake.open(format="parquet", cluster_id=None)
    lake.open(format="parquet", cluster_id="c1")
    assert lake.open(format="parquet", cluster_id=None)["cluster_id"] == "c1"
    with pytest.raises(LakeError, match="of cluster 'c1', and this is 'c2'"):
        lake.open(format="parquet", cluster_id="c2")
    with pytest.raises(LakeError, match="of format parquet, not delta"):
        lake.open(format="delta", cluster_id="c1")


def test_a_later_lake_is_refused(lake: Lake) -> None:
    lake.open(format="parquet", cluster_id="c")
    lake.write("lake.json", lake.about() | {"version": tables.VERSION + 1})  # type: ignore[operator]
    with pytest.raises(
        LakeError, match=f"of version {tables.VERSION + 1}, and this ottla knows version {tables.VERSION}"
    ):
        lake.open(format="parquet", cluster_id="c")


@pytest.mark.parametrize("text", ["{", "[]", '{"version": "1"}'])
def test_a_note_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "lake.json").write_text(text)
    with pytest.raises(LakeError):
        Lake(str(tmp_path)).about()


def test_an_older_lake_gets_new_columns_as_null(spark: SparkSession, lake: Lake) -> None:
    """The change is noted with its date; files are left as they are."""
    about = lake.open(format="parquet", cluster_id="c")
    noted = about["tables"]["log_end_samples"]
    del noted["columns"]["log_start_offset"]
    lake.write("lake.json", about | {"version": 0})
    put_samples(lake.where("log_end_samples"), [sample(1)], without=("log_start_offset",))
    put_samples(lake.where("log_end_samples"), [sample(2)], DAY, "two")
    history = lake.open(format="parquet", cluster_id="c")["tables"]["log_end_samples"]["history"]
    assert [one.get("added") for one in history] == [None, ["log_start_offset"]]
    assert datetime.fromisoformat(history[1]["at"]).date() == datetime.now(UTC).date()
    assert lake.about()["version"] == tables.VERSION  # type: ignore[index]
    read = lake.read(spark, "log_end_samples")
    assert read.columns == [one.name for one in tables.LOG_END_SAMPLES.all_columns]
    assert sorted((row.log_end_offset, row.log_start_offset) for row in read.collect()) == [(1, None), (2, 0)]


def test_a_table_is_what_streams_and_backfills_wrote(spark: SparkSession, lake: Lake) -> None:
    assert lake.read(spark, "log_end_samples").count() == 0
    put_samples(lake.where("log_end_samples"), [sample(1)])
    put_samples(lake.backfilled("log_end_samples"), [sample(2, date(2026, 11, 21))], date(2026, 11, 21))
    read = lake.read(spark, "log_end_samples")
    assert sorted((row.log_end_offset, row.log_date.day) for row in read.collect()) == [(1, 22), (2, 21)]
    assert len(lake.files("log_end_samples")) == 2


def _hold(path: str, held: Any, go: Any) -> None:
    with Lake(path).writing("stream"):
        held.set()
        go.wait(30)


def test_only_one_writes(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    held, go = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(str(tmp_path), held, go))
    other.start()
    assert held.wait(30)
    with (
        pytest.raises(LakeError, match=rf"`ottla pipeline stream` \(process {other.pid}\) writes"),
        Lake(str(tmp_path)).writing("backfill"),
    ):
        raise AssertionError("two write")
    go.set()
    other.join(30)
    with Lake(str(tmp_path)).writing("backfill") as note:
        note(1)


def test_what_changed_since_gold_was_built(lake: Lake) -> None:
    assert not touched.look(lake, "120 s").anything
    put_samples(lake.where("log_end_samples"), [sample(1)])
    first = touched.look(lake, "120 s")
    assert (first.anything, first.since) == (True, None)
    touched.note(lake, first, None)
    assert not touched.look(lake, "120 s").anything
    put_samples(lake.where("log_end_samples"), [sample(2)], date(2026, 11, 23), "late")
    put_samples(lake.where("log_end_samples"), [sample(3)], date(2026, 11, 20), "later still")
    found = touched.look(lake, "120 s")
    assert (found.anything, found.since) == (True, date(2026, 11, 20))
    touched.note(lake, found, found.since)
    other = touched.look(lake, "60 s")
    assert (other.anything, other.since) == (True, None), "other objectives, other breaches"


def test_gold_of_a_few_days_leaves_the_others_to_be_built(lake: Lake) -> None:
    put_samples(lake.where("log_end_samples"), [sample(1)])
    touched.note(lake, touched.look(lake, "120 s"), DAY)
    assert touched.look(lake, "120 s").anything, "never built as a whole"
    touched.note(lake, touched.look(lake, "120 s"), None)
    put_samples(lake.where("log_end_samples"), [sample(2)], date(2026, 11, 20), "late")
    put_samples(lake.where("log_end_samples"), [sample(3)], DAY, "new")
    touched.note(lake, touched.look(lake, "120 s"), DAY)
    found = touched.look(lake, "120 s")
    assert (found.anything, found.since) == (True, date(2026, 11, 20)), "the day before it is still to be built"
    touched.note(lake, touched.look(lake, "60 s"), DAY)
    assert touched.look(lake, "60 s").since is None, "other objectives are of all days"
    touched.note(lake, touched.look(lake, "60 s"), None)
    assert not touched.look(lake, "60 s").anything


def test_gold_is_built_by_one_at_a_time_and_beside_a_stream(lake: Lake) -> None:
    with (
        lake.writing("stream"),
        lake.building(),
        pytest.raises(LakeError, match=r"`ottla pipeline gold` \(process"),
        lake.building(),
    ):
        raise AssertionError("two build")


def test_who_asks_whether_gold_is_built_keeps_nobody_from_building(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds the lock while it looks, and lets it go in a moment."""
    from ottla.pipeline import lake as module

    with lake.building():
        assert lake.is_building()
    with (tmp_path / ".builder").open() as looks:
        fcntl.flock(looks, fcntl.LOCK_SH)
        monkeypatch.setattr(module.time, "sleep", lambda seconds: looks.close())
        with lake.building():
            assert looks.closed
    assert not lake.is_building()


def test_another_process_with_the_number_of_a_java_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not waited for; the very Java that was noted is."""
    from ottla.pipeline import lake as module

    monkeypatch.setattr(module, "_is_java", lambda pid: True)
    monkeypatch.setattr(module, "_PATIENCE_S", 0.0)
    lake, here = Lake(str(tmp_path)), os.getpid()
    with lake.writing("stream") as note:
        note(here)
    with pytest.raises(LakeError, match=f"process {here}"), lake.writing("stream"):
        raise AssertionError("two write")
    noted = json.loads((tmp_path / ".writer").read_text())
    (tmp_path / ".writer").write_text(json.dumps(noted | {"jvm_began": "another boot 1"}))
    with lake.writing("stream"):
        pass


def test_what_killed_tasks_left_is_removed(lake: Lake) -> None:
    folder = lake.where("log_end_samples")
    kept, orphan = put_samples(folder, [sample(1)]), put_samples(folder, [sample(1)], DAY, "orphan")
    entry = {"path": f"file://{kept}", "size": 1, "isDir": False, "modificationTime": 1, "action": "add"}
    (Path(folder) / "_spark_metadata").mkdir()
    (Path(folder) / "_spark_metadata" / "0").write_text("v1\n" + json.dumps(entry))
    assert lake.files("log_end_samples") == [str(kept)]
    assert vacuum(lake)["log_end_samples"].files == 1
    assert (kept.exists(), orphan.exists()) == (True, False)
    assert vacuum(lake)["log_end_samples"].files == 0
