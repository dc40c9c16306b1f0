"""Driver and JVM are killed at random points while groups commit: every row is there once."""

import os
import random
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from ottla.pipeline import backfill
from ottla.pipeline.lake import Lake
from ottla.pipeline.running import stream_writer
from ottla.pipeline.tables import TABLES
from ottla.testing.process import BrokerProcess
from tests.pipeline.modes.acknowledged import (
    PARTITIONS,
    SHORT_LIVED,
    TOPIC,
    Pipeline,
    check_rows,
    committing,
    follow,
    in_lake,
    opened,
)

SEED = int(os.environ.get("OTTLA_SEED") or random.SystemRandom().randrange(1 << 30))
SMALL = ("--master", "local[2]", "--tasks", "2", *SHORT_LIVED)
GROUPS = ("billing", "shipping", "audit")


def torn(
    broker: BrokerProcess, lake: Path, kills: int, chance: random.Random, *more: str
) -> list[tuple[str, str, int, int]]:
    """Let the pipeline run and be killed so often, and then come to its end; gives what was acknowledged."""
    options = ("-b", broker.bootstrap_servers, *SMALL, "--driver-memory", "1g", *more)
    streaming = (*options, "--trigger", "200ms", "--max-offsets-per-trigger", "150")
    with committing(broker.bootstrap_servers, GROUPS) as acknowledged:
        for number in range(kills):
            stream = Pipeline("stream", lake, *streaming)
            before = stream.batches()
            # A batch at least is done, so that something is gained; then it dies at any point of the next ones.
            stream.kill_after(stream.batches, before + chance.randint(1, 9), chance.uniform(0, 1.5))
            print(f"kill {number + 1} of {kills}: {stream.batches() - before} batches done")
    return acknowledged


def finish(broker: BrokerProcess, lake: Path, *more: str) -> None:
    """Read the rest, in a process of its own."""
    Pipeline("available-now", lake, "-b", broker.bootstrap_servers, *SMALL, *more).wait()


def check(broker: BrokerProcess, data: Path, lake: Path, acknowledged: list[tuple[str, str, int, int]]) -> None:
    broker.stop()
    assert len(acknowledged) > 100
    found = check_rows(lake, data)
    assert Counter((group, of, offset) for _, _, group, of, offset in found) == Counter(
        (group, of, offset) for group, _, of, offset in acknowledged
    )
    assert not in_lake(lake, "quarantine", "error")


def run(tmp_path: Path, kills: int, *more: str, spark: SparkSession | None = None) -> Path:
    print(f"seed: OTTLA_SEED={SEED}")
    data, lake = tmp_path / "data", tmp_path / "lake"
    with BrokerProcess(data, topics={TOPIC: PARTITIONS}) as broker:
        acknowledged = torn(broker, lake, kills, random.Random(SEED), *more)
        if spark is None:
            finish(broker, lake, *more)
        else:
            follow(spark, lake, bootstrap_server=broker.bootstrap_servers)
        check(broker, data, lake, acknowledged)
    return lake


@pytest.mark.parametrize("scheme", ["", "file:"])
def test_a_kill_before_the_first_batch(scheme: str, tmp_path: Path, spark: SparkSession) -> None:
    """The file of the first batch's offsets was made and had no name yet. What was read later is not forgotten."""
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    for batch in (0, 1):
        (offsets / f".{batch}.0b5d.tmp").touch()
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        query = stream_writer(rows, "torn", f"{scheme}{tmp_path}", None).format("noop").start()
        query.awaitTermination()
        assert query.exception() is None
        assert (offsets / str(batch)).exists()


def test_one_kill(tmp_path: Path, spark: SparkSession) -> None:
    """And Spark sees the same rows as Arrow; files that nobody committed are removed by vacuum."""
    path = run(tmp_path, 1, spark=spark)
    lake = Lake(str(path))
    assert lake.read(spark, "offset_commits").count() == sum(in_lake(path, "offset_commits", "log_offset").values())
    Pipeline("vacuum", path).wait()
    folder = Path(lake.where("offset_commits"))
    everything = ds.dataset(sorted(str(file) for file in folder.glob("*=*/*.parquet"))).count_rows()
    assert everything == lake.read(spark, "offset_commits").count()
    from_files = tmp_path / "from files"
    backfill.run(opened(spark, from_files, log_dir=str(tmp_path / "data")))
    for table in ("offset_commits", "group_generations", "group_events"):
        columns = [one.name for one in TABLES[table].columns if not one.kind.startswith("ARRAY")]
        assert in_lake(from_files, table, *columns) == in_lake(path, table, *columns) != Counter(), table


@pytest.mark.slow
def test_ten_kills(tmp_path: Path) -> None:
    run(tmp_path, 10)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_kills_with_other_formats(format: str, tmp_path: Path) -> None:
    run(tmp_path, 2, "--format", format)
