#!/usr/bin/env python3
"""Measure what a second node gives: commits and heartbeats of one node, and of `ottla serve --nodes 2`.

Each has two generators, which share all cores with the servers, and each of the two nodes has one of them: its groups
are those that the node coordinates, as clients would find them. They take turns, and what is compared are the two turns
of a pair. README.md next to this file says more.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from pathlib import Path

import click
from commits import commits, fill
from heartbeat_groups import Identity, form_groups, heartbeats
from report import Figures, describe, interval, tell
from servers import HERE, OTTLA_OPTIONS, Load, Run, Server, compile_generator, measure, raise_file_limit, running

from ottla.protocol.groups import coordinator_partition
from ottla.protocol.stored.cluster_file import read_cluster

GENERATORS = 2
SHARDS = 50
"""Partitions of ``__consumer_offsets``; nodes have them by turns."""
CONNECTIONS = (64, 1024)
"""Of all generators: so few that the nodes wait for the disk a third of the time, and so many that they do not."""
COLUMNS = {
    "per second": ("per_second", 0),
    "CPU µs": ("cpu_us", 1),
    "p50 µs": ("p50_us", 0),
    "p99 µs": ("p99_us", 0),
}


@contextlib.contextmanager
def nodes(count_of_nodes: int, directory: Path) -> Iterator[list[Server]]:
    """One node as it is without ``--nodes``, or several; each keeps its data below the directory."""
    where = directory / f"of-{count_of_nodes}"
    options = ["--data-dir", str(where), *OTTLA_OPTIONS]
    if count_of_nodes == 1:
        with running("ottla", None, options) as server:
            yield [server]
        return
    with running("ottla", None, [*options, "--nodes", str(count_of_nodes)]):
        found = read_cluster(where)
        assert found is not None
        servers = []
        for node in found.nodes.values():
            host, _, port = node.address.rpartition(":")
            servers.append(Server(f"node {node.node_id}", node.pid, host, int(port)))
        yield servers


class Side:
    """The servers of one node or of two, and which groups each of them has."""

    def __init__(self, servers: Sequence[Server], connections: int) -> None:
        self.servers, self.connections = servers, connections
        self._first = 0
        fill(servers[0], 1)

    def of(self, place: int) -> Callable[[str], bool]:
        """Whether a group is coordinated by a server."""
        number = len(self.servers)
        return lambda group_id: coordinator_partition(group_id, SHARDS) % number == place % number

    def members(self) -> list[list[Identity]]:
        """Members of real groups, for each generator."""
        each = self.connections // GENERATORS
        return [
            form_groups(
                self.servers[place % len(self.servers)],
                each,
                prefix=f"beating-{self.connections}-{place}",
                where=self.of(place),
            )
            for place in range(GENERATORS)
        ]

    def committers(self) -> list[list[Identity]]:
        """Groups without members, for each generator."""
        each = self.connections // GENERATORS
        return [
            [Identity(name, "", -1) for name in islice(filter(self.of(place), names(place)), each)]
            for place in range(GENERATORS)
        ]

    def commit(self, committers: Sequence[Sequence[Identity]], seconds: float) -> dict[str, float]:
        """One turn of commits, whose offsets go on where they were."""
        runs = self.load([commits(some, 1, self._first) for some in committers], seconds)
        self._first += max(run.most_sent for run in runs)
        return self.taken(runs)

    def load(self, loads: Sequence[Load], seconds: float) -> list[Run]:
        """Have all generators load their servers at once."""
        generator = compile_generator()

        def run(place: int) -> Run:
            server, load = self.servers[place % len(self.servers)], loads[place]
            return measure(generator, server, load, self.connections // GENERATORS, 1, seconds, None)

        with ThreadPoolExecutor(GENERATORS) as pool:
            return list(pool.map(run, range(GENERATORS)))

    def taken(self, runs: Sequence[Run]) -> dict[str, float]:
        """The figures of one turn. Of one server each generator has measured the whole CPU."""
        used = sum(run.server_cpu_seconds for run in runs) * len(self.servers) / GENERATORS
        return {
            "per_second": sum(run.per_second for run in runs),
            "cpu_us": used / sum(run.responses for run in runs) * 1e6,
            "p50_us": max(run.p50_us for run in runs),
            "p99_us": max(run.p99_us for run in runs),
        }


def names(place: int) -> Iterator[str]:
    """Names of groups, all of one length."""
    return (f"alone-{place}-{number:06d}" for number in count())


def compare(figures: Figures, one: Side, two: Side, pairs: int, seconds: float) -> Iterator[str]:
    """Have both sides take turns, keep what was measured, and say what two nodes gain."""
    beats = {id(side): [heartbeats(some) for some in side.members()] for side in (one, two)}
    committing = {id(side): side.committers() for side in (one, two)}
    turns: dict[str, Callable[[Side], dict[str, float]]] = {
        "commits": lambda side: side.commit(committing[id(side)], seconds),
        "heartbeats": lambda side: side.taken(side.load(beats[id(side)], seconds)),
    }
    for what, turn in turns.items():
        load = f"{what} on {one.connections:,} connections"
        ratios = []
        for number in range(pairs):
            click.echo(f"{load}: pair {number + 1} of {pairs}", err=True)
            found = {id(side): turn(side) for side in ((one, two) if number % 2 else (two, one))}
            for name, side in (("one-node", one), ("two-nodes", two)):
                figures.add(load, name, **found[id(side)])
            ratios.append(found[id(two)]["per_second"] / found[id(one)]["per_second"])
            figures.add(f"{load}, two nodes", "ottla", gained=ratios[-1])
        low, high = interval(ratios)
        middle = statistics.median(ratios)
        yield f"{load}: two nodes have {middle:.2f} times the rate of one (95 %: {low:.2f} to {high:.2f})"


@click.command(help=__doc__)
@click.option("--pairs", default=12, show_default=True, type=click.IntRange(2))
@click.option("--seconds", default=2.0, show_default=True, type=click.FloatRange(0.1), help="Of one turn.")
@click.option(
    "--connections",
    "sizes",
    default=CONNECTIONS,
    show_default=True,
    multiple=True,
    type=click.IntRange(2),
    help="Of all generators; several times for several sizes.",
)
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's section.")
def main(pairs: int, seconds: float, sizes: Sequence[int], write: Path | None) -> None:
    raise_file_limit()
    figures = Figures()
    (HERE / ".build").mkdir(exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="nodes-", dir=HERE / ".build"))
    remarks: list[str] = []
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, data, ignore_errors=True)
        served = [stack.enter_context(nodes(number, data)) for number in (1, 2)]
        for connections in sizes:
            one, two = (Side(servers, connections) for servers in served)
            remarks += compare(figures, one, two, pairs, seconds)
    shown = Figures()
    shown.found = {key: values for key, values in figures.found.items() if key[1] != "ottla"}
    about = describe(False)
    about["load"] = (
        f"{' and '.join(f'{size:,}' for size in sizes)} connections, one request at a time on each, "
        f"from {GENERATORS} generators; "
        f"{pairs} pairs of turns of {seconds} s"
    )
    tell("nodes", figures, "Several nodes", about, shown.table(COLUMNS), write, remarks)


if __name__ == "__main__":
    main()
