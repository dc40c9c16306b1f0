#!/usr/bin/env python3
"""Measure whether a change costs CPU: heartbeats, commits, small produces and rebalances, beside an earlier commit.

Two durable servers, one of this tree and one of the commit, run all the time and take turns under the same load, the
other one first in every second pair. What is compared are the two turns of one pair. README.md next to this file says
more.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
from heartbeat_groups import Group, form_groups, heartbeats
from log import COMMITTED_TOPIC, commits
from report import describe, rewrite_section
from servers import BenchError, Load, Server, choose_cores, compile_generator, measure, running

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.headers import frame_request
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.records import BatchBuilder

HERE = Path(__file__).resolve().parent
PRODUCE_VERSION = 9
RECORD_BYTES = 100
MEETING = ("--set", "group.initial.rebalance.delay.ms=1000")
"""Long enough for all members of a group to meet in its first generation."""
REBALANCES = 2
"""In one turn."""
RESAMPLES = 10_000
SEED = 1


@dataclass(slots=True)
class Row:
    """One load: the CPU of a request in microseconds, before and now, for each pair."""

    load: str
    cpu_us: list[tuple[float, float]] = field(default_factory=list)

    def cost(self) -> tuple[float, float, float]:
        """By how much the CPU of a request has grown: the median of the pairs, and its 95 % interval (bootstrap)."""
        grown = [now / before - 1 for before, now in self.cpu_us]
        chance = random.Random(SEED)
        medians = sorted(statistics.median(chance.choices(grown, k=len(grown))) for _ in range(RESAMPLES))
        return statistics.median(grown), medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]


def produces(connections: int) -> Load:
    """Produce of one record, all to one partition."""
    builder = BatchBuilder()
    builder.append(None, bytes(RECORD_BYTES), 1_700_000_000_000)
    place = PartitionProduceData(index=0, records=builder.build())
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=COMMITTED_TOPIC, partition_data=[place])]
    )
    row = api(ApiKey.PRODUCE)
    body = row.request.layout(PRODUCE_VERSION).encode(request)
    frame = frame_request(ApiKey.PRODUCE, PRODUCE_VERSION, 0, "bench", body, flexible=True)[4:]
    answered = [_answer_bytes(code) for code in (0, -1)]
    error_at = next(at for at, (one, other) in enumerate(zip(*answered, strict=True)) if one != other)
    return Load([frame] * connections, len(answered[0]), error_at)


def _answer_bytes(error_code: int) -> bytes:
    place = PartitionProduceResponse(index=0, error_code=error_code)
    answer = ProduceResponse(responses=[TopicProduceResponse(name=COMMITTED_TOPIC, partition_responses=[place])])
    encode = api(ApiKey.PRODUCE).response.layout(PRODUCE_VERSION).response_encoder(header_tags=True, fused=True)
    return bytes(encode(answer, 0))


@contextlib.contextmanager
def tree_of(commit: str) -> Iterator[Path]:
    """The sources as a commit has them, in a folder that goes away afterwards.

    Raises:
        BenchError: there is no such commit here.
    """
    with tempfile.TemporaryDirectory(dir=HERE / ".build") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(HERE.parent), "worktree"]
        made = subprocess.run([*git, "add", "--detach", str(tree), commit], capture_output=True, text=True)
        if made.returncode:
            raise BenchError(made.stderr.strip())
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


@contextlib.contextmanager
def both(commit: str, core: int | None) -> Iterator[tuple[Server, Server]]:
    """A durable server of the commit, and one of this tree."""
    with contextlib.ExitStack() as stack:
        before = stack.enter_context(tree_of(commit))
        data = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=HERE / ".build")))
        found = []
        for name, tree in ("before", before), ("now", HERE.parent):
            options = ("--data-dir", str(data / name), "--create-topic", f"{COMMITTED_TOPIC}:1", *MEETING)
            found.append(stack.enter_context(running("ottla", core, options, tree / ".types")))
        yield found[0], found[1]


def rebalanced(server: Server, group: Group, members: int) -> float:
    """Server CPU in microseconds for each member, of a few rebalances of a group."""
    clock = (~server.pid << 3) | 2  # the clock of another process; see clock_getcpuclockid(3)
    began = time.clock_gettime_ns(clock)
    for _ in range(REBALANCES):
        group.rebalance()
    return (time.clock_gettime_ns(clock) - began) / 1000 / REBALANCES / members


def as_markdown(rows: Sequence[Row], about: dict[str, str]) -> str:
    """A section of RESULTS.md."""
    lines = ["## Beside an earlier commit", "", *(f"- {key}: {value}" for key, value in about.items()), ""]
    lines += ["| load | pairs | CPU µs before | now | grown by | 95 % interval |", "| --- " * 6 + "|"]
    for row in rows:
        before, now = (statistics.median(side) for side in zip(*row.cpu_us, strict=True))
        grown, low, high = row.cost()
        figures = f"{len(row.cpu_us)} | {before:.1f} | {now:.1f} | {grown:+.1%} | {low:+.1%} to {high:+.1%}"
        lines.append(f"| {row.load} | {figures} |")
    return "\n".join(lines)


@click.command(help=__doc__)
@click.argument("commit")
@click.option("--pairs", default=20, show_default=True, type=click.IntRange(2))
@click.option("--connections", default=50, show_default=True, type=click.IntRange(1))
@click.option("--members", default=200, show_default=True, type=click.IntRange(2), help="Of the group that rebalances.")
@click.option("--seconds", default=1.0, show_default=True, type=click.FloatRange(0.1), help="Of one turn.")
@click.option("--write", type=click.Path(path_type=Path), help="Rewrite this file's section.")
def main(commit: str, pairs: int, connections: int, members: int, seconds: float, write: Path | None) -> None:
    """See the module."""
    generator = compile_generator()
    server_core, load_core = choose_cores()
    rows: dict[str, Row] = {}
    with both(commit, server_core) as servers:
        loads = {
            "heartbeat": [heartbeats(form_groups(server, connections, prefix="beating")) for server in servers],
            "durable commit": [commits(connections)] * 2,
            "produce of one record": [produces(connections)] * 2,
        }
        groups = [Group(server, members) for server in servers]
        for number in range(pairs):
            order = (0, 1) if number % 2 else (1, 0)
            cost = {at: rebalanced(servers[at], groups[at], members) for at in order}
            rows.setdefault("rebalanced member", Row("rebalanced member")).cpu_us.append((cost[0], cost[1]))
            for load, of_server in loads.items():
                cpu_us = [0.0, 0.0]
                for at in order:
                    run = measure(generator, servers[at], of_server[at], connections, 1, seconds, load_core)
                    cpu_us[at] = run.cpu_us
                rows.setdefault(load, Row(load)).cpu_us.append((cpu_us[0], cpu_us[1]))
            print(f"pair {number + 1} of {pairs}", file=sys.stderr)
    section = as_markdown(list(rows.values()), describe(server_core is not None))
    click.echo(section)
    if write is not None:
        rewrite_section(write, section)


if __name__ == "__main__":
    main()
