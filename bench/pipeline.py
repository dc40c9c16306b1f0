#!/usr/bin/env python3
"""Measure the data pipeline on Spark: decoding in the source, beside other ways to decode, and what surrounds it.

Logs of ``__consumer_offsets`` are made in a directory (`offset_logs.py`) and served by a process that does nothing else
(`fetch_server.py`), so that no broker is measured. What counts is CPU seconds, of the JVM and of the Python workers,
because a machine of two cores is rarely quiet. README.md next to this file says more.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import psutil  # type: ignore[import-untyped]
from offset_logs import group_name, make
from report import describe, rewrite_section

from ottla.pipeline import decode_offset_commit
from ottla.pipeline.codec.spark_sql import OFFSET_COMMITS
from ottla.pipeline.session import session
from ottla.protocol.internal_topics import OFFSETS_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HERE = Path(__file__).resolve().parent
ROW_SHARE = 10
"""One log partition in so many is decoded row by row: it takes that much longer."""
RATE, STREAM_TASKS, WARM_UP_TRIGGERS = 20_000, 4, 10
IN_SOURCE_GOAL, TO_PARQUET_GOAL = 1.0e6, 0.4e6
TRIGGER_GOAL_MS, PUSH_DOWN_GOAL = 500, 5
START_SECONDS = 60.0
FEW_TRIGGERS = 5


@dataclass(slots=True)
class Row:
    """One way to do it, measured several times.

    Attributes:
        goal: records per CPU second that are wanted; 0 if none are.
    """

    name: str
    records: int
    goal: float = 0
    wall_s: list[float] = field(default_factory=list)
    jvm_s: list[float] = field(default_factory=list)
    python_s: list[float] = field(default_factory=list)

    @property
    def per_core_second(self) -> float:
        """Records for each second of CPU, whosoever: median."""
        return self.records / statistics.median(a + b for a, b in zip(self.jvm_s, self.python_s, strict=True))


@dataclass(slots=True)
class Results:
    """All that was measured."""

    records: int
    bytes: int
    rows: list[Row]
    one_group_s: float
    all_groups_s: float
    triggers_ms: list[int]
    load: tuple[float, float]


def cpu_seconds() -> tuple[float, float]:
    """The CPU that the JVM and all Python processes below it have used so far."""
    jvm = python = 0.0
    for child in psutil.Process().children():
        if "java" not in child.name():
            continue  # the fetch server, which is not measured
        times = child.cpu_times()
        jvm += times.user + times.system
        for worker in child.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = worker.cpu_times()  # and what workers used that are gone
                python += times.user + times.system + times.children_user + times.children_system
    return jvm, python


def measure(row: Row, act: Callable[[], None]) -> None:
    """Do it once more."""
    before, began = cpu_seconds(), time.perf_counter()
    act()
    row.wall_s.append(time.perf_counter() - began)
    after = cpu_seconds()
    row.jvm_s.append(after[0] - before[0])
    row.python_s.append(after[1] - before[1])


@contextlib.contextmanager
def serving(logs: Path, rate: float = 0) -> Iterator[str]:
    """Serve the logs in a process of its own; gives its address."""
    command = [sys.executable, str(HERE / "fetch_server.py"), "--logs", str(logs), "--rate", str(rate)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], START_SECONDS)[0]:
            raise click.ClickException("the fetch server did not start")
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def by_row(key: bytes, value: bytes | None) -> tuple[Any, ...]:
    """A committed offset, read as one would write it by hand."""
    size = int.from_bytes(key[2:4], "big")
    group = key[4 : 4 + size].decode()
    at = 4 + size
    size = int.from_bytes(key[at : at + 2], "big")
    topic = key[at + 2 : at + 2 + size].decode()
    (partition,) = struct.unpack_from(">i", key, at + 2 + size)
    if value is None:
        return group, topic, partition, None, None, None, None
    value_version, offset, epoch = struct.unpack_from(">hqi", value)
    if value_version == 4:
        size, at = value[14] - 1, 15
    else:
        size, at = int.from_bytes(value[14:16], "big"), 16
    (commit_ms,) = struct.unpack_from(">q", value, at + size)
    return group, topic, partition, offset, epoch, value[at : at + size].decode(), commit_ms


ROW_TYPE = (
    "group_id STRING, topic STRING, partition INT, committed_offset BIGINT, leader_epoch INT, metadata STRING, "
    "commit_ms BIGINT"
)


def to_nothing(frame: DataFrame) -> None:
    """Take all rows and forget them."""
    frame.write.format("noop").mode("overwrite").save()


class Bench:
    """A session, the logs, and where things are written."""

    def __init__(self, spark: SparkSession, logs: Path, address: str, directory: Path) -> None:
        self.spark = spark
        self.logs = logs
        self.address = address
        self.parquet = directory / "raw"
        self.some_parquet = directory / "raw-some"
        self.out = directory / "out"

    def read(self, decode: str, *, tcp: bool = False) -> DataFrame:
        """The source, from files or over TCP."""
        reader = self.spark.read.format("ottla").option("decode", decode)
        if decode == "raw":
            reader = reader.option("subscribe", OFFSETS_TOPIC)
        where = ("kafka.bootstrap.servers", self.address) if tcp else ("path", str(self.logs))
        return reader.option(*where).load()

    def prepare(self) -> tuple[int, int]:
        """Write the raw records as Parquet, all and some; returns how many commits there are in each."""
        raw = self.read("raw").where("substring(key, 1, 2) <= X'0001'")
        raw.write.parquet(str(self.parquet))
        stored = self.spark.read.parquet(str(self.parquet))
        stored.where(f"partition % {ROW_SHARE} = 0").write.parquet(str(self.some_parquet))
        return stored.count(), self.spark.read.parquet(str(self.some_parquet)).count()

    def to_parquet(self, frame: DataFrame) -> None:
        """Write with zstd, as the lake does."""
        frame.write.mode("overwrite").parquet(str(self.out))

    def stored(self, path: Path) -> DataFrame:
        """Raw records that were stored, under the name that SQL knows."""
        frame = self.spark.read.parquet(str(path))
        frame.createOrReplaceTempView("records")
        return frame

    def ways(self, records: int, commits: int, some: int) -> list[tuple[Row, Callable[[], None]]]:
        """Everything that is measured for its throughput."""
        from pyspark.sql.functions import udf

        pickled = udf(by_row, ROW_TYPE, useArrow=False)

        def built_in() -> None:
            self.stored(self.parquet)
            to_nothing(self.spark.sql(OFFSET_COMMITS.format(records="records")))

        def row_by_row() -> None:
            to_nothing(self.stored(self.some_parquet).select(pickled("key", "value").alias("c")).select("c.*"))

        def arrow() -> None:
            decoded = decode_offset_commit("key", "value").alias("c")
            to_nothing(self.stored(self.parquet).select("partition", "offset", decoded).select("c.*"))

        return [
            (Row("source, log directory, commits", records, IN_SOURCE_GOAL), lambda: to_nothing(self.read("commits"))),
            (Row("source, TCP, commits", records, IN_SOURCE_GOAL), lambda: to_nothing(self.read("commits", tcp=True))),
            (Row("source, log directory, raw", records), lambda: to_nothing(self.read("raw"))),
            (
                Row("source, log directory, commits → Parquet zstd", records, TO_PARQUET_GOAL),
                lambda: self.to_parquet(self.read("commits")),
            ),
            (
                Row("source, TCP, commits → Parquet zstd", records, TO_PARQUET_GOAL),
                lambda: self.to_parquet(self.read("commits", tcp=True)),
            ),
            (Row("Parquet, raw, read only", commits), lambda: to_nothing(self.stored(self.parquet))),
            (Row("Parquet, `decode_offset_commit` (Arrow)", commits), arrow),
            (Row("Parquet, Spark's built-in expressions", commits), built_in),
            (Row("Parquet, Python UDF row by row", some), row_by_row),
        ]

    def of_one_group(self, *, pushed: bool) -> float:
        """Seconds to count the commits of one group; not pushed down if the source cannot see which."""
        column = "group_id" if pushed else "concat(group_id, '')"
        began = time.perf_counter()
        if not self.read("commits").where(f"{column} = '{group_name(42)}'").count():
            raise click.ClickException("the group has no commits")
        return time.perf_counter() - began

    def triggers(self, seconds: int) -> list[int]:
        """Milliseconds of each micro-batch while records come at `RATE`, the first ones left out."""
        with serving(self.logs, RATE) as address, tempfile.TemporaryDirectory() as checkpoint:
            reader = (
                self.spark.readStream.format("ottla").option("decode", "commits").option("tasks", str(STREAM_TASKS))
            )
            stream = reader.option("kafka.bootstrap.servers", address).load()
            query = stream.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
            try:
                query.awaitTermination(seconds)
                progress: list[Any] = list(query.recentProgress)
            finally:
                query.stop()
        found = [json.loads(one.json) if hasattr(one, "json") else one for one in progress]
        return [one["durationMs"]["triggerExecution"] for one in found if one["numInputRows"]][WARM_UP_TRIGGERS:]


def cells(results: Results) -> list[tuple[str, ...]]:
    """The table."""
    table: list[tuple[str, ...]] = [
        ("way", "records", "wall s", "CPU s, JVM", "CPU s, Python", "M records per core-second", "goal")
    ]
    for row in results.rows:
        figures = [f"{statistics.median(side):.2f}" for side in (row.wall_s, row.jvm_s, row.python_s)]
        goal = f"≥ {row.goal / 1e6:.1f}: {'yes' if row.per_core_second >= row.goal else 'no'}" if row.goal else ""
        table.append((row.name, f"{row.records:,}", *figures, f"{row.per_core_second / 1e6:.3f}", goal))
    return table


def _verdicts(results: Results) -> list[str]:
    times = results.all_groups_s / results.one_group_s
    reached = "yes" if times >= PUSH_DOWN_GOAL else "no"
    lines = [
        f"one group, counted: {results.one_group_s:.2f} s with its log partition pushed down, "
        f"{results.all_groups_s:.2f} s without: {times:.1f} times (goal {PUSH_DOWN_GOAL}: {reached})"
    ]
    triggers = sorted(results.triggers_ms)
    if len(triggers) > FEW_TRIGGERS:
        p50, p95 = statistics.median(triggers), triggers[int(len(triggers) * 0.95)]
        lines.append(
            f"micro-batches at {RATE:,} records a second in {STREAM_TASKS} tasks: p50 {p50:.0f} ms, p95 {p95} ms of "
            f"{len(triggers)} (goal p50 ≤ {TRIGGER_GOAL_MS} ms: {'yes' if p50 <= TRIGGER_GOAL_MS else 'no'})"
        )
    else:
        lines.append(f"micro-batches: {len(triggers)} behind the first {WARM_UP_TRIGGERS}, too few to say anything")
    return lines


def as_markdown(results: Results, about: dict[str, str]) -> str:
    """A section of RESULTS.md."""
    table = cells(results)
    about["logs"] = f"{results.records:,} records of __consumer_offsets in 50 logs, {results.bytes / 1e6:.0f} MB"
    about["load"] = f"of the machine (1 minute): {results.load[0]:.1f} before, {results.load[1]:.1f} after"
    lines = ["## The data pipeline", "", *(f"- {key}: {value}" for key, value in about.items()), ""]
    lines += ["| " + " | ".join(table[0]) + " |", "| ---" + " | ---:" * (len(table[0]) - 2) + " | --- |"]
    lines += ["| " + " | ".join(row) + " |" for row in table[1:]]
    return "\n".join([*lines, "", *(f"- {line}" for line in _verdicts(results))])


def run(spark: SparkSession, logs: Path, directory: Path, rounds: int, stream_seconds: int, only: str = "") -> Results:
    """Measure everything."""
    load = os.getloadavg()[0]
    size = sum(path.stat().st_size for path in logs.rglob("*.log"))
    with serving(logs) as address:
        bench = Bench(spark, logs, address, directory)
        commits, some = bench.prepare()
        for tcp in (False, True):
            if (found := bench.read("commits", tcp=tcp).count()) != commits:
                raise click.ClickException(f"{found:,} of {commits:,} commits were read {'over TCP' if tcp else ''}")
        records = bench.read("raw").count()
        ways = [way for way in bench.ways(records, commits, some) if only in way[0].name]
        for _, act in ways:
            act()
        for number in range(rounds):
            for row, act in ways:
                measure(row, act)
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
        one, all_of_them = (
            statistics.median(bench.of_one_group(pushed=pushed) for _ in range(rounds)) for pushed in (True, False)
        )
        rows = [row for row, _ in ways]
    triggers = bench.triggers(stream_seconds) if stream_seconds else []
    return Results(records, size, rows, one, all_of_them, triggers, (load, os.getloadavg()[0]))


@click.command()
@click.option("--records", default=2_000_000, show_default=True, type=click.IntRange(100_000))
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1))
@click.option("--stream-seconds", default=60, show_default=True, help="Of the micro-batches; 0 leaves them out.")
@click.option("--only", default="", help="Only ways whose names have this in them.")
@click.option("--logs", type=click.Path(path_type=Path), help="Keep the logs there, and take what is there.")
@click.option("--directory", type=click.Path(path_type=Path), help="Where to put temporary logs and tables.")
@click.option("--format", "output_format", type=click.Choice(["text", "json"]), default="text")
@click.option("--write", type=click.Path(path_type=Path), help="Rewrite this file's section.")
def main(
    records: int, rounds: int, stream_seconds: int, only: str, logs: Path | None, directory: Path | None,
    output_format: str, write: Path | None,
) -> None:  # fmt: skip
    """Measure the data pipeline on two cores."""
    spark = session("bench", "local[2]", spark_driver_memory="1g", spark_sql_streaming_numRecentProgressUpdates="1000")
    try:
        with tempfile.TemporaryDirectory(dir=directory) as inside:
            logs = logs or Path(inside) / "logs"
            if not logs.exists():
                make(logs, records, lambda done: print(f"{done:,} records made", file=sys.stderr))
            results = run(spark, logs, Path(inside), rounds, stream_seconds, only)
    finally:
        spark.stop()
    about = describe(False)
    about["machine"] = about["machine"].replace(", server and generator on any", "")
    about["versions"] += f", pyspark {version('pyspark')}, pyarrow {version('pyarrow')}, numpy {version('numpy')}"
    if output_format == "json":
        click.echo(json.dumps(asdict(results), indent=2))
    else:
        for line in cells(results):
            click.echo(
                "  ".join(cell.ljust(width) for cell, width in zip(line, (46, 11, 7, 11, 14, 26, 10), strict=True))
            )
        for verdict in _verdicts(results):
            click.echo(verdict)
    if write is not None:
        rewrite_section(write, as_markdown(results, about))


if __name__ == "__main__":
    main()
