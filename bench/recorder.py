#!/usr/bin/env python3
"""Measure what the flight recorder costs one Ottla process: heartbeats and durable commits, with it and without.

Servers that differ in the recorder alone take turns in every round, under the same load; what is compared are the
two turns of one round, and the figure is the median of these pairs. README.md next to this file says more.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
from commits import Committers, Kind, fill
from heartbeat_groups import form_groups, heartbeats
from report import describe, rewrite_section
from servers import Server, choose_cores, compile_generator, measure, running

GOAL = 0.05
Turn = dict[str, float]
"""Figures of a turn: ``per_second`` and ``cpu_us``."""
QUIET = (
    *("--set", "ottla.history.memory.bytes=0", "--set", "ottla.sentinel.enable=false"),
    *("--set", "ottla.group.events.enable=false"),
)
"""Other observers of groups are left out: the recorder is measured, and nothing else."""
VARIANTS = {
    "off": (*QUIET, "--set", "ottla.recorder.memory.bytes=0"),
    "ring": QUIET,
    "ring and file": QUIET,
    "all observers": (),
}
"""With ``off`` each of the others is paired. What else a broker observes by default is the last one's."""


@dataclass(slots=True)
class Row:
    """One variant under one load: a pair of figures for each round, without and with."""

    load: str
    variant: str
    per_second: list[tuple[float, float]] = field(default_factory=list)
    cpu_us: list[tuple[float, float]] = field(default_factory=list)

    @property
    def cost(self) -> float:
        """The share of throughput that is lost, median of the pairs."""
        return statistics.median(1 - with_it / without for without, with_it in self.per_second)

    @property
    def cpu_cost(self) -> float:
        """By how much the CPU time of a request grows, median of the pairs."""
        return statistics.median(with_it / without - 1 for without, with_it in self.cpu_us)

    @property
    def goal(self) -> str:
        if self.variant != "ring":
            return ""
        return f"< {GOAL:.0%}: {'yes' if max(self.cost, self.cpu_cost) < GOAL else 'no'}"


@contextlib.contextmanager
def servers(variants: Sequence[str], core: int | None, directory: Path) -> Iterator[dict[str, Server]]:
    """One durable server for each variant."""
    with contextlib.ExitStack() as stack:
        found = {}
        for name in variants:
            data = directory / name.replace(" ", "-")
            options = ["--data-dir", str(data), *VARIANTS[name]]
            options += ["--set", "group.initial.rebalance.delay.ms=1000"]
            if "file" in name:
                options += ["--record", str(directory / "recording")]
            found[name] = stack.enter_context(running("ottla", core, options))
        yield found


def compare(
    load_name: str, turns: Mapping[str, Callable[[], Turn]], rows: dict[tuple[str, str], Row], number: int
) -> None:
    """One round: each server has a turn, another one first each time."""
    names = [*turns][number % len(turns) :] + [*turns][: number % len(turns)]
    runs = {name: turns[name]() for name in names}
    for name, run in runs.items():
        if name != "off":
            row = rows.setdefault((load_name, name), Row(load_name, name))
            row.per_second.append((runs["off"]["per_second"], run["per_second"]))
            row.cpu_us.append((runs["off"]["cpu_us"], run["cpu_us"]))


def beating(server: Server, connections: int, seconds: float, core: int | None) -> Callable[[], Turn]:
    """A turn of heartbeats."""
    load = heartbeats(form_groups(server, connections, prefix="beating"))

    def turn() -> Turn:
        run = measure(compile_generator(), server, load, connections, 1, seconds, core)
        return {"per_second": run.per_second, "cpu_us": run.cpu_us}

    return turn


def committing(server: Server, connections: int, seconds: float, core: int | None) -> Callable[[], Turn]:
    """A turn of commits."""
    fill(server)
    committers = Committers(compile_generator(), server, Kind(connections), core)
    return lambda: committers.turn(seconds)


def _medians(pairs: Sequence[tuple[float, float]]) -> list[float]:
    return [statistics.median(side) for side in zip(*pairs, strict=True)]


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The table."""
    table: list[tuple[str, ...]] = [
        ("load", "with", "per second without", "with it", "cost", "CPU µs without", "with it", "cost", "goal")
    ]
    for row in rows:
        rates, times = _medians(row.per_second), _medians(row.cpu_us)
        figures = [f"{rates[0]:,.0f}", f"{rates[1]:,.0f}", f"{row.cost:+.1%}"]
        figures += [f"{times[0]:.1f}", f"{times[1]:.1f}", f"{row.cpu_cost:+.1%}"]
        table.append((row.load, row.variant, *figures, row.goal))
    return table


def as_markdown(rows: Sequence[Row], about: dict[str, str]) -> str:
    """A section of RESULTS.md."""
    table = cells(rows)
    lines = ["## Flight recorder", "", *(f"- {key}: {value}" for key, value in about.items()), ""]
    lines += ["| " + " | ".join(table[0]) + " |", "|" + " --- |" * len(table[0])]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in table[1:])])


@click.command()
@click.option("--connections", default=50, show_default=True, type=click.IntRange(1), help="Each is one member.")
@click.option("--rounds", default=15, show_default=True, type=click.IntRange(1))
@click.option("--seconds", default=1.0, show_default=True, type=click.FloatRange(0.1), help="Of one turn.")
@click.option("--only", "variants", multiple=True, type=click.Choice([name for name in VARIANTS if name != "off"]))
@click.option("--pin/--no-pin", default=True, help="One core for the servers, another for the generator.")
@click.option("--format", "output_format", type=click.Choice(["text", "json"]), default="text")
@click.option("--write", type=click.Path(path_type=Path), help="Rewrite this file's section.")
def main(
    connections: int, rounds: int, seconds: float, variants: tuple[str, ...], pin: bool, output_format: str,
    write: Path | None,
) -> None:  # fmt: skip
    """Compare an Ottla that records with one that does not."""
    server_core, load_core = choose_cores() if pin else (None, None)
    names = ["off", *(variants or [name for name in VARIANTS if name != "off"])]
    rows: dict[tuple[str, str], Row] = {}
    of_turn = (connections, seconds, load_core)
    with tempfile.TemporaryDirectory() as directory, servers(names, server_core, Path(directory)) as found:
        beats = {name: beating(server, *of_turn) for name, server in found.items()}
        commits = {name: committing(server, *of_turn) for name, server in found.items()}
        for number in range(rounds):
            compare("heartbeat", beats, rows, number)
            compare("durable commit", commits, rows, number)
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    ordered = sorted(rows.values(), key=lambda row: row.load, reverse=True)
    about = describe(server_core is not None)
    if output_format == "json":
        click.echo(
            json.dumps([asdict(row) | {"cost": row.cost, "cpu_cost": row.cpu_cost} for row in ordered], indent=2)
        )
    else:
        for line in cells(ordered):
            click.echo(
                "  ".join(cell.ljust(width) for cell, width in zip(line, (16, 14, 19, 8, 7, 15, 8, 7, 12), strict=True))
            )
    if write is not None:
        rewrite_section(write, as_markdown(ordered, about))


if __name__ == "__main__":
    main()
