"""What no healthy client writes must not be the end of the build: Spark's ANSI mode makes an error of each overflow."""

from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from ottla.pipeline.gold import build
from ottla.pipeline.lake import Lake
from ottla.pipeline.queries import ask
from tests.pipeline.generator import START_MS, Topic, World, write_silver
from tests.pipeline.gold.conftest import Built

MOST = 2**63 - 1


@pytest.mark.slow
def test_the_largest_and_the_least_offset(spark: SparkSession, tmp_path: Path) -> None:
    world = World(1200, np.random.default_rng(0))
    world.topics["t"] = Topic("t", np.full((1200, 2), 700))
    seconds = np.arange(30, 570, 60)
    most, least = [0, 10, 20, 30, 40, MOST, 0, MOST, 0], [10, 10, 10, 10, 10, -MOST - 1, MOST, -MOST - 1, -MOST - 1]
    for name, offsets in {"most": most, "least": least}.items():
        both = np.array([offsets, offsets], dtype=np.int64).T
        world.commits(name, "t", [0, 1], START_MS + seconds * 1000, both)
    world.event("least", START_MS + 5000, "rebalance_completed", 1, duration_ms=MOST)
    write_silver(tmp_path, world.silver(), "c1")
    build(spark, Lake(str(tmp_path)))
    built = Built(tmp_path, world)
    last = {row["group_id"]: row["lag_records"] for row in built.rows("lag_by_partition")}
    assert last == {"most": 700, "least": 700}
    found = {(row["group_id"], row["kind"]): row["evidence"] for row in built.rows("findings")}
    assert found["most", "rewound"].startswith("more than 2^63 records are read again")
    assert ("least", "oversized_barrier") in found
    repeated = {row["records_repeated"] for row in ask(built.lake, "rewinds").to_pylist()}
    assert repeated == {MOST, 10}
