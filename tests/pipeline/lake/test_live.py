"""A topic of a live broker into a folder, again and again, exactly once."""

import asyncio
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from ottla.clients import Admin, Producer
from ottla.pipeline.running import watch
from ottla.pipeline.topic_lake import LakeError, LakeSettings, Written, start
from ottla.pipeline.topic_lake.folder import BAD, TopicFolder
from ottla.testing import Broker
from tests.pipeline.lake.lakes import rows
from tests.pipeline.source.reading import transact

pytestmark = pytest.mark.e2e
DDL = "id BIGINT, name STRING"


async def _fill(bootstrap: str, first: int, count: int) -> None:
    async with Producer(bootstrap_servers=bootstrap, compression_type="zstd") as producer:
        for n in range(first, first + count):
            value = None if n % 10 == 9 else b"no json" if n % 10 == 8 else b'{"id": %d, "name": "n%d"}' % (n, n)
            await producer.send("orders", value, key=b"k%d" % n, partition=n % 3, headers=[("n", b"%d" % n)])
    # What is aborted is not there.
    transact(bootstrap, "t", "orders", end="abort", records=1)


async def _progress(bootstrap: str) -> int:
    async with Admin(bootstrap_servers=bootstrap) as admin:
        return sum(one.offset for one in (await admin.list_group_offsets("lake-watch")).values())


def run(spark: SparkSession, settings: LakeSettings) -> list[Written]:
    told: list[Written] = []
    with start(spark, [settings], told.append) as (query,):
        watch({"orders": query}, lambda seconds: query.awaitTermination(seconds) or False, lambda progress: None)
    return told


def test_runs_one_after_the_other_write_every_record_once(spark: SparkSession, tmp_path: Path) -> None:
    with Broker(topics={"orders": 3}) as broker:
        where = broker.bootstrap_servers
        asyncio.run(_fill(where, 0, 100))
        options = {
            "kafka.bootstrap.servers": where,
            "isolation": "read_committed",
            "maxOffsetsPerTrigger": "60",
            "group": "lake-watch",
        }
        settings = LakeSettings("orders", str(tmp_path / "my orders"), options, json_schema=DDL)
        first = run(spark, settings)
        asyncio.run(_fill(where, 100, 50))
        second = run(spark, settings)
        assert run(spark, settings) == []
        progress = asyncio.run(_progress(where))
    assert len(first) > 1, "admission control makes several batches"
    assert [sum(one.rows for one in each) for each in (first, second)] == [100, 50]
    assert 0 < progress <= 100 + 50 + 4, "the group follows, a batch behind"
    good, bad = rows(tmp_path / "my orders"), rows(tmp_path / "my orders" / BAD)
    assert set((good + bad).values()) == {1}
    assert (sum(good.values()), sum(bad.values())) == (135, 15)
    kept = ds.dataset(tmp_path / "my orders", partitioning="hive").to_table().to_pylist()
    for row in kept:
        n = int(row["key"][1:])
        assert (row["partition"], row["headers"]) == (n % 3, [{"key": "n", "value": b"%d" % n}])
        assert (row["id"], row["name"]) == ((None, None) if row["value"] is None else (n, f"n{n}"))
    assert Counter(
        row["error"] for row in ds.dataset(tmp_path / "my orders" / BAD).to_table(["error"]).to_pylist()
    ) == {"not JSON, or not one value": 15}
    _refusals(spark, settings, tmp_path)


def _refusals(spark: SparkSession, settings: LakeSettings, tmp_path: Path) -> None:
    """What would write rows twice, or of something else, is refused before a query starts."""
    other = settings._replace(topic="payments")
    with pytest.raises(LakeError, match="holds topic 'orders', not 'payments'"), start(spark, [other]):
        pass
    changed = settings._replace(json_schema="id STRING")
    with pytest.raises(LakeError, match='was "long" in this lake'), start(spark, [changed]):
        pass
    folder = TopicFolder(settings.folder)
    with folder.only("writer"), pytest.raises(LakeError, match="another writer"), start(spark, [settings]):
        pass
    folder.checkpoint.rename(tmp_path / "lost")
    with pytest.raises(LakeError, match=r"its checkpoint .* is gone"), start(spark, [settings]):
        pass
