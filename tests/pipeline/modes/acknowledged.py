"""A broker whose groups commit and rebalance without an end, and a pipeline that is killed meanwhile."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import SparkSession

from ottla.clients import Consumer, OffsetAndMetadata, TopicPartition
from ottla.pipeline import silver
from ottla.pipeline.cluster import look
from ottla.pipeline.codec import Chunk, decode
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


class Commits:
    """Members of a group that commit one offset after the other, and now and then leave and join again.

    Attributes:
        acknowledged: what the broker said yes to: (group, topic, partition, offset), each of them once.
    """

    def __init__(self, bootstrap: str, groups: tuple[str, ...]) -> None:
        self._bootstrap = bootstrap
        self._groups = groups
        self._ending = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.acknowledged: list[tuple[str, str, int, int]] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        self._thread.join(60)
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        async def main() -> None:
            await asyncio.gather(*(self._member(group) for group in self._groups))

        try:
            asyncio.run(main())
        except BaseException as error:
            self._failed = error

    async def _member(self, group: str) -> None:
        offset = 0
        while not self._ending.is_set():
            async with Consumer(
                TOPIC,
                bootstrap_servers=self._bootstrap,
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="latest",
            ) as consumer:
                while not consumer.assignment():
                    await consumer.getmany(timeout_ms=10)
                for _ in range(60):
                    place = TopicPartition(TOPIC, offset % PARTITIONS)
                    await consumer.commit({place: OffsetAndMetadata(offset, "")})
                    self.acknowledged.append((group, TOPIC, place.partition, offset))
                    offset += 1
                    await asyncio.sleep(0.01)  # a hundred a second


class Process:
    """A command of ``ottla`` in a process of its own; what it says goes to a file in a folder."""

    def __init__(self, name: str, folder: Path, *arguments: str) -> None:
        self._log = folder / f"{name}-{time.monotonic_ns()}.txt"
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "ottla.cli", *name.split(), *arguments]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        """Driver and JVM at once, with SIGKILL."""
        jvms = children(self.process.pid)
        for pid in (self.process.pid, *jvms):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(30)

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

    @property
    def batches(self) -> int:
        """How many the tables of the lake have had together."""
        return sum(1 for _ in self.lake.glob("checkpoints/*/commits/[0-9]*"))


def children(pid: int) -> list[int]:
    """All processes below one."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            direct = [int(one) for one in task.read_text().split()]
        except OSError:
            continue
        for one in direct:
            found += [one, *children(one)]
    return found


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
                commits.update(_commits(chunk))
                generations.update(_generations(chunk))
    finally:
        logs.close()
    return commits, generations


def _commits(chunk: Chunk) -> list[Any]:
    rows = decode("commits", chunk).to_pylist()
    return [(r["log_partition"], r["log_offset"], r["group_id"], r["partition"], r["committed_offset"]) for r in rows]


def _generations(chunk: Chunk) -> list[Any]:
    rows = decode("groups", chunk).to_pylist()
    return [(r["log_partition"], r["log_offset"], r["group_id"], r["generation"]) for r in rows]


def in_lake(lake: Path, table: str, *columns: str) -> Counter[Any]:
    """The rows of a table, as Arrow reads them, and how often each is there."""
    rows = dataset(Lake(str(lake)).where(table), TABLES[table]).to_table(columns=list(columns)).to_pylist()
    return Counter(tuple(row[name] for name in columns) for row in rows)


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
