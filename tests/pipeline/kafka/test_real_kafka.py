"""The pipeline on a real Apache Kafka with its stock Java consumer: the same tables come out.

Needs Java, and Kafka's jars (or Maven, to fetch them).
"""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from ottla.pipeline.lake import Lake
from ottla.pipeline.queries import ask
from ottla.pipeline.tables import GOLD, SILVER, TABLES
from tests.differential.real_kafka import RealKafka, skip_without_kafka
from tests.interop.suite import NotAvailable
from tests.pipeline.kafka.program import SETTINGS, Truth, churn

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

CHURNS = 3
NEXT = "next"
"""The group of KIP-848."""


class Run(NamedTuple):
    """What was read over TCP into one lake, and from the files of the same broker into another."""

    truth: Truth
    lake: Lake
    of_files: Lake
    said: str
    data: Path


def ottla(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli", "pipeline", *words, "--master", "local[2]", "--driver-memory", "1g"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    place = tmp_path_factory.mktemp("kafka")
    skip_without_kafka()
    with RealKafka(SETTINGS) as kafka:
        try:
            truth = churn(kafka, place / "classes", CHURNS)
        except NotAvailable as missing:
            pytest.skip(f"the Java consumers cannot be compiled: {missing}")
        said = ottla("available-now", "-b", f"127.0.0.1:{kafka.port}", "--lake", str(place / "lake"))
        ottla("backfill", "--log-dir", str(kafka.data), "--lake", str(place / "files"))
        said += ottla("gold", "--lake", str(place / "lake"))
        yield Run(truth, Lake(str(place / "lake")), Lake(str(place / "files")), said, kafka.data)


def rows(spark: SparkSession, lake: Lake, table: str) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in lake.read(spark, table).collect()]


def test_every_commit_is_there_once_and_no_other(spark: SparkSession, run: Run) -> None:
    found = [row for row in rows(spark, run.lake, "offset_commits") if not row["is_tombstone"]]
    kept = Counter((row["group_id"], row["topic"], row["partition"], row["committed_offset"]) for row in found)
    assert kept == run.truth.commits, "those of aborted transactions are left out, those of committed ones are not"
    assert len({(row["log_partition"], row["log_offset"]) for row in found}) == len(found)
    assert {row["value_version"] for row in found} <= {3, 4}
    assert {row["metadata"] for row in found if row["group_id"] == "alone"} == {"by hand"}


def test_the_last_commits_are_those_that_the_admin_client_names(spark: SparkSession, run: Run) -> None:
    last: dict[tuple[str, str, int], tuple[int, int]] = {}
    for row in rows(spark, run.lake, "offset_commits"):
        place = row["group_id"], row["topic"], row["partition"]
        if not row["is_tombstone"] and row["log_offset"] >= last.get(place, (-1, -1))[0]:
            last[place] = row["log_offset"], row["committed_offset"]
    assert {place: offset for place, (_, offset) in last.items()} == run.truth.finals


def test_deleted_groups_leave_their_tombstones(spark: SparkSession, run: Run) -> None:
    gone = [row for row in rows(spark, run.lake, "offset_commits") if row["is_tombstone"]]
    assert [(row["group_id"], row["partition"], row["committed_offset"]) for row in gone] == [("alone", 2, None)]


def test_every_generation_is_there_as_its_members_saw_it(spark: SparkSession, run: Run) -> None:
    found = {
        (row["group_id"], row["generation"], member["member_id"]): (
            member["client_id"],
            tuple(sorted(place["partition"] for place in member["assigned"])),
        )
        for row in rows(spark, run.lake, "group_generations")
        for member in row["members"] or []
    }
    told = {
        (one.group, one.generation, one.member): (one.client, one.assigned)
        for one in run.truth.generations
        if one.group != NEXT
    }
    assert len(told) > 2 * CHURNS
    assert found == told


def test_generations_have_no_gap_and_count_once(spark: SparkSession, run: Run) -> None:
    kept = sorted(
        (row["group_id"], row["generation"])
        for row in rows(spark, run.lake, "group_generations")
        if row["group_id"] in ("classic", "static") and row["generation"]
    )
    # One to join, one for the second, two for each that comes and goes, two for those who leave.
    assert kept == [("classic", n) for n in range(1, 5 + 2 * CHURNS)] + [("static", n) for n in range(1, 9)]


def test_groups_of_kip_848_have_their_commits_and_their_changes(spark: SparkSession, run: Run) -> None:
    assert NEXT in {row["group_id"] for row in rows(spark, run.lake, "offset_commits")}
    assert NEXT not in {row["group_id"] for row in rows(spark, run.lake, "group_generations")}
    changes = rows(spark, run.lake, "consumer_group_changes")
    assert {row["group_id"] for row in changes} == {NEXT}
    assert {row["record"] for row in changes} >= {"group_epoch", "member", "target_epoch", "target", "assignment"}
    assert rows(spark, run.lake, "quarantine") == []


def test_what_cannot_be_known_is_said(spark: SparkSession, run: Run) -> None:
    assert "There is no __ottla_group_events" in run.said
    assert rows(spark, run.lake, "group_events") == []


def test_files_give_what_the_broker_gives(spark: SparkSession, run: Run) -> None:
    for table in ("offset_commits", "group_generations", "consumer_group_changes", "quarantine"):
        kept = [TABLES[table].key, [column.name for column in TABLES[table].columns]]
        by_tcp, by_file = (
            sorted(map(str, lake.read(spark, table).select(*kept[1]).collect())) for lake in (run.lake, run.of_files)
        )
        assert by_tcp == by_file, table
        assert by_tcp


def test_tables_have_the_schemas_that_they_have_from_ottla(spark: SparkSession, run: Run) -> None:
    for table in (*SILVER, *GOLD):
        kept = run.lake.read(spark, table.name)
        expected = spark.createDataFrame([], table.ddl()).dtypes
        assert sorted(kept.dtypes) == sorted(expected), table.name


def test_gold_tells_who_came_and_went_and_leaves_out_what_nobody_knows(spark: SparkSession, run: Run) -> None:
    found = [row for row in rows(spark, run.lake, "rebalances") if row["group_id"] == "classic"]
    assert {row["generation"] for row in found} >= set(range(2, 5 + 2 * CHURNS))
    assert {(row["duration_ms"], row["reason"]) for row in found} == {(None, None)}
    blamed = {one.member: one.client for one in run.truth.generations}
    by_generation = {row["generation"]: blamed.get(row["trigger_member"]) for row in found}
    assert [by_generation[n] for n in range(3, 3 + 2 * CHURNS)] == ["flapper"] * 2 * CHURNS
    owners = {
        (row["generation"], row["client_id"], row["partition"])
        for row in rows(spark, run.lake, "group_members")
        if row["group_id"] == "classic" and row["partition"] is not None
    }
    told = {(one.generation, one.client, place) for one in run.truth.generations if one.group == "classic" for place in one.assigned}  # fmt: skip  # noqa: E501
    assert owners == told


def test_gold_finds_the_storm(spark: SparkSession, run: Run) -> None:
    storms = {row["group_id"]: row for row in rows(spark, run.lake, "rebalance_storms")}
    assert storms["classic"]["suspect_client"] == "flapper"
    assert storms["classic"]["main_reason"] is None
    assert storms["classic"]["paused_ms"] is None


def test_rebalances_are_told_from_offsets_alone(run: Run) -> None:
    """When, how often, who, and for how long nothing was committed; what is not in such a log is said."""
    answer = ask(run.lake, "rebalances", group="classic").to_pylist()
    assert sum(row["rebalances"] for row in answer) >= 3 + 2 * CHURNS
    assert all(row["ended_at"] >= row["started_at"] and row["paused_ms"] is None for row in answer)
    assert "flapper" in {row["client"] for row in answer}
    assert max(row["commit_gap_ms"] for row in answer) > 0
    said = ottla("query", "rebalances", "--lake", run.lake.path)
    assert "classic" in said and "when a rebalance began, how long it took and why it came is not known" in said


def test_one_run_knows_how_old_unread_records_are(run: Run) -> None:
    behind = {row["group_id"]: row for row in ask(run.lake, "lag").to_pylist() if row["lag_records"]}
    assert "exactly-once" in behind
    assert all(row["lag_seconds"] > 0 and not row["lag_seconds_is_minimum"] for row in behind.values()), behind
