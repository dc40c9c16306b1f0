"""A broker whose groups commit and rebalance without an end, and a pipeline that is killed meanwhile."""

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyspark.sql import SparkSession

from ottla.clients import Consumer, OffsetAndMetadata, TopicPartition
from ottla.pipeline import silver
from ottla.pipeline.cluster import look
from ottla.pipeline.codec import decode
from ottla.pipeline.config import load
from ottla.pipeline.lake import Lake
from ottla.pipeline.parquet_files import dataset
from ottla.pipeline.running import watch
from ottla.pipeline.source.logs import Span
from ottla.pipeline.source.options import parse_options
from ottla.pipeline.source.rows import open_logs
from ottla.pipeline.tables import TABLES

# A JVM that lives for seconds is not worth the second compiler: a third of the processor's time of a run.
SHORT_LIVED = ("--spark-conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1")
PARTITIONS = 3
TOPIC = "orders"
COMMITS = ("log_partition", "log_offset", "group_id", "partition", "committed_offset")
GENERATIONS = ("log_partition", "log_offset", "group_id", "generation")


@contextmanager
def committing(bootstrap: str, groups: tuple[str, ...]) -> Iterator[list[tuple[str, str, int, int]]]:
    """Members that commit one offset after the other, and now and then leave and join again, while the block lasts.

    Gives what the broker said yes to: (group, topic, partition, offset), each of them once.
    """
    acknowledged: list[tuple[str, str, int, int]] = []
    ending = threading.Event()
    options = {"bootstrap_servers": bootstrap, "enable_auto_commit": False, "auto_offset_reset": "latest"}

    async def member(group: str) -> None:
        offset = 0
        while not ending.is_set():
            async with Consumer(TOPIC, group_id=group, **options) as consumer:
                while not consumer.assignment():
                    await consumer.getmany(timeout_ms=10)
                for _ in range(60):
                    place = TopicPartition(TOPIC, offset % PARTITIONS)
                    await consumer.commit({place: OffsetAndMetadata(offset, "")})
                    acknowledged.append((group, TOPIC, place.partition, offset))
                    offset += 1
                    await asyncio.sleep(0.01)  # a hundred a second

    async def main() -> None:
        await asyncio.gather(*map(member, groups))

    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(lambda: asyncio.run(main()))
        try:
            yield acknowledged
        finally:
            ending.set()
            running.result(60)


class Process:
    """A command of ``ottla`` in a process of its own; what it says goes to a file in a folder."""

    def __init__(self, name: str, folder: Path, *arguments: str) -> None:
        self._log = folder / f"{name}-{time.monotonic_ns()}.txt"
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "ottla.cli", *name.split(), *arguments]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        """Driver and JVM at once, with SIGKILL."""
        driver = psutil.Process(self.process.pid)
        for process in (driver, *driver.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait(30)

    def kill_after(self, batches: Callable[[], int], wanted: int, more_s: float) -> None:
        """Let it work until there are so many batches, and for some seconds more, and kill it."""
        deadline = time.monotonic() + 400
        while batches() < wanted:
            assert time.monotonic() < deadline, "no batch came to its end"
            self.breathe(0.02)
        self.breathe(more_s)
        self.kill()

    def breathe(self, seconds: float) -> None:
        """Let it work for a moment; it is an error if it ends."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            raise AssertionError(f"it ended with {self.process.wait(seconds)}: {self._log.read_text()}")

    def wait(self, timeout_s: float = 240) -> str:
        """Until its end; fails on another exit code than 0."""
        code = self.process.wait(timeout_s)
        said = self._log.read_text()
        assert code == 0, said
        return said


class Pipeline(Process):
    """`ottla pipeline stream`, or another mode."""

    def __init__(self, mode: str, lake: Path, *arguments: str) -> None:
        self.lake = lake
        super().__init__(f"pipeline {mode}", lake.parent, "--lake", str(lake), *arguments)

    def batches(self) -> int:
        """How many the tables of the lake have had together."""
        return sum(1 for _ in self.lake.glob("checkpoints/*/commits/[0-9]*"))


def broker_own(data_dir: Path) -> tuple[Counter[Any], Counter[Any]]:
    """What the broker's own log has, decoded without Spark: commits and generations by (partition, offset)."""
    options = parse_options({"path": str(data_dir), "decode": "commits"}, streaming=False)
    logs = open_logs(options)
    commits: Counter[Any] = Counter()
    generations: Counter[Any] = Counter()

    def broken(*what: Any) -> None:
        raise AssertionError(what)

    try:
        for topic in logs.topics(("__consumer_offsets",)).values():
            places = [TopicPartition(topic.name, one) for one in topic.partitions]
            spans = [Span(tp, one.start, one.end) for tp, one in logs.bounds(places).items()]
            for chunk in logs.chunks(spans, broken, broken):
                commits.update(_rows(decode("commits", chunk), COMMITS))
                generations.update(_rows(decode("groups", chunk), GENERATIONS))
    finally:
        logs.close()
    return commits, generations


def _rows(data: pa.Table | pa.RecordBatch, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns) for row in data.to_pylist()]


def in_lake(lake: Path, table: str, *columns: str) -> Counter[Any]:
    """The rows of a table, as Arrow reads them, and how often each is there."""
    return Counter(_rows(dataset(Lake(str(lake)).where(table), TABLES[table]).to_table(columns=list(columns)), columns))


def check_rows(lake: Path, data: Path) -> Counter[Any]:
    """Commits and generations are those of the broker's log, these and the samples once; gives the commits."""
    commits, generations = in_lake(lake, "offset_commits", *COMMITS), in_lake(lake, "group_generations", *GENERATIONS)
    assert (commits, generations) == broker_own(data)
    samples = in_lake(lake, "log_end_samples", "topic", "partition", "sample_ts")
    assert {*commits.values()} == {*generations.values()} == {*samples.values()} == {1}
    return commits


def opened(spark: SparkSession, lake: Path, **options: Any) -> silver.Work:
    """What `backfill.run` and `silver.start` take."""
    config = load(options={"lake": str(lake), "tasks": 2, **options})
    cluster = look(config)
    found = Lake(config.lake)
    cluster_id = found.open(format=config.format, cluster_id=cluster.cluster_id)["cluster_id"]
    return silver.Work(spark, found, config, cluster, cluster_id)


def follow(spark: SparkSession, lake: Path, **options: Any) -> None:
    """Read what is there now as streams, with the session of the tests."""
    with Lake(str(lake)).writing("available-now"):
        queries = silver.start(opened(spark, lake, **options), available_now=True)
        watch(queries, threading.Event().wait, lambda progress: None)
