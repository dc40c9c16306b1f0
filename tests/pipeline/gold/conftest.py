"""One lake of three clusters, built once: all behaviours with events, the same without, and rules one by one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from ottla.pipeline.gold import Objectives, build
from ottla.pipeline.lake import Lake
from ottla.pipeline.parquet_files import dataset
from ottla.pipeline.tables import TABLES
from tests.pipeline.generator import World, write_silver
from tests.pipeline.generator_groups import small
from tests.pipeline.generator_rules import record_times, rules

OBJECTIVES = Objectives(120, {"g-batch": 600, "g-s*": 60})
Rows = list[dict[str, Any]]


class Built(NamedTuple):
    """A lake with gold tables, and what is in it: ``c1`` and ``c2`` (without events) are of ``world``."""

    path: Path
    world: World

    @property
    def lake(self) -> Lake:
        return Lake(str(self.path))

    def rows(self, table: str, cluster: str = "c1", **values: Any) -> Rows:
        """Rows of a cluster with these values, in the order of their key."""
        found = dataset(self.lake.where(table), TABLES[table]).to_table().to_pylist()
        wanted = {"cluster_id": cluster, **values}
        kept = [row for row in found if all(row[name] == value for name, value in wanted.items())]
        return sorted(kept, key=lambda row: [(row[name] is not None, row[name]) for name in TABLES[table].key])


@pytest.fixture(scope="session")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Built:
    path, world = tmp_path_factory.mktemp("gold") / "lake", small()
    write_silver(path, world.silver(), "c1")
    write_silver(path, world.silver(events=False), "c2")
    write_silver(path, rules().silver() | {"record_times": record_times()}, "c3")
    build(spark, Lake(str(path)), objectives=OBJECTIVES)
    return Built(path, world)


@pytest.fixture
def lag(built: Built) -> Callable[..., Rows]:
    """Rows of ``lag_by_partition``."""
    return lambda group, cluster="c1", **values: built.rows("lag_by_partition", cluster, group_id=group, **values)
