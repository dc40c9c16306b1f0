"""All that was planted is found, and nothing else: with the event topic and without it."""

from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.pipeline.gold import EVENT_KINDS, KINDS, build, unknowable
from ottla.pipeline.lake import Lake
from ottla.pipeline.tables import GOLD
from tests.pipeline.generator import World, write_silver
from tests.pipeline.generator_groups import make
from tests.pipeline.gold.conftest import Built
from tests.pipeline.parquet import put


def found(built: Built, cluster: str) -> list[tuple[str, str]]:
    return sorted((row["group_id"], row["kind"]) for row in built.rows("findings", cluster))


def test_all_is_found_and_nothing_else(built: Built) -> None:
    assert len({kind for _, kind in built.world.planted}) == len(KINDS) == 11
    assert found(built, "c1") == sorted(built.world.planted)


def test_without_events(built: Built) -> None:
    known = [one for one in built.world.planted if one[1] not in EVENT_KINDS]
    assert found(built, "c2") == sorted(known)
    assert len(built.world.planted) - len(known) == 2


def test_what_cannot_be_known_is_said(built: Built, tmp_path: Path) -> None:
    assert unknowable(built.lake) == []
    write_silver(tmp_path, built.world.silver(events=False))
    assert unknowable(Lake(str(tmp_path))) == ["oversized_barrier", "zombie"]


@pytest.mark.parametrize("cluster", ["c1", "c2"])
def test_who_is_to_blame(built: Built, cluster: str) -> None:
    blamed = {
        (row["group_id"], row["kind"]): row["suspect"] for row in built.rows("findings", cluster) if row["suspect"]
    }
    hidden = EVENT_KINDS if cluster == "c2" else ()
    assert blamed == {one: who for one, who in built.world.suspects.items() if one[1] not in hidden}


def test_what_is_over_has_an_end(built: Built) -> None:
    lasting = {row["group_id"] for row in built.rows("findings") if row["ended_at"] is None}
    assert lasting == {"g-stop", "g-stall", "g-slow", "g-hot", "g-lost"}
    stopped = built.rows("findings", group_id="g-stop")[0]
    assert stopped["topic"] == "g-stop-topic" and stopped["partitions"] == 3
    assert stopped["evidence"].startswith("no commit for 13 min with ")


@pytest.mark.slow
def test_nothing_comes_of_nothing(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "silver/offset_commits", "offset_commits", [], date(2026, 3, 2))
    results = build(spark, Lake(str(tmp_path)))
    assert [one.rows for one in results] == [0] * len(GOLD)


@pytest.mark.slow
def test_two_hours_of_forty_groups_through_the_source(spark: SparkSession, tmp_path: Path) -> None:
    from ottla.pipeline import backfill
    from tests.pipeline.modes.acknowledged import opened

    world: World = make()
    logs, path = tmp_path / "logs", tmp_path / "lake"
    world.write_log_dir(logs)
    work = opened(spark, path, log_dir=str(logs), tasks=4, cluster_id="c1")
    lake, filled = work.lake, backfill.run(work)
    direct = world.silver()
    assert filled["offset_commits"].rows == len(direct["offset_commits"]) > 800_000
    assert filled["group_generations"].rows == len(direct["group_generations"])
    write_silver(path, {"log_end_samples": world.samples()})
    build(spark, lake)
    assert found(Built(path, world), "c1") == sorted(world.planted)
