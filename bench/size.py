#!/usr/bin/env python3
"""Measure one durable Ottla process with very many members, groups and offsets.

A crowd: 100,000 members of 10,000 groups heartbeat, fifty on a connection; and a few of them do so while somebody
describes all groups, and while one group of 10,000 members rebalances. A past: a million offsets, and 200,000 and a
million groups with one offset each, that a start finds in its data directory. README.md next to this file says more.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from heartbeat_groups import Crowd, Identity, Member, heartbeats, join_all, sync_all
from report import Figures, describe, tell
from servers import (
    HERE,
    BenchError,
    Load,
    Run,
    Server,
    ask,
    choose_cores,
    compile_generator,
    cpu_seconds,
    measure,
    memory_bytes,
    raise_file_limit,
    started,
)

from ottla.broker.engine import LogConfig
from ottla.broker.storage.local.engine import LocalEngine
from ottla.broker.storage.local.layout import Layout
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.offsets_topic import OffsetValue, encode_offset_value, offset_key
from ottla.protocol.records import BatchBuilder

MEMBERS_OF_A_GROUP, CONNECTIONS, PERIOD_MS = 10, 2_000, 3_000
FEW, FEW_CONNECTIONS, FEW_PERIOD_MS = 1_000, 50, 1_000
"""Members that heartbeat beside a long request."""
MOST_IN_FLIGHT = 100
SHARDS, BATCH_RECORDS = 50, 1_000
LOADING, POLL_SECONDS, LOADED_WITHIN_SECONDS = 14, 0.1, 300.0
LIST_VERSION, DESCRIBE_VERSION, FIND_VERSION = 2, 4, 2
COLUMNS = {
    "CPU s": ("cpu_s", 2),
    "of a core": ("of_a_core", 3),
    "MB": ("mb", 0),
    "p50 ms": ("p50_ms", 2),
    "p99 ms": ("p99_ms", 2),
    "longest ms": ("max_ms", 1),
    "seconds": ("seconds", 2),
}


def form(server: Server, members: int) -> list[Identity]:
    """Members that share connections, none with another one of its group; connection i has each i-th of them."""
    connections = [Member(server, "") for _ in range(min(CONNECTIONS, members))]
    found: list[Identity] = []
    while len(found) < members:
        for number, member in enumerate(connections, len(found)):
            member.group_id, member.member_id = f"crowd-{number // MEMBERS_OF_A_GROUP:06d}", ""
        join_all(connections)
        sync_all(connections)
        found += [Identity(one.group_id, one.member_id, one.generation) for one in connections]
    for member in connections:
        member.close()
    return found


class CrowdBench:
    """What is done to the server with the crowd."""

    def __init__(self, server: Server, figures: Figures, core: int | None) -> None:
        self._server, self._figures, self._core = server, figures, core
        self._generator = compile_generator()

    def crowd(self, members: int, seconds: float) -> list[Identity]:
        """All members heartbeat for a time."""
        identities = form(self._server, members)
        self._note(
            f"{members:,} members heartbeat", self._beat(identities, CONNECTIONS, PERIOD_MS, seconds), memory=True
        )
        return identities

    def beside(self, what: str, identities: list[Identity], seconds: float, action: Callable[[], object]) -> None:
        """A few members heartbeat while something else is done again and again."""
        done = 0
        self._beat(identities[:FEW], FEW_CONNECTIONS, FEW_PERIOD_MS, 0.1)
        with ThreadPoolExecutor(1) as pool:
            beating = pool.submit(self._beat, identities[:FEW], FEW_CONNECTIONS, FEW_PERIOD_MS, seconds)
            # The generator is told from a thread of its own, and shall be served before this one.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
            began = time.perf_counter()
            while not done or time.perf_counter() - began < seconds:
                action()
                done += 1
            took = (time.perf_counter() - began) / done
            self._note(f"heartbeats beside {what}", beating.result())
        self._figures.add(f"heartbeats beside {what}", self._server.name, seconds=took)

    def _beat(self, identities: list[Identity], connections: int, period_ms: int, seconds: float) -> Run:
        of_all = heartbeats(identities)
        load = Load(of_all.frames, of_all.response_bytes, of_all.error_at, period_ms=period_ms)
        return measure(
            *(self._generator, self._server, load, min(connections, len(identities)), MOST_IN_FLIGHT),
            *(seconds, self._core),
        )

    def _note(self, load: str, run: Run, *, memory: bool = False) -> None:
        found = {"p50_ms": run.p50_us / 1e3, "p99_ms": run.p99_us / 1e3, "max_ms": run.max_us / 1e3}
        if memory:
            found |= {"of_a_core": run.server_cpu_seconds / run.seconds, "mb": memory_bytes(self._server) / 1e6}
        self._figures.add(load, self._server.name, **found)


def keys(groups: int, offsets: int) -> Iterator[tuple[int, bytes]]:
    """Which log each committed offset belongs to, and its key."""
    for number in range(groups):
        name = f"billing-{number:07d}"
        shard = coordinator_partition(name, SHARDS)
        for partition in range(offsets):
            yield shard, offset_key(name, f"orders-{partition // 10}", partition % 10)


async def commit_all(directory: Path, topic_id: uuid.UUID, groups: int, offsets: int) -> None:
    """Put offsets into the logs of a data directory whose broker has ended, through its storage engine."""
    engine = LocalEngine(str(directory), node_id=1, new_uuid=uuid.uuid4)
    await engine.open()
    logs = [await engine.open_log(OFFSETS_TOPIC, topic_id, shard, LogConfig()) for shard in range(SHARDS)]
    now_ms = int(time.time() * 1000)
    value = encode_offset_value(OffsetValue(offset=1234, metadata="", commit_timestamp=now_ms))
    held: dict[int, list[bytes]] = {shard: [] for shard in range(SHARDS)}

    async def append(shard: int) -> None:
        builder, stored = BatchBuilder(), asyncio.get_running_loop().create_future()
        for key in held[shard]:
            builder.append(key, value, now_ms)
        count = len(held[shard])
        held[shard].clear()
        logs[shard].append(
            builder.build(), count=count, max_timestamp_ms=now_ms, done=lambda _, e: stored.set_result(e)
        )
        if (error := await stored) is not None:
            raise error

    for shard, key in keys(groups, offsets):
        held[shard].append(key)
        if len(held[shard]) == BATCH_RECORDS:
            await append(shard)
    for shard in range(SHARDS):
        if held[shard]:
            await append(shard)
    await engine.close()


def listed(server: Server) -> int | None:
    """How many groups there are; None while they are being loaded."""
    answer = ask(server, ListGroupsRequest(), LIST_VERSION)
    return None if int.from_bytes(answer[4:6], "big") == LOADING else int.from_bytes(answer[6:10], "big")


def past(figures: Figures, core: int | None, directory: Path, groups: int, offsets: int) -> None:
    """A broker starts with so many groups of so many offsets each."""
    load = f"start with {groups * offsets:,} offsets of {groups:,} groups"
    click.echo(load, err=True)
    with started(["ottla"], core, directory) as (server,):
        ask(server, FindCoordinatorRequest(key="any", key_type=0), FIND_VERSION)  # has it make the topic
    state = json.loads(Path(Layout(str(directory / "ottla")).catalog).read_text())["state"]
    topic_id = uuid.UUID(state["topics"][OFFSETS_TOPIC]["topic_id"])
    asyncio.run(commit_all(directory / "ottla", topic_id, groups, offsets))
    began = time.perf_counter()
    with started(["ottla"], core, directory) as (server,):
        while (found := listed(server)) is None:
            if time.perf_counter() - began > LOADED_WITHIN_SECONDS:
                raise BenchError("the groups were not loaded in time")
            time.sleep(POLL_SECONDS)
        taken = {"seconds": time.perf_counter() - began, "cpu_s": cpu_seconds(server)}
        if found != groups:
            raise BenchError(f"{found:,} groups of {groups:,} are listed")
        time.sleep(1)
        figures.add(load, server.name, **taken, mb=memory_bytes(server) / 1e6)
        began, before = time.perf_counter(), cpu_seconds(server)
        listed(server)
        taken = {"seconds": time.perf_counter() - began, "cpu_s": cpu_seconds(server) - before}
        figures.add(f"ListGroups of {groups:,} groups", server.name, **taken)
    shutil.rmtree(directory)


@click.command(help=__doc__)
@click.option("--members", default=100_000, show_default=True, type=click.IntRange(1000), help="Of the crowd.")
@click.option("--seconds", default=600.0, show_default=True, type=click.FloatRange(0.1), help="That they heartbeat.")
@click.option("--beside", "beside_seconds", default=10.0, show_default=True, type=click.FloatRange(0.1),
              help="Seconds of heartbeats beside each long request.")  # fmt: skip
@click.option("--rebalanced", default=10_000, show_default=True, type=click.IntRange(2), help="Members of a rebalance.")
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0.001), help="Share of the past.")
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's section.")
def main(
    members: int, seconds: float, beside_seconds: float, rebalanced: int, scale: float, write: Path | None
) -> None:
    raise_file_limit()
    figures = Figures()
    server_core, core = choose_cores()
    if core is not None:
        os.sched_setaffinity(0, {core})
    data = Path(tempfile.mkdtemp(prefix="size-", dir=HERE / ".build"))
    try:
        for groups, offsets in ((10_000, 100), (200_000, 1), (1_000_000, 1)):
            past(figures, server_core, data / "past", max(1, int(groups * scale)), offsets)
        quick = ("--set", "group.initial.rebalance.delay.ms=500")
        with started(["ottla"], server_core, data / "crowd", options=quick) as (server,):
            click.echo(f"{members:,} members", err=True)
            bench = CrowdBench(server, figures, core)
            identities = bench.crowd(members, seconds)
            names = list(dict.fromkeys(one.group_id for one in identities))
            request = DescribeGroupsRequest(groups=names)
            what = f"DescribeGroups of {len(names):,} groups"
            bench.beside(what, identities, beside_seconds, lambda: ask(server, request, DESCRIBE_VERSION))
            one_group = Crowd(server, rebalanced, rebalanced)
            what = f"a rebalance of {rebalanced:,} members"
            bench.beside(what, identities, beside_seconds, one_group.rebalance)
    finally:
        shutil.rmtree(data, ignore_errors=True)
    tell("size", figures, "Size", describe(core is not None), figures.table(COLUMNS), write)


if __name__ == "__main__":
    main()
