#!/usr/bin/env python3
"""Measure what one Ottla process appends, reads and commits, beside librdkafka's mock cluster; commits also beside a
real Apache Kafka and franz-go's kfake, where Java and Go are there.

Producers and consumers are stock confluent-kafka clients; commits come from a generator in C. Ottla syncs every
append to the disk before it answers (acks=all, ottla.durability=fsync); the mock cluster keeps everything in memory.
The servers take turns in every round, and the tables show the medians of the rounds.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import beside
import click
from heartbeat_groups import compact
from report import describe, rewrite_section
from rich.console import Console
from rich.progress import Progress
from servers import (
    HERE,
    BenchError,
    Load,
    Server,
    choose_cores,
    compile_generator,
    measure,
    pinned,
    prepared,
    running,
    warm_up,
)

SERVERS = ("ottla", "ottla-os", "ottla-memory", "mock", "kafka", "kfake")
USUAL = ("ottla", "mock")
"""Gigabytes in the memory of one server leave the others fewer pages for what they write."""
WITH_RECORDS = ("ottla", "ottla-memory", "mock")
COMMITTED_TO = ("ottla", "ottla-os", "mock", "kafka", "kfake")
"""A commit is answered when it is synced (ottla), when the operating system has it (ottla-os and kafka), or when it is
in memory (the others)."""
PARTITIONS = 4
"""As many as a topic of the mock cluster has."""
SIZES = {100: 1_000_000, 10_000: 40_000}
"""Records to produce, by their size in bytes."""
KEPT_BYTES = 4_000_000
"""Of each partition, to be consumed: the mock cluster keeps five megabytes."""
PACED_RECORDS = 1_000
COMMITTERS = (1, 64, 1024)
OFFSET_COMMIT, OFFSET_COMMIT_VERSION = 8, 8
COMMITTED_TOPIC = "orders"


@dataclass(frozen=True, slots=True)
class Goal:
    """The goal for Ottla: a share of the mock's figure, or a figure."""

    row: str
    wanted: float
    against: str | None


GOALS = (
    Goal("produce, 10,000 bytes", 1.0, "mock"),
    Goal("produce, 100 bytes", 0.6, "mock"),
    Goal("consume, 10,000 bytes", 1.0, "mock"),
    Goal("consume, 100 bytes", 0.6, "mock"),
    Goal("commit, 1,024 connections", 20_000, None),
)


@dataclass(slots=True)
class Row:
    """One load on one server: what each round gave."""

    load: str
    server: str
    record_bytes: int = 0
    per_second: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    p50_us: list[float] = field(default_factory=list)
    p99_us: list[float] = field(default_factory=list)


class Results:
    """All rows, by load and server."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Row] = {}
        self.missing: dict[str, str] = {}

    def row(self, load: str, server: str, record_bytes: int = 0) -> Row:
        """The row of a load on a server; a new one at first."""
        return self.rows.setdefault((load, server), Row(load, server, record_bytes))

    def ratio(self, row: Row, server: str) -> float | None:
        """A row's throughput as a share of another server's."""
        other = self.rows.get((row.load, server))
        if other is None or other is row or not (other.per_second and row.per_second):
            return None
        return statistics.median(row.per_second) / statistics.median(other.per_second)

    def beside(self) -> list[beside.Beside]:
        """The commits of Ottla against those of Apache Kafka and kfake."""
        figures = {
            key: beside.Figures(statistics.median(row.per_second), statistics.median(row.cpu_us))
            for key, row in self.rows.items()
            if row.cpu_us
        }
        return beside.compare(figures, self.missing, ("ottla", "ottla-os"))

    def remarks(self) -> list[str]:
        """The goals, and whether they were reached."""
        lines = []
        for goal in GOALS:
            row = self.rows.get((goal.row, "ottla"))
            if row is None:
                continue
            reached = statistics.median(row.per_second) if goal.against is None else self.ratio(row, goal.against)
            if reached is not None:
                verdict = "reached" if reached >= goal.wanted else "missed"
                unit = "a second" if goal.against is None else f"of {goal.against}"
                text = f"{reached:,.0f}" if goal.against is None else f"{reached:.2f}"
                lines.append(f"{verdict}: {goal.row}: {text} {unit} (goal {goal.wanted:,})")
        return [*lines, *(f"skipped: {name}: {reason}" for name, reason in self.missing.items())]

    def cells(self) -> list[tuple[str, ...]]:
        """The table, as text."""
        table: list[tuple[str, ...]] = []
        for load, server in sorted(self.rows, key=lambda key: (_order(key[0]), SERVERS.index(key[1]))):
            row = self.rows[load, server]
            rate = statistics.median(row.per_second) if row.per_second else None
            spread = (max(row.per_second) - min(row.per_second)) / rate if rate else None
            ratio = self.ratio(row, "mock")
            table.append(
                (
                    load,
                    server,
                    "" if rate is None else f"{rate:,.0f}",
                    "" if rate is None or not row.record_bytes else f"{rate * row.record_bytes / 1e6:,.0f}",
                    "" if spread is None else f"{spread:.0%}",
                    "" if ratio is None else f"{ratio:.2f}",
                    f"{statistics.median(row.cpu_us):,.1f}" if row.cpu_us else "",
                    f"{statistics.median(row.p50_us):,.0f}" if row.p50_us else "",
                    f"{statistics.median(row.p99_us):,.0f}" if row.p99_us else "",
                )
            )
        return table


HEADINGS = ("load", "server", "per second", "MB/s", "spread", "of mock", "CPU µs", "p50 µs", "p99 µs")
_LOADS = ("produce", "consume", "one at a time", "commit")


def _order(load: str) -> tuple[int, int]:
    name, _, rest = load.partition(", ")
    return _LOADS.index(name), int(rest.split(" ")[0].replace(",", ""))


def as_plain(results: Results) -> str:
    """Aligned columns."""
    lines = [HEADINGS, *results.cells()]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = []
    for line in lines:
        cells = [cell.ljust(width) if place < 2 else cell.rjust(width)
                 for place, (cell, width) in enumerate(zip(line, widths, strict=True))]  # fmt: skip
        table.append("  ".join(cells).rstrip())
    return "\n".join([*table, "", *results.remarks(), "", beside.as_plain(results.beside())]).rstrip()


def as_markdown(results: Results, about: dict[str, str]) -> str:
    """The section of RESULTS.md."""
    lines = ["## The log", "", *(f"- {name}: {value}" for name, value in about.items()), ""]
    lines += ["| " + " | ".join(HEADINGS) + " |", "| --- | --- |" + " ---: |" * (len(HEADINGS) - 2)]
    lines += ["| " + " | ".join(cells) + " |" for cells in results.cells()]
    lines += ["", *(f"- {remark}" for remark in results.remarks())]
    about_commits = (
        "Commits held against the others, medians of the same rounds; ottla-os syncs no more than Kafka does:"
    )
    lines += ["", beside.as_markdown(results.beside(), about_commits)]
    return "\n".join(lines).rstrip() + "\n"


class Bench:
    """Runs loads on servers and collects what they give."""

    def __init__(self, rounds: int, seconds: float, scale: float, warm_up: float, step: Callable[[str], None]) -> None:
        self.results = Results()
        self._rounds = rounds
        self._seconds = seconds
        self._scale = scale
        self._warm_up = warm_up
        self._step = step
        self._server_core, self._client_core = choose_cores()

    def records(self, servers: Sequence[Server]) -> None:
        """Produce, consume, and one at a time."""
        for turn, server in self._turns(servers):
            for size, records in SIZES.items():
                records = int(records * self._scale)
                self._step(f"{server.name}: produce {size:,} bytes")
                took = self._client(server, "produce", f"bulk-{size}", size, records)["seconds"]
                row = self.results.row(f"produce, {size:,} bytes", server.name, size)
                row.per_second.append(records / took)
                kept = KEPT_BYTES // (size + 10) * PARTITIONS
                if not turn:
                    self._client(server, "produce", f"kept-{size}", size, kept)
                self._step(f"{server.name}: consume {size:,} bytes")
                took = self._client(server, "consume", f"kept-{size}", size, kept)["seconds"]
                row = self.results.row(f"consume, {size:,} bytes", server.name, size)
                row.per_second.append(kept / took)
                self._step(f"{server.name}: one at a time, {size:,} bytes")
                figures = self._client(server, "pace", f"paced-{size}", size, PACED_RECORDS)
                row = self.results.row(f"one at a time, {size:,} bytes", server.name, size)
                row.p50_us.append(figures["p50_us"])
                row.p99_us.append(figures["p99_us"])

    def commits(self, servers: Sequence[Server], generator: Path, connections: int) -> None:
        """Offset commits of groups without members, one group a connection, each waiting for its answer."""
        load = commits(connections)
        for server in servers:
            # Some make a topic when somebody asks for it.
            self._client(server, "produce", COMMITTED_TOPIC, 100, PARTITIONS)
            warm_up(generator, server, load, connections, self._warm_up, self._client_core)
        for _, server in self._turns(servers):
            self._step(f"{server.name}: commits of {connections:,} connections")
            run = measure(generator, server, load, connections, 1, self._seconds, self._client_core)
            row = self.results.row(f"commit, {connections:,} connections", server.name)
            row.per_second.append(run.per_second)
            row.cpu_us.append(run.cpu_us)
            row.p50_us.append(run.p50_us)
            row.p99_us.append(run.p99_us)

    def _turns(self, servers: Sequence[Server]) -> list[tuple[int, Server]]:
        """Another server begins each round, so that none always follows the same one."""
        turns = []
        for turn in range(self._rounds):
            first = turn % len(servers)
            turns += [(turn, server) for server in (*servers[first:], *servers[:first])]
        return turns

    def _client(self, server: Server, what: str, topic: str, size: int, records: int) -> dict[str, float]:
        done = subprocess.run(
            [sys.executable, str(HERE / "log_client.py"), what, f"{server.host}:{server.port}", topic,
             *map(str, (PARTITIONS, size, records))],
            capture_output=True, text=True, preexec_fn=pinned(self._client_core),
        )  # fmt: skip
        if done.returncode:
            raise BenchError(f"{server.name}, {what} of {topic}: {done.stderr.strip().splitlines()[-1:]}")
        figures: dict[str, float] = json.loads(done.stdout)
        return figures


def commits(connections: int) -> Load:
    """OffsetCommit v8 of one partition, for a group of its own each."""
    frames = []
    for number in range(connections):
        header = struct.pack(">hhi", OFFSET_COMMIT, OFFSET_COMMIT_VERSION, 0) + struct.pack(">h", 5) + b"bench\0"
        group = compact(f"bench-group-{number}") + struct.pack(">i", -1) + compact("") + b"\0"
        partition = struct.pack(">iqi", 0, 1234 + number, -1) + compact("") + b"\0"
        frames.append(header + group + b"\2" + compact(COMMITTED_TOPIC) + b"\2" + partition + b"\0\0")
    # Length, correlation id, header tags, throttle, one topic with its name, one partition with its error, three tags.
    error_at = 4 + 4 + 1 + 4 + 1 + len(compact(COMMITTED_TOPIC)) + 1 + 4
    return Load(frames, error_at + 2 + 3, error_at)


@contextlib.contextmanager
def started(names: Sequence[str], core: int | None, directory: Path):  # type: ignore[no-untyped-def]
    """The servers, each with topics where it needs to be told."""
    directory.mkdir()
    topics = [f"{kind}-{size}" for kind in ("bulk", "kept", "paced") for size in SIZES]
    wanted = [option for topic in topics for option in ("--create-topic", f"{topic}:{PARTITIONS}")]
    wanted += ["--create-topic", f"{COMMITTED_TOPIC}:{PARTITIONS}"]
    options = {
        "ottla": ("--data-dir", str(directory / "ottla"), *wanted),
        "ottla-os": ("--data-dir", str(directory / "os"), "--set", "ottla.durability=os", *wanted),
        "ottla-memory": ("--ephemeral", *wanted),
        "kafka": (str(directory),),
    }
    with contextlib.ExitStack() as stack:
        servers = []
        for name in names:
            server = stack.enter_context(running(name.partition("-")[0], core, options.get(name, ())))
            server.name = name
            servers.append(server)
        yield servers


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each server.")
@click.option("--seconds", default=2.0, show_default=True, type=click.FloatRange(0.1), help="Of one turn of commits.")
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0.01), help="Share of the records.")
@click.option("--only", multiple=True, type=click.Choice(SERVERS), help="Servers to run; repeatable.")
@click.option("--warm-up", "warm", default=15.0, show_default=True, type=click.FloatRange(0.1),
              help="Seconds of load before a JVM is measured.")  # fmt: skip
@click.option("--directory", type=click.Path(file_okay=False, path_type=Path), default=HERE / ".build",
              show_default=True, help="On the disk that is to be measured.")  # fmt: skip
@click.option("--records/--no-records", default=True, help="Produce and consume.")
@click.option("--commits/--no-commits", "with_commits", default=True, help="Commit offsets.")
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's section.")
def main(
    rounds: int, seconds: float, scale: float, only: tuple[str, ...], warm: float, directory: Path, records: bool,
    with_commits: bool, write: Path | None,
) -> None:  # fmt: skip
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    of_records = [name for name in WITH_RECORDS if records and name in (only or USUAL)]
    of_commits = [name for name in COMMITTED_TO if with_commits and name in (only or COMMITTED_TO)]
    of_commits, missing = prepared(of_commits)
    directory.mkdir(exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="data-", dir=directory))
    console = Console(stderr=True)
    turns = rounds * (len(of_records) * 3 * len(SIZES) + len(of_commits) * len(COMMITTERS))
    try:
        with Progress(console=console, transient=True, auto_refresh=False, disable=not console.is_terminal) as bar:
            task = bar.add_task("starting the servers", total=turns)
            bench = Bench(
                *(rounds, seconds, scale, warm),
                lambda what: bar.update(task, advance=1, description=what, refresh=True),
            )
            bench.results.missing = missing
            generator = compile_generator()
            core, _ = choose_cores()
            with started(of_records, core, data / "records") as servers:
                if servers:
                    bench.records(servers)
            with started(of_commits, core, data / "commits") as servers:
                for connections in COMMITTERS if servers else ():
                    bench.commits(servers, generator, connections)
    finally:
        shutil.rmtree(data, ignore_errors=True)
    if write is not None:
        about = describe(core is not None, beside.versions(of_commits))
        about["disk"] = f"{os.statvfs(directory).f_bsize}-byte blocks, {directory}"
        rewrite_section(write, as_markdown(bench.results, about))
    click.echo(as_plain(bench.results))


if __name__ == "__main__":
    main()
