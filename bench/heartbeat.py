#!/usr/bin/env python3
"""Measure heartbeats per second and server CPU per heartbeat of one Ottla process.

Beside it run a bare uvloop server that answers without looking, librdkafka's mock cluster, a real Apache Kafka
and franz-go's kfake; the last two where Java and Go are there.

They take turns in every round, under the same load, and the tables show the medians of the
rounds. README.md next to this file says what is measured and how.
"""

from __future__ import annotations

import contextlib
import json
import resource
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import beside
import click
from heartbeat_groups import form_groups, heartbeats
from report import describe, rewrite_section
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from servers import (
    Load,
    Run,
    Server,
    choose_cores,
    compile_generator,
    measure,
    prepared,
    running,
    warm_up,
)

SERVERS = ("bare", "ottla", "mock", "kafka", "kfake")
MANY_THREADS = frozenset({"kafka", "kfake"})
"""Their threads wait for each other on the one core, which is not somebody else's doing."""
OPTIONS = {
    # Long enough for all members of a group to join its first generation.
    "ottla": ("--ephemeral", "--set", "group.initial.rebalance.delay.ms=1000"),
}
CROWDED = 0.05
"""Share of a run that a process may wait for its core before the figure is called unreliable."""


def under(connections: int, window: int) -> str:
    """A load in words."""
    return f"{connections:,} connection{'s' if connections > 1 else ''}, window {window}"


@dataclass(frozen=True, slots=True)
class Goal:
    """Ottla's throughput wanted, as a share of another server's under the same load."""

    connections: int
    window: int
    against: str
    wanted: float


GOALS = (
    Goal(1, 1, "bare", 0.7),
    Goal(50, 1, "bare", 0.6),
    Goal(1000, 1, "bare", 0.6),
    Goal(50, 10, "mock", 1.5),
)


@dataclass(slots=True)
class Row:
    """One server under one load: all rounds, and their medians."""

    connections: int
    window: int
    server: str
    runs: list[Run] = field(default_factory=list)

    def median(self, of: Callable[[Run], float]) -> float:
        """The median over the rounds."""
        return statistics.median(of(run) for run in self.runs)

    @property
    def per_second(self) -> float:
        """Heartbeats answered per second."""
        return self.median(lambda run: run.per_second)

    @property
    def cpu_us(self) -> float:
        """Server CPU in microseconds per heartbeat."""
        return self.median(lambda run: run.cpu_us)

    @property
    def spread(self) -> float:
        """How far fastest and slowest round lie apart, as a share of the median."""
        rates = [run.per_second for run in self.runs]
        return (max(rates) - min(rates)) / self.per_second

    @property
    def server_busy(self) -> float:
        """Cores' worth of CPU that the server used."""
        return self.median(lambda run: run.server_cpu_seconds / run.seconds)

    @property
    def generator_busy(self) -> float:
        """Cores' worth of CPU that the generator used."""
        return self.median(lambda run: run.generator_cpu_seconds / run.seconds)

    @property
    def crowded(self) -> float:
        """Share of the time that server or generator, whichever waited more, was kept from its core."""
        share = 0 if self.server in MANY_THREADS else 1
        return self.median(
            lambda run: max(share * run.server_waited_seconds, run.generator_waited_seconds) / run.seconds
        )


class Results:
    """All rows of a run of the benchmark."""

    def __init__(self, missing: Mapping[str, str] | None = None) -> None:
        self.rows: dict[tuple[int, int, str], Row] = {}
        self.missing = dict(missing or {})

    def add(self, connections: int, window: int, server: str, run: Run) -> None:
        """Take the figures of one turn."""
        key = connections, window, server
        self.rows.setdefault(key, Row(*key)).runs.append(run)

    def ratio(self, row: Row, server: str) -> float | None:
        """Throughput of a row as a share of another server's under the same load."""
        other = self.rows.get((row.connections, row.window, server))
        return row.per_second / other.per_second if other else None

    def beside(self) -> list[beside.Beside]:
        """Ottla against Apache Kafka and kfake."""
        figures = {
            (under(row.connections, row.window), row.server): beside.Figures(row.per_second, row.cpu_us)
            for row in self.rows.values()
        }
        return beside.compare(figures, self.missing)

    def goals(self) -> list[tuple[Goal, float]]:
        """The goals that these results can be held against, and what was reached."""
        reached = []
        for goal in GOALS:
            row = self.rows.get((goal.connections, goal.window, "ottla"))
            if row and (ratio := self.ratio(row, goal.against)) is not None:
                reached.append((goal, ratio))
        return reached

    def cells(self) -> list[tuple[str, ...]]:
        """The table, as text."""
        table = []
        for row in self.rows.values():
            bare = self.rows.get((row.connections, row.window, "bare"))
            over = f"{row.cpu_us - bare.cpu_us:+.2f}" if bare and row is not bare else ""
            ratios = [self.ratio(row, name) if name != row.server else None for name in ("bare", "mock")]
            table.append(
                (
                    f"{row.connections:,}",
                    str(row.window),
                    row.server,
                    f"{row.per_second:,.0f}",
                    f"{row.spread:.0%}",
                    f"{row.cpu_us:.2f}",
                    over,
                    f"{row.median(lambda run: run.p50_us):,.0f}",
                    f"{row.median(lambda run: run.p99_us):,.0f}",
                    *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
                    f"{row.server_busy:.0%}",
                    f"{row.generator_busy:.0%}",
                )
            )
        return table

    def remarks(self) -> list[str]:
        """Goals in words, and which figures deserve less trust."""
        lines = []
        for goal, ratio in self.goals():
            verdict = "reached" if ratio >= goal.wanted else "missed"
            lines.append(
                f"{verdict}: {ratio:.2f} of {goal.against} (goal {goal.wanted}), {under(goal.connections, goal.window)}"
            )
        for row in self.rows.values():
            where = f"{row.server}, {under(row.connections, row.window)}"
            if row.crowded > CROWDED:
                lines.append(f"unreliable: {where}: kept from its core {row.crowded:.0%} of the time")
            if row.generator_busy > max(0.9, row.server_busy):
                lines.append(f"unreliable: {where}: the generator was the limit")
        return [*lines, *(f"skipped: {name}: {reason}" for name, reason in self.missing.items())]


HEADINGS = (
    *("conns", "window", "server", "per second", "spread", "CPU µs", "over bare"),
    *("p50 µs", "p99 µs", "of bare", "of mock", "server busy", "generator busy"),
)


def as_plain(results: Results) -> str:
    """Aligned columns without any drawing."""
    lines = [HEADINGS, *results.cells()]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    return "\n".join([*table, "", *results.remarks(), "", beside.as_plain(results.beside())]).rstrip()


def as_rich(results: Results) -> Table:
    """The table for a terminal: without the last two columns, so that it fits 80 characters."""
    table = Table(box=None, padding=(0, 1, 0, 0))
    for heading in HEADINGS[:-2]:
        table.add_column(heading.replace(" ", "\n"), justify="right", no_wrap=True, header_style="dim")
    load: tuple[str, ...] | None = None
    for cells in results.cells():
        if load is not None and load != cells[:2]:
            table.add_row()
        load = cells[:2]
        table.add_row(*cells[:-2], style="bold" if cells[2] == "ottla" else None)
    return table


def as_markdown(results: Results, about: dict[str, str]) -> str:
    """The section of RESULTS.md."""
    lines = ["## Heartbeats", "", *(f"- {name}: {value}" for name, value in about.items()), ""]
    lines += ["| " + " | ".join(HEADINGS) + " |", "|" + " ---: |" * len(HEADINGS)]
    lines += ["| " + " | ".join(cells) + " |" for cells in results.cells()]
    lines += ["", *(f"- {remark}" for remark in results.remarks())]
    lines += ["", beside.as_markdown(results.beside(), "Ottla held against the others, medians of the same rounds:")]
    return "\n".join(lines).rstrip() + "\n"


def as_json(results: Results, about: dict[str, str]) -> str:
    """Everything, with each round's figures."""
    rows: list[dict[str, Any]] = []
    for row in results.rows.values():
        rows.append(
            {
                "connections": row.connections,
                "window": row.window,
                "server": row.server,
                "per_second": row.per_second,
                "cpu_us": row.cpu_us,
                "of_bare": results.ratio(row, "bare"),
                "of_mock": results.ratio(row, "mock"),
                "crowded": row.crowded,
                "rounds": [asdict(run) for run in row.runs],
            }
        )
    goals = [{**asdict(goal), "ratio": ratio, "reached": ratio >= goal.wanted} for goal, ratio in results.goals()]
    against = [asdict(row) for row in results.beside()]
    return json.dumps({"about": about, "rows": rows, "goals": goals, "beside": against}, indent=2)


@dataclass(frozen=True, slots=True)
class Plan:
    """The measurement to make."""

    servers: Sequence[str]
    connections: Sequence[int]
    windows: Sequence[int]
    rounds: int
    seconds: float
    pace_us: int
    pin: bool
    warm_up: float
    missing: Mapping[str, str]


def run_plan(plan: Plan, step: Callable[[str], None]) -> Results:
    """Measure everything; `step` is told before each turn.

    Raises:
        BenchError: a server could not be started or measured.
    """
    results = Results(plan.missing)
    generator = compile_generator()
    server_core, generator_core = choose_cores() if plan.pin else (None, None)
    for connections in plan.connections:
        with contextlib.ExitStack() as stack:
            servers: list[Server] = []
            loads: dict[str, Load] = {}
            for name in plan.servers:
                servers.append(stack.enter_context(running(name, server_core, OPTIONS.get(name, ()))))
                loads[name] = heartbeats(form_groups(servers[-1], connections))
            for server in servers:
                warm_up(generator, server, loads[server.name], connections, plan.warm_up, generator_core)
            for window in plan.windows:
                for turn in range(plan.rounds):
                    # Another server begins each round, so that none always follows the same one.
                    first = turn % len(servers)
                    for server in servers[first:] + servers[:first]:
                        step(f"{under(connections, window)}: {server.name}")
                        run = measure(
                            *(generator, server, loads[server.name], connections, window),
                            *(plan.seconds, generator_core, plan.pace_us),
                        )
                        results.add(connections, window, server.name, run)
    order = {name: place for place, name in enumerate(SERVERS)}
    results.rows = dict(sorted(results.rows.items(), key=lambda item: (*item[0][:2], order[item[0][2]])))
    return results


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each server.")
@click.option("--seconds", default=2.0, show_default=True, type=click.FloatRange(0.1), help="Of one turn.")
@click.option("--only", multiple=True, type=click.Choice(SERVERS), help="Servers to run; repeatable.")
@click.option("--connections", multiple=True, default=(1, 50, 1000), show_default=True, type=click.IntRange(1))
@click.option("--window", multiple=True, default=(1, 10), show_default=True, type=click.IntRange(1, 100))
@click.option("--pace-us", default=0, show_default=True, help="Pause after each connection is opened.")
@click.option("--warm-up", default=15.0, show_default=True, type=click.FloatRange(0.1),
              help="Seconds of load before a JVM is measured.")  # fmt: skip
@click.option("--pin/--no-pin", default=True, show_default=True, help="Server and generator on a core each.")
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's section.")
def main(
    rounds: int,
    seconds: float,
    only: tuple[str, ...],
    connections: tuple[int, ...],
    window: tuple[int, ...],
    pace_us: int,
    warm_up: float,
    pin: bool,
    style: str,
    write: Path | None,
) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    servers, missing = prepared([name for name in SERVERS if not only or name in only])
    plan = Plan(servers, connections, window, rounds, seconds, pace_us, pin, warm_up, missing)
    total = rounds * len(servers) * len(connections) * len(window)
    # Drawn only between turns: a refreshing thread would take CPU from what is measured.
    console = Console(stderr=True)
    with Progress(console=console, transient=True, auto_refresh=False, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting the servers", total=total)
        results = run_plan(plan, lambda what: bar.update(task, advance=1, description=what, refresh=True))
    about = describe(pin, beside.versions(servers))
    if write is not None:
        rewrite_section(write, as_markdown(results, about))
    if style == "json":
        click.echo(as_json(results, about))
    elif sys.stdout.isatty():
        console = Console()
        console.print(as_rich(results))
        for remark in results.remarks():
            console.print(remark, style="yellow" if remark.startswith(("missed", "unreliable", "skipped")) else None)
        console.print(f"\n{beside.as_plain(results.beside())}", highlight=False)
    else:
        click.echo(as_plain(results))


if __name__ == "__main__":
    main()
