"""Backfills: again and again without a row twice, and streams that go on where they end."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.clients import Consumer, OffsetAndMetadata, TopicPartition
from ottla.pipeline import backfill, silver
from ottla.pipeline.cluster import Cluster, Logs, NoCluster, look
from ottla.pipeline.config import FORMATS, Config, load
from ottla.pipeline.lake import Lake, LakeError
from ottla.testing.process import BrokerProcess
from tests.pipeline.modes.acknowledged import COMMITS, check_rows, follow, in_lake, opened


def commit(bootstrap: str, group: str, count: int) -> None:
    async def main() -> None:
        async with Consumer(
            "orders", bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
        ) as consumer:
            while not consumer.assignment():
                await consumer.getmany(timeout_ms=10)
            for offset in range(count):
                await consumer.commit({TopicPartition("orders", offset % 2): OffsetAndMetadata(offset, "")})

    asyncio.run(main())


@pytest.mark.slow
def test_again_and_then_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    data, lake = tmp_path / "data", tmp_path / "lake"
    with BrokerProcess(data, topics={"orders": 2}) as broker:
        live = {"bootstrap_server": broker.bootstrap_servers}
        commit(broker.bootstrap_servers, "first", 40)
        assert backfill.run(opened(spark, lake, **live))["offset_commits"].rows == 40
        commit(broker.bootstrap_servers, "second", 30)
        again = backfill.run(opened(spark, lake, **live))
        assert again["offset_commits"].rows == 70
        assert sum(in_lake(lake, "offset_commits", "log_offset").values()) == 70, "the union by key"
        commit(broker.bootstrap_servers, "third", 20)
        follow(spark, lake, **live)
        found = in_lake(lake, "offset_commits", *COMMITS)
        late = backfill.run(opened(spark, lake, **live))
        assert late["offset_commits"].rows == 70, "it ends where the stream began"
        broker.stop()
        assert check_rows(lake, data) == found
        from_files = tmp_path / "from files"
        backfill.run(opened(spark, from_files, log_dir=str(data)))
        assert in_lake(from_files, "offset_commits", *COMMITS) == found
        events = ("group_id", "ts", "event", "member_id", "generation", "duration_ms")
        assert in_lake(from_files, "group_events", *events) == in_lake(lake, "group_events", *events) != Counter()
        with pytest.raises(LakeError, match="and this is 'other'"):
            opened(spark, from_files, log_dir=str(data), cluster_id="other")


def test_an_unfinished_backfill_stands_before_a_stream(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.open(format="parquet", cluster_id="c")
    lake.note("backfills", offset_commits={"unfinished": True})
    with pytest.raises(LakeError, match="run `ottla pipeline backfill` again first"):
        silver.begin(lake, Config(), Cluster("c", {}), silver.FEEDS[0])


def test_a_checkpoint_that_is_gone(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.open(format="parquet", cluster_id="c")
    feed = silver.FEEDS[0]
    assert silver.begin(lake, Config(), Cluster("c", {}), feed) == {}
    (Path(lake.where(feed.table)) / "_spark_metadata").mkdir(parents=True)
    with pytest.raises(LakeError, match=r"The checkpoint .* is gone"):
        silver.begin(lake, Config(), Cluster("c", {}), feed)
    Path(lake.checkpoint(feed.table)).mkdir(parents=True)
    assert silver.begin(lake, Config(), Cluster("c", {}), feed) == {}


def test_a_day_that_was_taken_away_by_a_crash_is_put_back(tmp_path: Path) -> None:
    places = backfill.Places(Lake(str(tmp_path)), "offset_commits")
    day = places.replaced / "log_date=2026-11-22"
    day.mkdir(parents=True)
    (day / "rows.parquet").write_bytes(b"rows")
    places.mend()
    assert (places.target / day.name / "rows.parquet").read_bytes() == b"rows"
    assert not places.replaced.exists()


def test_what_was_read_stays_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By a backfill of files that have a partition or a topic less: a stream begins behind both."""
    lake, feed = Lake(str(tmp_path)), silver.FEEDS[0]
    lake.open(format="parquet", cluster_id="c")
    monkeypatch.setattr(backfill, "feeds", lambda config: [feed])
    monkeypatch.setattr(backfill, "_fill", lambda *_: backfill.Filled(0, []))
    for ends in ({0: 50, 1: 70}, {0: 40}, {}):
        topics = {feed.topic: Logs(dict.fromkeys(ends, 0), ends)} if ends else {}
        backfill.run(silver.Work(None, lake, Config(), Cluster("c", topics), "c"))  # type: ignore[arg-type]
    now = Cluster("c", {feed.topic: Logs({0: 0, 1: 0}, {0: 90, 1: 90})})
    assert silver.begin(lake, Config(), now, feed) == {0: 50, 1: 70}


def test_ends_are_sampled_before_commits_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Else every group would look as if it had stopped right before the sample."""
    lake, read = Lake(str(tmp_path)), []
    lake.open(format="parquet", cluster_id="c")
    commits = silver.FEEDS[0]

    def fill(_: object, feed: silver.Feed, ends: object, *more: object) -> object:
        read.append((feed.table, ends))
        return backfill.Filled(0, [])

    def at(end: int) -> Cluster:
        return Cluster("c", {commits.topic: Logs({0: 0}, {0: end})})

    monkeypatch.setattr(backfill, "_fill", fill)
    work = silver.Work(None, lake, Config(), at(5), "c")  # type: ignore[arg-type]
    found = backfill.run(work, again=lambda: at(9))
    assert read[0] == ("log_end_samples", None)
    assert ("offset_commits", {0: 9}) in read, "it reaches behind the samples"
    assert next(iter(found)) == "offset_commits"
    assert silver.samples_first(silver.FEEDS)[0].table == "log_end_samples"


def test_where_there_is_nothing(tmp_path: Path) -> None:
    with pytest.raises(NoCluster, match="where no logs are"):
        look(load(options={"log_dir": str(tmp_path)}))
    (tmp_path / "orders-0").mkdir()
    with pytest.raises(NoCluster, match="There is no __consumer_offsets in"):
        look(load(options={"log_dir": str(tmp_path)}))


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
def test_a_batch_that_spark_does_again(format: str, spark: SparkSession, tmp_path: Path) -> None:
    """The mark that a batch is done is lost, as if the driver had died right before it was written."""
    data, lake = tmp_path / "data", tmp_path / "lake"
    with BrokerProcess(data, topics={"orders": 2}) as broker:
        commit(broker.bootstrap_servers, "first", 30)
        following = {"bootstrap_server": broker.bootstrap_servers, "format": format, "max_offsets_per_trigger": 20}
        follow(spark, lake, **following)
        marks = [
            max(place.glob("[0-9]*"), key=lambda one: int(one.name)) for place in lake.glob("checkpoints/*/commits")
        ]
        assert len(marks) == len(silver.FEEDS) - 1
        for mark in marks:
            mark.unlink()
            mark.with_name(f".{mark.name}.crc").unlink()
        commit(broker.bootstrap_servers, "second", 10)
        follow(spark, lake, **following)
    assert sum(check_rows(lake, data).values()) == 40
