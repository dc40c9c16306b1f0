#!/usr/bin/env python3
"""Measure what the topic of group events costs one Ottla process: heartbeats, and rebalances, with it and without.

Two durable servers that differ in ``ottla.group.events.enable`` alone take turns; what is compared are the two turns of
one round, and the figure is the median of these pairs. A rebalance is of groups whose members all join again.
"""

from __future__ import annotations

import contextlib
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
from heartbeat_groups import JOIN_GROUP, MEMBERS_PER_GROUP, Member, form_groups, heartbeats, join_all
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


def cpu_seconds(server: Server) -> float:
    """CPU time that a server has used."""
    return int(Path(f"/proc/{server.pid}/schedstat").read_text().split()[0]) / 1e9


class Rejoining(Member):
    """A member that says something else each time: whoever of a Stable group does that makes it rebalance."""

    times = 0

    def send(self, api_key: int, api_version: int, body: bytes) -> None:
        if api_key == JOIN_GROUP:
            self.times += 1
            body = body.removesuffix(bytes(4)) + struct.pack(">iI", 4, self.times)
        super().send(api_key, api_version, body)


class Crowd:
    """Members of some groups that keep their connections."""

    def __init__(self, server: Server, members: int) -> None:
        self.server = server
        self.members = [Rejoining(server, f"churned-{number // MEMBERS_PER_GROUP}") for number in range(members)]

    def rebalance(self) -> float:
        """Let each group form a generation more; how long it took, in seconds."""
        began = time.perf_counter()
        join_all(self.members)
        groups: dict[str, list[str]] = {}
        for member in self.members:
            groups.setdefault(member.group_id, []).append(member.member_id)
        for member in self.members:
            member.send_sync(groups[member.group_id] if member.member_id == member.leader_id else [])
        for member in self.members:
            member.receive_sync()
        return time.perf_counter() - began

    def turn(self, rebalances: int) -> tuple[float, float]:
        """CPU µs of the server for a member and generation, and milliseconds of a rebalance (median)."""
        before = cpu_seconds(self.server)
        took = [self.rebalance() for _ in range(rebalances)]
        used = cpu_seconds(self.server) - before
        return used / rebalances / len(self.members) * 1e6, statistics.median(took) * 1e3


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
@click.option("--rebalances", default=20, show_default=True, type=click.IntRange(1), help="In a turn.")
@click.option("--pin/--no-pin", default=True, help="One core for the servers, another for the generator.")
def main(connections: int, members: int, rounds: int, seconds: float, rebalances: int, pin: bool) -> None:
    """Compare an Ottla that writes group events with one that does not."""
    generator = compile_generator()
    server_core, load_core = choose_cores() if pin else (None, None)
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as directory, servers(server_core, Path(directory)) as served:
        beats = {name: heartbeats(form_groups(one, connections, prefix="beating")) for name, one in served.items()}
        crowds = {name: Crowd(one, members) for name, one in served.items()}
        for crowd in crowds.values():
            crowd.turn(2)
        for number in range(rounds):
            names = [*VARIANTS] if number % 2 else [*reversed(VARIANTS)]
            runs = {
                name: measure(generator, served[name], beats[name], connections, 1, seconds, load_core)
                for name in names
            }
            turns = {name: crowds[name].turn(rebalances) for name in names}
            for what, of in (
                ("heartbeats a second", {name: run.responses / seconds for name, run in runs.items()}),
                ("CPU µs of a heartbeat", {name: run.cpu_us for name, run in runs.items()}),
                ("CPU µs of a member that rejoins", {name: turn[0] for name, turn in turns.items()}),
                (f"ms of a rebalance of {members}", {name: turn[1] for name, turn in turns.items()}),
            ):
                found.setdefault(what, []).append((of["without"], of["with"]))
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    click.echo(f"{'':34}{'without':>12} {'with':>12} {'cost':>10}")
    for what, pairs in found.items():
        click.echo(f"{what:34}{paired(pairs)}")


if __name__ == "__main__":
    main()
