#!/usr/bin/env python3
"""Measure what an open console costs the broker: many groups heartbeat, with somebody looking and without.

Two tabs are open: the overview and the page of one group. A small reader stands for the browser: it holds the same
streams and asks what the pages ask, so that the browser's own work does not disturb what is measured. README.md next
to this file says what is measured and how.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
from heartbeat_groups import Identity, form_groups, heartbeats
from report import describe, rewrite_section
from servers import BenchError, Load, Server, choose_cores, compile_generator, measure, pinned, running

HEARTBEAT_INTERVAL_S = 3.0
"""Kafka's default, heartbeat.interval.ms."""
CONNECTIONS = 100
"""They carry the heartbeats of all members: a broker's work is per request, not per connection."""
FORMED_AT_ONCE = 100
CLUSTER_EVERY_S = 5.0
"""How often the overview asks for the counts of the cluster."""
SETTLE_S = 6.0
"""The stream tells every group once, a hundred each half second: that is the opening, not the looking."""
GOAL = 0.10


@dataclass(frozen=True, slots=True)
class Turn:
    """One stretch of time. ``cpu`` is in cores."""

    open: bool
    seconds: float
    heartbeats: int
    cpu: float


@dataclass(slots=True)
class Results:
    """Pairs of turns, without and with the console, of one kind of load."""

    load: str
    pairs: list[tuple[Turn, Turn]] = field(default_factory=list)

    def cost_us(self, turn: Turn) -> float:
        """Broker CPU per heartbeat."""
        return turn.cpu * turn.seconds / turn.heartbeats * 1e6

    @property
    def growth(self) -> float:
        """How much more CPU a heartbeat costs with the console open: the median of the pairs."""
        return statistics.median(self.cost_us(on) / self.cost_us(off) - 1 for off, on in self.pairs)

    def row(self) -> tuple[str, ...]:
        """The line of the table."""
        off, on = ([pair[at] for pair in self.pairs] for at in (0, 1))
        rate = statistics.median(one.heartbeats / one.seconds for one in [*off, *on])
        cells = [self.load, f"{rate:,.0f}"]
        for turns in (off, on):
            cells.append(f"{statistics.median(one.cpu for one in turns):.2%}")
        for turns in (off, on):
            cells.append(f"{statistics.median(map(self.cost_us, turns)):.2f}")
        return (*cells, f"{self.growth:+.1%}")


HEADINGS = ("load", "heartbeats/s", "cores closed", "cores open", "CPU µs closed", "CPU µs open", "growth")


# -- the console


def look(url: str, group: str) -> None:
    """Hold what two tabs of the console hold, and ask what they ask, until the process is ended."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    name = quote(group, safe="")

    def get(path: str) -> None:
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(url + path, timeout=30) as answer:
            answer.read()

    selector = selectors.DefaultSelector()
    for query in ("", f"?group={name}"):
        stream = socket.create_connection((host, int(port)))
        stream.sendall(f"GET /v1/stream{query} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        selector.register(stream, selectors.EVENT_READ)
    for path in ("/v1/groups?limit=1000", "/v1/sentinels", "/v1/cluster"):
        get(path)
    for part in ("", "/offsets", "/why?last=5", "/timeline?last=50"):
        get(f"/v1/groups/{name}{part}")
    print("open", flush=True)
    asked = time.monotonic()
    while True:
        for key, _ in selector.select(max(0.0, asked + CLUSTER_EVERY_S - time.monotonic())):
            if not key.fileobj.recv(1 << 20):  # type: ignore[union-attr]
                raise SystemExit("a stream ended")
        if time.monotonic() - asked >= CLUSTER_EVERY_S:
            asked = time.monotonic()
            get("/v1/cluster")


@contextlib.contextmanager
def console(url: str, group: str, core: int | None) -> Iterator[subprocess.Popen[str]]:
    """An open console; whoever wants to know whether it is still there asks for its exit code."""
    command = [sys.executable, __file__, "--look", url, "--group", group]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=pinned(core))
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "open\n":
            raise BenchError("the console could not be opened")
        time.sleep(SETTLE_S)
        yield process
        if process.poll() is not None:
            raise BenchError("the console was closed while it was measured")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


# -- the load


def cpu_seconds(pid: int) -> float:
    """User and system time of a process, by its CPU clock."""
    return time.clock_gettime((~pid << 3) | 2)


def paced(server: Server, load: Load, seconds: float) -> int:
    """Send every member's heartbeat once in HEARTBEAT_INTERVAL_S, evenly; returns how many were answered well."""
    frames = [len(frame).to_bytes(4, "big") + frame for frame in load.frames]
    sockets = [socket.create_connection((server.host, server.port)) for _ in range(CONNECTIONS)]
    for one in sockets:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sent, began = 0, time.monotonic()
    per_second = len(frames) / HEARTBEAT_INTERVAL_S
    try:
        while (now := time.monotonic() - began) < seconds:
            due = min(int(now * per_second), sent + CONNECTIONS)
            for number in range(sent, due):
                sockets[number % CONNECTIONS].sendall(frames[number % len(frames)])
            for number in range(sent, due):
                answer = sockets[number % CONNECTIONS].recv(load.response_bytes, socket.MSG_WAITALL)
                if len(answer) != load.response_bytes or answer[load.error_at : load.error_at + 2] != b"\0\0":
                    raise BenchError(f"a heartbeat was answered {answer.hex()}")
            sent = due
            time.sleep(0.002)
    finally:
        for one in sockets:
            one.close()
    return sent


@dataclass(frozen=True, slots=True)
class Bench:
    """A broker with its groups, and how to load it."""

    server: Server
    url: str
    load: Load
    group: str
    core: int | None
    generator: Path

    def turn(self, kind: str, is_open: bool, seconds: float) -> Turn:
        """One stretch of load, with the console or without."""
        with contextlib.ExitStack() as stack:
            if is_open:
                stack.enter_context(console(self.url, self.group, self.core))
            else:
                time.sleep(SETTLE_S)  # as idle before as with the console
            if kind == "saturated":
                run = measure(self.generator, self.server, self.load, CONNECTIONS, 1, seconds, self.core)
                return Turn(is_open, run.seconds, run.responses, run.server_cpu_seconds / run.seconds)
            began, cpu = time.monotonic(), cpu_seconds(self.server.pid)
            count = paced(self.server, self.load, seconds)
            took = time.monotonic() - began
            return Turn(is_open, took, count, (cpu_seconds(self.server.pid) - cpu) / took)


def form(server: Server, groups: int, size: int) -> list[Identity]:
    """Form the groups, some at a time."""
    members: list[Identity] = []
    for first in range(0, groups, FORMED_AT_ONCE):
        count = min(FORMED_AT_ONCE, groups - first)
        members += form_groups(server, count * size, size, f"bench-{first:05}")
    return members


def run_all(groups: int, size: int, rounds: int, seconds: float, pin: bool, kinds: Sequence[str]) -> list[Results]:
    """Measure everything.

    Raises:
        BenchError: the broker could not be started or loaded.
    """
    broker_core, other_core = choose_cores() if pin else (None, None)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--ephemeral", "--http", str(port), "--set", "group.initial.rebalance.delay.ms=1000"]
    with running("ottla", broker_core, options) as server:
        members = form(server, groups, size)
        if other_core is not None:
            os.sched_setaffinity(0, {other_core})
        bench = Bench(
            server,
            f"http://127.0.0.1:{port}",
            heartbeats(members),
            members[0].group_id,
            other_core,
            compile_generator(),
        )
        found = []
        for kind in kinds:
            results = Results(kind)
            bench.turn(kind, False, 1.0)
            for number in range(rounds):
                # Each goes first in turn, so that neither always follows the other.
                order = (False, True) if number % 2 == 0 else (True, False)
                turns = {is_open: bench.turn(kind, is_open, seconds) for is_open in order}
                results.pairs.append((turns[False], turns[True]))
            found.append(results)
        return found


def as_markdown(found: Sequence[Results], about: dict[str, str]) -> str:
    """The section of RESULTS.md."""
    lines = ["## Console", "", *(f"- {name}: {value}" for name, value in about.items()), ""]
    lines += ["| " + " | ".join(HEADINGS) + " |", "| --- |" + " ---: |" * (len(HEADINGS) - 1)]
    lines += ["| " + " | ".join(results.row()) + " |" for results in found]
    return "\n".join([*lines, "", *(f"- {remark}" for remark in remarks(found))]) + "\n"


def remarks(found: Sequence[Results]) -> list[str]:
    """The goal in words."""
    return [
        f"{'reached' if one.growth < GOAL else 'missed'}: {one.growth:+.1%} broker CPU, {one.load} "
        f"(goal: less than {GOAL:.0%} more)"
        for one in found
    ]


def as_plain(found: Sequence[Results]) -> str:
    """Aligned columns."""
    lines = [HEADINGS, *(results.row() for results in found)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    return "\n".join([*table, "", *remarks(found)])


@click.command(help=__doc__)
@click.option("--groups", default=1_000, show_default=True, type=click.IntRange(1))
@click.option("--members", default=10, show_default=True, type=click.IntRange(1), help="Of each group.")
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Pairs of turns.")
@click.option("--seconds", default=10.0, show_default=True, type=click.FloatRange(0.5), help="Of one turn.")
@click.option("--load", "kinds", multiple=True, type=click.Choice(["paced", "saturated"]), help="Repeatable. [both]")
@click.option("--pin/--no-pin", default=True, show_default=True, help="Broker and all others on a core each.")
@click.option("--format", "style", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's section.")
@click.option("--look", "url", hidden=True)
@click.option("--group", hidden=True, default="")
def main(
    groups: int,
    members: int,
    rounds: int,
    seconds: float,
    kinds: tuple[str, ...],
    pin: bool,
    style: str,
    write: Path | None,
    url: str | None,
    group: str,
) -> None:
    if url:
        look(url, group)
        return
    found = run_all(groups, members, rounds, seconds, pin, kinds or ("paced", "saturated"))
    about = {**describe(pin), "groups": f"{groups:,} of {members} members, each of them heartbeats"}
    if write is not None:
        rewrite_section(write, as_markdown(found, about))
    if style == "json":
        loads: list[dict[str, Any]] = [
            {"load": one.load, "growth": one.growth, "pairs": [[asdict(off), asdict(on)] for off, on in one.pairs]}
            for one in found
        ]
        click.echo(json.dumps({"about": about, "loads": loads}, indent=2))
    else:
        click.echo(as_plain(found))


if __name__ == "__main__":
    main()
