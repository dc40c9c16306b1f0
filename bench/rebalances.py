#!/usr/bin/env python3
"""Measure what a member of a rebalance costs one durable Ottla process, all observers on, beside Apache Kafka, kfake
and an earlier Ottla.

All members of all groups join and sync once more, each on a connection of its own. The servers take turns; README.md
next to this file says more.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import beside
import click
from heartbeat_groups import Crowd
from report import Figures, describe, tell
from servers import HERE, JUST_IN_TIME, Server, by_turns, choose_cores, cpu_seconds, prepared, raise_file_limit, started

SERVERS = ("ottla", "before", "kafka", "kfake")
COLUMNS = {"members per second": ("per_second", 0), "CPU µs a member": ("cpu_us", 1)}


def turn(server: Server, crowd: Crowd, members: int, rebalances: int) -> dict[str, float]:
    """The figures of some rebalances."""
    before = cpu_seconds(server)
    seconds = sum(crowd.rebalance() for _ in range(rebalances))
    used = cpu_seconds(server) - before
    return {"per_second": rebalances * members / seconds, "cpu_us": used * 1e6 / rebalances / members}


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each server.")
@click.option("--rebalances", default=3, show_default=True, type=click.IntRange(1), help="In one turn.")
@click.option("--members", multiple=True, default=(1000, 5000), show_default=True, type=click.IntRange(1))
@click.option("--size", default=0, show_default=True, help="Members of a group; 0: one group of all.")
@click.option("--warm-up", "warm", default=15.0, show_default=True, type=click.FloatRange(0.1),
              help="Seconds of rebalances before a JVM is measured.")  # fmt: skip
@click.option("--before", metavar="COMMIT", default="", help="Measure the Ottla of a commit, too.")
@click.option("--only", multiple=True, type=click.Choice(SERVERS), help="Servers to run; repeatable.")
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's section.")
def main(
    rounds: int, rebalances: int, members: tuple[int, ...], size: int, warm: float, before: str, only: tuple[str, ...],
    write: Path | None,
) -> None:  # fmt: skip
    raise_file_limit()
    names, missing = prepared([name for name in only or SERVERS if name != "before" or before])
    figures = Figures(missing)
    server_core, core = choose_cores()
    if core is not None:
        os.sched_setaffinity(0, {core})
    data = Path(tempfile.mkdtemp(prefix="rebalances-", dir=HERE / ".build"))
    try:
        for count in members:
            with started(names, server_core, data / str(count), before) as servers:
                crowds = {}
                for server in servers:
                    crowds[server.name] = Crowd(server, count, size or count)
                    until = time.monotonic() + warm
                    while server.name in JUST_IN_TIME and time.monotonic() < until:
                        crowds[server.name].rebalance()
                    crowds[server.name].close()
                for server in by_turns(servers, rounds):
                    click.echo(f"rebalance, {count:,} members: {server.name}", err=True)
                    crowds[server.name].connect()  # all at once would be more connections than a process may have
                    taken = turn(server, crowds[server.name], count, rebalances)
                    figures.add(f"rebalance, {count:,} members", server.name, **taken)
                    crowds[server.name].close()
    finally:
        shutil.rmtree(data, ignore_errors=True)
    about = describe(core is not None, beside.versions(names))
    about |= {"groups": f"of {size} members" if size else "one of all members", "before": before or "none"}
    tell("rebalances", figures, "Rebalances", about, figures.table(COLUMNS, (*COLUMNS,)), write)


if __name__ == "__main__":
    main()
