"""Gold tables row by row, and the mistakes that were made once."""

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from ottla.pipeline.gold import Objectives, build
from ottla.pipeline.tables import GOLD, Table
from tests.pipeline.generator import START
from tests.pipeline.gold.conftest import OBJECTIVES, Built, Rows

Lag = Callable[..., Rows]


@pytest.mark.parametrize("table", GOLD, ids=lambda table: table.name)
def test_schemas_and_keys(built: Built, table: Table) -> None:
    files = built.lake.files(table.name)
    stored = pq.read_schema(files[0])
    assert [(one.name, one.type) for one in stored] == [(one.name, one.type) for one in table.arrow()][:-1]
    for cluster in ("c1", "c2", "c3"):
        keys = [tuple(row[name] for name in table.key) for row in built.rows(table.name, cluster)]
        assert len(keys) == len(set(keys)) and (keys or cluster == "c3")


def test_who_stands_before_the_first_sample_is_not_level(lag: Lag) -> None:
    """``greatest(0, NULL)`` is 0 in Spark."""
    last = lag("r-before", "c3")[-1]
    assert last["lag_records"] > 10_000 and last["lag_seconds_is_minimum"]
    assert last["lag_seconds"] == pytest.approx(1790, abs=10)


def test_the_time_of_a_record_tells_how_old_it_is(lag: Lag) -> None:
    """Of a group that stands before the first sample, as all do after a single run."""
    last = lag("r-aged", "c3")[-1]
    assert last["lag_records"] == lag("r-before", "c3")[-1]["lag_records"]
    assert not last["lag_seconds_is_minimum"]
    assert last["lag_seconds"] == pytest.approx(3600 + 1790, abs=10)


def test_who_stops_stays_in_the_table(lag: Lag) -> None:
    """A spine of minutes; else there would be rows only where somebody commits."""
    rows = lag("g-stop", partition=0)
    assert [row["minute"] for row in rows] == [START + timedelta(minutes=one) for one in range(30)]
    silent = rows[18:]
    assert {row["commits"] for row in silent} == {0}
    assert {row["last_commit_ts"] for row in silent} == {silent[0]["last_commit_ts"]}
    assert all(one["lag_records"] < two["lag_records"] for one, two in pairwise(silent))
    assert silent[-1]["lag_seconds"] == pytest.approx(13 * 60, abs=60)


def test_durations_are_counted_once(built: Built) -> None:
    """Joining rebalances to other rows before they are summed would multiply them; so would duplicated events."""
    storm = built.rows("rebalance_storms", group_id="g-storm")[0]
    assert (storm["rebalances"], storm["paused_ms"], storm["kind"]) == (30, 30 * 1870, "storm")
    assert [row["duration_ms"] for row in built.rows("rebalances", group_id="g-storm")] == [1870] * 31
    assert storm["paused_ms"] <= (storm["ended_at"] - storm["started_at"]) / timedelta(milliseconds=1)
    bare = built.rows("rebalance_storms", "c2", group_id="g-storm")[0]
    assert (bare["paused_ms"], bare["main_reason"], bare["suspect_client"]) == (None, None, "g-storm-c3")
    assert bare["rebalances"] == 30


def test_the_lag_of_who_reads_is_small(lag: Lag) -> None:
    rows = lag("g-plain0", partition=0)
    assert max(row["lag_seconds"] for row in rows) <= 40
    assert sum(row["consumed"] for row in rows[1:]) == rows[-1]["committed_offset"] - rows[0]["committed_offset"]
    assert sum(row["commits"] for row in rows) == pytest.approx(150, abs=2)
    assert {row["lag_seconds"] for row in lag("g-idle")} == {0.0}


def test_a_deleted_group_leaves(built: Built, lag: Lag) -> None:
    gone = START + timedelta(seconds=1800 * 0.4 + 30)
    assert len(lag("g-deleted")) == 3 * 12
    assert max(row["minute"] for row in lag("g-deleted")) < gone
    assert {row["departed"] for row in built.rows("member_sessions", group_id="g-deleted")} == {True}
    assert built.rows("partition_status", group_id="g-deleted") == []
    assert built.rows("lag_forecast", group_id="g-deleted") == []


def test_clusters_do_not_mix(built: Built, lag: Lag) -> None:
    """A group of the same name in another cluster, with commits of its own."""
    other = lag("g-plain0", "c3")
    assert {row["topic"] for row in other} == {"g-plain0-topic"} and {row["partition"] for row in other} == {0}
    assert {row["lag_records"] for row in other[1:]} != {row["lag_records"] for row in lag("g-plain0", partition=0)}
    columns = ("group_id", "partition", "minute", "lag_records", "lag_seconds")
    one, two = ([[row[name] for name in columns] for row in lag("g-rewind", cluster)] for cluster in ("c1", "c2"))
    assert one == two
    assert len(built.rows("rebalances", "c1")) == len(built.rows("rebalances", "c2"))


def test_commits_tell_how_long_work_stood_still(built: Built) -> None:
    """Also where no event does: a barrier of 95 s between commits that come every 12 s."""
    for cluster, took in (("c1", 95_000), ("c2", None)):
        rows = built.rows("rebalances", cluster, group_id="g-barrier")
        (barrier,) = [row for row in rows if row["prev_generation"] is not None]
        assert (barrier["duration_ms"], barrier["commit_gap_ms"]) == (took, 108_000)
        (run,) = built.rows("rebalance_runs", cluster, group_id="g-barrier")
        assert (run["rebalances"], run["kind"], run["commit_gap_ms"]) == (1, None, 108_000)
    usual = [row["commit_gap_ms"] for row in built.rows("rebalances", "c2", group_id="g-deploy")][1:]
    assert {one for one in usual if one is not None} == {12_000}


def test_owners_follow_each_other(built: Built) -> None:
    """A partition has one owner at a time, and none is told twice for staying."""
    rows = built.rows("partition_owners", group_id="g-deploy", partition=2)
    assert [one["until"] for one in rows[:-1]] == [two["since"] for two in rows[1:]] and rows[-1]["until"] is None
    assert all(one["member_id"] != two["member_id"] for one, two in pairwise(rows))
    assert len(rows) < len(built.rows("rebalances", group_id="g-deploy"))
    gone = built.rows("partition_owners", group_id="g-deleted")
    assert gone and all(row["until"] is not None for row in gone)


def test_generations_begin_anew_after_a_deletion(built: Built) -> None:
    rows = sorted(built.rows("rebalances", group_id="g-reborn"), key=lambda row: row["completed_at"])
    assert [(row["generation"], row["prev_generation"]) for row in rows] == [(1, None), (2, 1), (1, None)]
    assert [row["duration_ms"] for row in rows] == [1870] * 3
    assert [row["members_after"] for row in rows] == [3, 0, 3]
    assert rows[2]["since_prev_ms"] is None and rows[2]["generations_missing"] is None


def test_compacted_generations_are_counted(built: Built) -> None:
    rows = built.rows("rebalances", group_id="g-compacted")
    assert [(row["prev_generation"], row["generations_missing"]) for row in rows] == [(None, None), (3, 14), (18, 22)]


def test_a_static_member_that_comes_back_is_no_rebalance(built: Built) -> None:
    assert len(built.rows("rebalances", group_id="g-static")) == 1
    sessions = built.rows("member_sessions", group_id="g-static", client_id="g-static-c1")
    assert len(sessions) == 9 and [row["departed"] for row in sessions].count(False) == 1


def test_a_rolling_restart_is_none(built: Built) -> None:
    for cluster in ("c1", "c2"):
        row = built.rows("rebalance_storms", cluster, group_id="g-deploy")[0]
        assert (row["kind"], row["rebalances"], row["distinct_clients"]) == ("rolling_restart", 12, 6)
        assert row["suspect_client"] is None


def test_topics_without_samples_stay(lag: Lag) -> None:
    rows = lag("r-unsampled", "c3")
    assert len(rows) == 29
    assert {(row["lag_records"], row["lag_seconds"], row["log_end_offset"]) for row in rows} == {(None, None, None)}


def test_the_later_of_two_at_one_time_counts(lag: Lag) -> None:
    assert lag("r-twice", "c3")[-1]["committed_offset"] == 14_000


def test_burrows_rules(built: Built) -> None:
    stands = {row["group_id"]: row["status"] for row in built.rows("partition_status", "c3")}
    expected = {"ok": "OK", "warn": "WARN", "stall": "STALL", "rewind": "REWIND", "stop": "STOP", "level": "OK"}
    others = {"before": "OK", "aged": "OK", "unsampled": "OK", "once": "OK", "twice": "REWIND"}
    assert stands == {f"r-{name}": status for name, status in (expected | others).items()} | {"g-plain0": "WARN"}


def test_objectives(built: Built) -> None:
    worst = {row["group_id"]: row for row in built.rows("slo_breaches")}
    assert "g-batch" not in worst, "600 s"
    assert worst["g-slow"]["minutes"] > 24 and worst["g-slow"]["worst_lag_seconds"] > 500
    assert worst["g-burst"]["minutes"] >= 1
    assert "g-plain0" not in worst


def test_patterns_of_objectives() -> None:
    rows = Objectives(5, {"a*": 7, "b.c": 9}).rows()
    assert [(rank, seconds) for rank, _, seconds in rows] == [(0, 7.0), (1, 9.0), (2, 5.0)]
    assert rows[1][1].startswith("^") and r"b\.c" in rows[1][1] and rows[2][1] == ""
    with pytest.raises(ValueError, match=r"the objective of a\* must be 0 or more seconds, not -1"):
        Objectives(5, {"a*": -1}).rows()


def test_building_again_changes_nothing(spark: SparkSession, built: Built) -> None:
    """From a date on as well: what is not touched is there, and nothing is there twice."""
    before = {table.name: [built.rows(table.name, one) for one in ("c1", "c2", "c3")] for table in GOLD}
    stale = built.path / "gold/findings/date=2026-03-03"
    stale.mkdir()
    (stale / "old.parquet").write_bytes(next((built.path / "gold/findings").glob("date=*/*.parquet")).read_bytes())
    results = build(spark, built.lake, since=START.date(), objectives=OBJECTIVES)
    assert {table.name: [built.rows(table.name, one) for one in ("c1", "c2", "c3")] for table in GOLD} == before
    assert {one.table: one.rows for one in results} == {name: sum(map(len, rows)) for name, rows in before.items()}
