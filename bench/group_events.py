#!/usr/bin/env python3
"""Measure what the topic of group events costs one Ottla process: heartbeats, and rebalances, with it and without.

Two durable servers that differ in ``ottla.group.events.enable`` alone take turns; what is compared are the two turns of
one round, and the figure is the median of these pairs. A rebalance is of groups whose members all join again.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
from heartbeat_groups import MEMBERS_PER_GROUP, Crowd, form_groups, heartbeats
from rebalances import turn
from servers import Server, choose_cores, compile_generator, measure, running

VARIANTS = {"without": ("--set", "ottla.group.events.enable=false"), "with": ()}


@contextlib.contextmanager
def servers(core: int | None, directory: Path) -> Iterator[dict[str, Server]]:
    """A durable server for each variant."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(
                running(
                    "ottla",
                    core,
                    ["--data-dir", str(directory / name), "--set", "group.initial.rebalance.delay.ms=1000", *options],
                )
            )
            for name, options in VARIANTS.items()
        }


def paired(pairs: list[tuple[float, float]]) -> str:
    """Medians without and with, and the median of what each pair differs by."""
    without, with_it = (statistics.median(side) for side in zip(*pairs, strict=True))
    cost = statistics.median(b / a - 1 for a, b in pairs)
    return f"{without:12,.1f} {with_it:12,.1f} {cost:+10.1%}"


@click.command()
@click.option("--connections", default=50, show_default=True, type=click.IntRange(1), help="Of heartbeats.")
@click.option("--members", default=100, show_default=True, type=click.IntRange(1), help="That join again and again.")
@click.option("--rounds", default=15, show_default=True, type=click.IntRange(1))
@click.option("--seconds", default=1.0, show_default=True, type=click.FloatRange(0.1), help="Of heartbeats in a turn.")
@click.option("--rebalances", default=3, show_default=True, type=click.IntRange(1), help="In a turn.")
@click.option("--pin/--no-pin", default=True, help="One core for the servers, another for the generator.")
def main(connections: int, members: int, rounds: int, seconds: float, rebalances: int, pin: bool) -> None:
    """Compare an Ottla that writes group events with one that does not."""
    generator = compile_generator()
    server_core, load_core = choose_cores() if pin else (None, None)
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as directory, servers(server_core, Path(directory)) as served:
        beats = {name: heartbeats(form_groups(one, connections, prefix="beating")) for name, one in served.items()}
        crowds = {name: Crowd(one, members, MEMBERS_PER_GROUP) for name, one in served.items()}
        for crowd in crowds.values():
            crowd.rebalance()
        for number in range(rounds):
            names = [*VARIANTS] if number % 2 else [*reversed(VARIANTS)]
            runs = {
                name: measure(generator, served[name], beats[name], connections, 1, seconds, load_core)
                for name in names
            }
            turns = {name: turn(served[name], crowds[name], members, rebalances) for name in names}
            for what, of in (
                ("heartbeats a second", {name: run.responses / seconds for name, run in runs.items()}),
                ("CPU µs of a heartbeat", {name: run.cpu_us for name, run in runs.items()}),
                ("CPU µs of a member that rejoins", {name: one["cpu_us"] for name, one in turns.items()}),
                ("members a second", {name: one["per_second"] for name, one in turns.items()}),
            ):
                found.setdefault(what, []).append((of["without"], of["with"]))
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    click.echo(f"{'':34}{'without':>12} {'with':>12} {'cost':>10}")
    for what, pairs in found.items():
        click.echo(f"{what:34}{paired(pairs)}")


if __name__ == "__main__":
    main()
