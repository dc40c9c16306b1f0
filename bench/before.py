#!/usr/bin/env python3
"""Measure whether a change costs CPU: heartbeats, commits, small produces and rebalances, beside an earlier commit.

Two durable servers, one of this tree and one of the commit, run all the time and take turns under the same load, the
other one first in every second pair. What is compared are the two turns of one pair. README.md next to this file says
more.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
from commits import TOPIC, Committers, Kind, fill
from heartbeat_groups import Crowd, form_groups, heartbeats
from report import Figures, describe, interval, rewrite_section
from servers import HERE, Load, Server, choose_cores, compile_generator, cpu_seconds, framed, measure, started

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.protocol.records import BatchBuilder

PRODUCE_VERSION = 9
RECORD_BYTES = 100
REBALANCES = 2
"""In one turn."""


@dataclass(slots=True)
class Row:
    """One load: the CPU of a request in microseconds, before and now, for each pair."""

    load: str
    cpu_us: list[tuple[float, float]] = field(default_factory=list)

    def cost(self) -> tuple[float, float, float]:
        """By how much the CPU of a request has grown: the median of the pairs, and its 95 % interval."""
        grown = [now / before - 1 for before, now in self.cpu_us]
        return statistics.median(grown), *interval(grown)


def produces(connections: int) -> Load:
    """Produce of one record, all to one partition."""
    builder = BatchBuilder()
    builder.append(None, bytes(RECORD_BYTES), 1_700_000_000_000)
    place = PartitionProduceData(index=0, records=builder.build())
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=[place])]
    )
    frame = framed(request, PRODUCE_VERSION)[4:]
    answered = [_answer_bytes(code) for code in (0, -1)]
    error_at = next(at for at, (one, other) in enumerate(zip(*answered, strict=True)) if one != other)
    return Load([frame] * connections, len(answered[0]), error_at)


def _answer_bytes(error_code: int) -> bytes:
    place = PartitionProduceResponse(index=0, error_code=error_code)
    answer = ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=[place])])
    encode = api(ApiKey.PRODUCE).response.layout(PRODUCE_VERSION).response_encoder(header_tags=True, fused=True)
    return bytes(encode(answer, 0))


def rebalanced(server: Server, crowd: Crowd, members: int) -> float:
    """Server CPU in microseconds for each member, of a few rebalances of a group."""
    began = cpu_seconds(server)
    for _ in range(REBALANCES):
        crowd.rebalance()
    return (cpu_seconds(server) - began) * 1e6 / REBALANCES / members


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


LOADS = ("rebalanced member", "heartbeat", "durable commit", "produce of one record")


def turns(server: Server, connections: int, members: int, seconds: float) -> dict[str, Callable[[], float]]:
    """One turn of each load on a server: the CPU of a request, or of a member, in microseconds."""
    generator, (_, core) = compile_generator(), choose_cores()
    fill(server)
    crowd = Crowd(server, members, members)
    beats = heartbeats(form_groups(server, connections, prefix="beating"))
    committers = Committers(generator, server, Kind(connections), core)
    one_record = produces(connections)

    def cpu_us(load: Load) -> float:
        return measure(generator, server, load, connections, 1, seconds, core).cpu_us

    return {
        "rebalanced member": lambda: rebalanced(server, crowd, members),
        "heartbeat": lambda: cpu_us(beats),
        "durable commit": lambda: committers.turn(seconds)["cpu_us"],
        "produce of one record": lambda: cpu_us(one_record),
    }


@click.command(help=__doc__)
@click.argument("commit")
@click.option("--pairs", default=20, show_default=True, type=click.IntRange(2))
@click.option("--connections", default=50, show_default=True, type=click.IntRange(1))
@click.option("--members", default=200, show_default=True, type=click.IntRange(2), help="Of the group that rebalances.")
@click.option("--seconds", default=1.0, show_default=True, type=click.FloatRange(0.1), help="Of one turn.")
@click.option("--only", multiple=True, type=click.Choice(LOADS), help="Loads to put on both; repeatable.")
@click.option("--write", type=click.Path(path_type=Path), help="Rewrite this file's section.")
def main(
    commit: str, pairs: int, connections: int, members: int, seconds: float, only: tuple[str, ...], write: Path | None
) -> None:
    """See the module."""
    server_core, _ = choose_cores()
    rows = [Row(load) for load in only or LOADS]
    figures = Figures()
    data = Path(tempfile.mkdtemp(prefix="before-", dir=HERE / ".build"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, data, ignore_errors=True)
        servers = stack.enter_context(started(("before", "ottla"), server_core, data, commit))
        found = [turns(server, connections, members, seconds) for server in servers]
        for number in range(pairs):
            order = (0, 1) if number % 2 else (1, 0)
            for row in rows:
                cost = {at: found[at][row.load]() for at in order}
                row.cpu_us.append((cost[0], cost[1]))
                figures.add(row.load, "ottla", grown=cost[1] / cost[0] - 1)
            print(f"pair {number + 1} of {pairs}", file=sys.stderr)
    section = as_markdown(rows, describe(server_core is not None))
    click.echo(section)
    if write is not None:
        figures.save("before")
        rewrite_section(write, section)


if __name__ == "__main__":
    main()
