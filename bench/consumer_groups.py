#!/usr/bin/env python3
"""Measure consumer groups (KIP-848) of one durable Ottla process beside classic groups, Apache Kafka and kfake.

What a heartbeat costs to whom nothing happens, beside a classic one; what it costs the server to bring a large group
from nothing to balance, beside a classic group; and how long others wait while very many partitions are assigned. The
servers take turns; README.md next to this file says more.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID, uuid4

import beside
import click
from consumer_members import ConsumerMember, balance, create
from consumer_members import heartbeats as consumer_heartbeats
from heartbeat_groups import Member, form_groups, heartbeats, join_all, sync_all
from report import Figures, describe, tell
from servers import (
    HERE,
    JUST_IN_TIME,
    BenchError,
    Load,
    Server,
    by_turns,
    choose_cores,
    compile_generator,
    cpu_seconds,
    measure,
    prepared,
    raise_file_limit,
    started,
    warm_up,
)

from ottla.broker.core.consumer_groups.assignors import ASSIGNORS
from ottla.broker.core.consumer_groups.assignors.spec import GroupSpec, MemberSpec, Target
from ottla.protocol.consumer_protocol import (
    Assignment,
    ConsumerTopicPartitions,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.steps import finished

SERVERS = ("ottla", "kafka", "kfake")
MEMBERS_PER_GROUP, JOINING_SECONDS = 20, 0.2
"""How large the groups are whose heartbeats are measured, and how often these are sent until a group is balanced."""
WAITER_SECONDS = 0.001
COLUMNS = {
    "per second": ("per_second", 0),
    "CPU µs": ("cpu_us", 2),
    "CPU s": ("cpu_s", 3),
    "seconds": ("seconds", 2),
    "longest wait of others, ms": ("max_ms", 1),
}
KINDS = ("classic", "consumer")
LASTING = (
    "--set",
    "group.consumer.max.session.timeout.ms=1800000",
    "--set",
    "group.consumer.session.timeout.ms=1800000",
)
"""Of Ottla: members do not expire while another server has its turn."""


def beat_load(connections: int) -> str:
    return f"heartbeat of a consumer group, {connections:,} connections"


def balance_load(members: int, partitions: int) -> str:
    return f"{members:,} members on {partitions:,} partitions, to balance"


def assign_load(name: str, members: int, partitions: int, what: str) -> str:
    return f"assignor {name}, {partitions:,} partitions to {members:,} members, {what}"


def row(server: Server, kind: str) -> str:
    """How the report calls a server with groups of a kind."""
    return server.name if kind == "consumer" else f"{server.name}-{kind}"


def settled(server: Server, connections: int) -> Load:
    """Heartbeats of the members of consumer groups that have come to rest."""
    everyone: list[ConsumerMember] = []
    for first in range(0, connections, MEMBERS_PER_GROUP):
        name = f"beating-{uuid4()}"
        create(server, name, MEMBERS_PER_GROUP)
        size = min(MEMBERS_PER_GROUP, connections - first)
        members = [ConsumerMember(server, name, name) for _ in range(size)]
        balance(members, MEMBERS_PER_GROUP, JOINING_SECONDS)
        everyone += members
    for member in everyone:
        member.close()
    return consumer_heartbeats(server, everyone)


def measure_heartbeats(
    servers: Sequence[Server], connections: int, rounds: int, seconds: float, warm: float, core: int | None,
    figures: Figures,
) -> None:  # fmt: skip
    generator = compile_generator()
    loads = {server.name: {"classic": heartbeats(form_groups(server, connections))} for server in servers}
    for server in servers:
        for load in (loads[server.name]["classic"], settled(server, connections)):
            warm_up(generator, server, load, connections, warm, core)
    for server in servers:  # only now: others took longer to warm up than a session lasts
        loads[server.name]["consumer"] = settled(server, connections)
    for server in by_turns(servers, rounds):
        for kind, load in loads[server.name].items():
            click.echo(f"{beat_load(connections)}: {row(server, kind)}", err=True)
            try:
                run = measure(generator, server, load, connections, 1, seconds, core)
            except BenchError as error:
                if server.name == "ottla":
                    raise
                figures.missing[f"{row(server, kind)}, {beat_load(connections)}"] = error.message
                continue
            figures.add(beat_load(connections), row(server, kind), per_second=run.per_second, cpu_us=run.cpu_us)


def to_balance(server: Server, kind: str, members: int, partitions: int) -> dict[str, float]:
    """CPU of the server, and time, from the first member's joining until each partition has its owner."""
    name = f"{kind}-{uuid4()}"
    create(server, name, partitions)
    if kind == "consumer":
        modern = [ConsumerMember(server, name, name) for _ in range(members)]
        return _costs(server, lambda: balance(modern, partitions), modern)
    subscription = encode_subscription(Subscription(topics=[name]))
    share = -(-partitions // members)
    assignment = encode_assignment(
        Assignment(assigned_partitions=[ConsumerTopicPartitions(topic=name, partitions=list(range(share)))])
    )
    classic = [Member(server, name, subscription) for _ in range(members)]

    def join() -> None:
        join_all(classic)
        sync_all(classic, assignment)

    return _costs(server, join, classic)


def _costs(
    server: Server, act: Callable[[], object], members: Sequence[ConsumerMember] | Sequence[Member]
) -> dict[str, float]:
    before, began = cpu_seconds(server), time.perf_counter()
    act()
    figures = {"cpu_s": cpu_seconds(server) - before, "seconds": time.perf_counter() - began}
    for member in members:
        member.close()
    return figures


def wait_of_others(server: Server, members: int, partitions: int) -> dict[str, float]:
    """The longest wait of a heartbeat of another group, from another process, while a group comes to balance."""
    command = [sys.executable, __file__, "--wait-at", f"{server.host}:{server.port}"]
    waiter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert waiter.stdin is not None and waiter.stdout is not None
    assert waiter.stdout.readline() == "ready\n"
    try:
        figures = to_balance(server, "consumer", members, partitions)
    finally:
        told, _ = waiter.communicate("over\n")
    return figures | {"max_ms": float(told)}


def wait_here(address: str) -> None:
    """The other process: heartbeat in a group of one's own until stdin ends, and print the longest wait."""
    host, _, port = address.rpartition(":")
    server = Server("waited for", 0, host, int(port))
    member = Member(server, f"waiting-{uuid4()}")
    join_all([member])
    sync_all([member])
    print("ready", flush=True)
    longest = 0.0
    with contextlib.suppress(PermissionError):  # it shares its core with the members, whom it is not to wait for
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    while not select.select([sys.stdin], [], [], WAITER_SECONDS)[0]:
        began = time.perf_counter()
        member.send_heartbeat()
        member.receive()
        longest = max(longest, time.perf_counter() - began)
    print(longest * 1e3)


def assignments(members: int, partitions: int, rounds: int, figures: Figures) -> None:
    """What the assignors by themselves take of this process: nobody had anything, and then one more member comes."""
    topic = UUID(int=uuid4().int)
    ids = [str(uuid4()) for _ in range(members + 1)]
    for name, assignor in ASSIGNORS.items():
        for _ in range(rounds):
            target: dict[str, Target] = {}
            for count in (members, members + 1):
                specs = [MemberSpec(one, None, (topic,), target.get(one, {})) for one in ids[:count]]
                began = time.thread_time()
                target = finished(assignor(GroupSpec(specs, {topic: partitions}, True)))
                what = "from nothing" if count == members else "one more member"
                load = assign_load(name, members, partitions, what)
                figures.add(load, "ottla", seconds=time.thread_time() - began)


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each server.")
@click.option("--seconds", default=1.0, show_default=True, type=click.FloatRange(0.1), help="Of heartbeats in a turn.")
@click.option("--connections", multiple=True, default=(50, 1000), show_default=True, type=click.IntRange(1))
@click.option("--members", default=1000, show_default=True, type=click.IntRange(2), help="Of the large group.")
@click.option("--partitions", default=10_000, show_default=True, type=click.IntRange(1), help="Of the large topic.")
@click.option("--only", multiple=True, type=click.Choice(SERVERS), help="Servers to run; repeatable.")
@click.option("--warm-up", "warm", default=15.0, show_default=True, type=click.FloatRange(0.1),
              help="Seconds of load before a JVM is measured.")  # fmt: skip
@click.option("--wait-at", hidden=True, help="Be the one that waits.")
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's section.")
def main(
    rounds: int, seconds: float, connections: tuple[int, ...], members: int, partitions: int, only: tuple[str, ...],
    warm: float, wait_at: str | None, write: Path | None,
) -> None:  # fmt: skip
    if wait_at is not None:
        wait_here(wait_at)
        return
    raise_file_limit()
    names, missing = prepared(only or SERVERS)
    figures = Figures(missing)
    server_core, core = choose_cores()
    if core is not None:
        os.sched_setaffinity(0, {core})
    (HERE / ".build").mkdir(exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="consumer-groups-", dir=HERE / ".build"))
    try:
        for count in connections:
            with started(names, server_core, data / str(count), options=LASTING) as servers:
                measure_heartbeats(servers, count, rounds, seconds, warm, core, figures)
        with started(names, server_core, data / "balance", options=LASTING) as servers:
            for server in servers:
                if server.name in JUST_IN_TIME:
                    until = time.monotonic() + warm
                    while time.monotonic() < until:
                        for kind in KINDS:
                            to_balance(server, kind, members, members)
            for server in by_turns(servers, rounds):
                for kind in KINDS:
                    click.echo(f"{balance_load(members, members)}: {row(server, kind)}", err=True)
                    costs = to_balance(server, kind, members, members)
                    figures.add(balance_load(members, members), row(server, kind), **costs)
            for server in servers:
                if server.name == "ottla":
                    for _ in range(rounds):
                        costs = wait_of_others(server, members, partitions)
                        figures.add(balance_load(members, partitions), server.name, **costs)
    finally:
        shutil.rmtree(data, ignore_errors=True)
    assignments(members, partitions, rounds, figures)
    about = describe(core is not None, beside.versions(names))
    tell("consumer_groups", figures, "Consumer groups", about, figures.table(COLUMNS, ("CPU µs", "CPU s")), write)


if __name__ == "__main__":
    main()
