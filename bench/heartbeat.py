#!/usr/bin/env python3
"""Measure heartbeats per second and server CPU per heartbeat of one Ottla process.

Beside it run a bare uvloop server that answers without looking, librdkafka's mock cluster, a real Apache Kafka
and franz-go's kfake; the last two where Java and Go are there.

They take turns in every round, under the same load, and the table shows the medians of the rounds. README.md next to
this file says what is measured and how.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import beside
import click
from heartbeat_groups import form_groups, heartbeats
from report import CALLED, Figures, describe, tell
from servers import (
    HERE,
    Run,
    by_turns,
    choose_cores,
    compile_generator,
    measure,
    prepared,
    raise_file_limit,
    started,
    warm_up,
)

SERVERS = ("bare", "ottla", "mock", "kafka", "kfake")
MANY_THREADS = frozenset({"kafka", "kfake"})
"""Their threads wait for each other on the one core, which is not somebody else's doing."""
CROWDED = 0.05
"""Share of a run that a process may wait for its core before the figure is called unreliable."""
GOALS = {(1, 1, "bare"): 0.7, (50, 1, "bare"): 0.6, (1000, 1, "bare"): 0.6, (50, 10, "mock"): 1.5}
"""Connections, window, whose throughput, and how much of it Ottla's shall be."""
COLUMNS = {
    "per second": ("per_second", 0),
    "CPU µs": ("cpu_us", 2),
    "p50 µs": ("p50_us", 0),
    "p99 µs": ("p99_us", 0),
    "server busy": ("server_busy", 2),
    "generator busy": ("generator_busy", 2),
}


def under(connections: int, window: int) -> str:
    """A load in words."""
    return f"heartbeat, {connections:,} connection{'s' if connections > 1 else ''}, window {window}"


def taken(server: str, run: Run) -> dict[str, float]:
    """The figures of one turn."""
    waited = 0 if server in MANY_THREADS else run.server_waited_seconds
    return {
        "per_second": run.per_second,
        "cpu_us": run.cpu_us,
        "p50_us": run.p50_us,
        "p99_us": run.p99_us,
        "server_busy": run.server_cpu_seconds / run.seconds,
        "generator_busy": run.generator_cpu_seconds / run.seconds,
        "crowded": max(waited, run.generator_waited_seconds) / run.seconds,
    }


def remarks(figures: Figures) -> list[str]:
    """Goals in words, and which figures deserve less trust."""
    lines = []
    for (connections, window, against), wanted in GOALS.items():
        ratio = figures.ratio(under(connections, window), "per_second", "ottla", against)
        if ratio is not None:
            verdict = "reached" if ratio >= wanted else "missed"
            lines.append(f"{verdict}: {ratio:.2f} of {against} (goal {wanted}), {under(connections, window)}")
    for load, server in dict.fromkeys(key[:2] for key in figures.found):
        crowded, server_busy, generator_busy = (
            figures.median(load, server, what) or 0 for what in ("crowded", "server_busy", "generator_busy")
        )
        if crowded > CROWDED:
            lines.append(f"unreliable: {CALLED[server]}, {load}: kept from its core {crowded:.0%} of the time")
        if generator_busy > max(0.9, server_busy):
            lines.append(f"unreliable: {CALLED[server]}, {load}: the generator was the limit")
    return lines


def measured(
    names: Sequence[str], connections: int, windows: Sequence[int], rounds: int, seconds: float, warm: float,
    data: Path, figures: Figures,
) -> None:  # fmt: skip
    """All rounds with so many connections."""
    generator, (server_core, core) = compile_generator(), choose_cores()
    with started(names, server_core, data) as servers:
        loads = {server.name: heartbeats(form_groups(server, connections)) for server in servers}
        for server in servers:
            warm_up(generator, server, loads[server.name], connections, warm, core)
        for window in windows:
            for server in by_turns(servers, rounds):
                click.echo(f"{under(connections, window)}: {server.name}", err=True)
                run = measure(generator, server, loads[server.name], connections, window, seconds, core)
                figures.add(under(connections, window), server.name, **taken(server.name, run))


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each server.")
@click.option("--seconds", default=1.0, show_default=True, type=click.FloatRange(0.1), help="Of one turn.")
@click.option("--only", multiple=True, type=click.Choice(SERVERS), help="Servers to run; repeatable.")
@click.option("--connections", multiple=True, default=(1, 50, 1000), show_default=True, type=click.IntRange(1))
@click.option("--window", multiple=True, default=(1, 10), show_default=True, type=click.IntRange(1, 100))
@click.option("--warm-up", "warm", default=15.0, show_default=True, type=click.FloatRange(0.1),
              help="Seconds of load before a JVM is measured.")  # fmt: skip
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's section.")
def main(
    rounds: int, seconds: float, only: tuple[str, ...], connections: tuple[int, ...], window: tuple[int, ...],
    warm: float, write: Path | None,
) -> None:  # fmt: skip
    raise_file_limit()
    names, missing = prepared(only or SERVERS)
    figures = Figures(missing)
    (HERE / ".build").mkdir(exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="heartbeats-", dir=HERE / ".build"))
    try:
        for count in connections:
            measured(names, count, window, rounds, seconds, warm, data / str(count), figures)
    finally:
        shutil.rmtree(data, ignore_errors=True)
    about = describe(choose_cores()[0] is not None, beside.versions(names))
    table = figures.table(COLUMNS, ("per second", "CPU µs"))
    tell("heartbeats", figures, "Heartbeats", about, table, write, remarks(figures))


if __name__ == "__main__":
    main()
