#!/usr/bin/env python3
"""Measure what observers add to the CPU time of one commit inside the coordinator, without sockets and disk.

`recorder.py` measures whole servers; on a machine that does other work as well its pairs differ by more than what is
measured. Here one process has coordinators that differ in who observes them take turns, and counts the CPU time of its
thread: the figure is the median, over the rounds, of what a coordinator needs more than the one nobody observes.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import click

from ottla.broker.core.effects import Append
from ottla.broker.core.events import UNOBSERVED, Observer
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.settings import Settings
from ottla.cli import garbage
from ottla.observe.observers import Observers
from ottla.observe.recorder import Recorder
from ottla.observe.recording import Header
from ottla.observe.recording_writer import RecordingWriter
from ottla.observe.sentinels.watch import Sentinels
from ottla.observe.timeline.traffic import Traffic
from ottla.observe.why.history import History
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.primitives import ZERO_UUID

PARTITIONS = 50
GROUPS = 50
BUDGET_BYTES = 16 << 20


class Asks:
    """Who asks."""

    client_id, client_host, api_version, encoded = "bench", "/127.0.0.1", 8, b""

    def __init__(self, request: OffsetCommitRequest) -> None:
        self.encoded = type(request).layout(self.api_version).encode(request)


class Silent:
    """A log, a clock and a view that a measurement can do without."""

    @property
    def real(self) -> Silent:
        return self

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *arguments, **fields: 0


def observers(who: str, directory: Path) -> Observer:
    """Those that ``who`` names: ``nobody``, the ``ring``, the ring and a ``file``, or ``all`` but the file."""
    silent: Any = Silent()
    if who == "nobody":
        return UNOBSERVED
    recorder = Recorder(BUDGET_BYTES, wants_all=who == "file")
    if who == "ring":
        return deferred([recorder])
    if who == "file":
        about = Header(
            version="", node_id=0, cluster_id="", run_id="", started_ms=0, started_at_ms=0, partitions=1, settings={}
        )
        writer = RecordingWriter(
            directory / "events.rec",
            about,
            limit_bytes=256 << 20,
            limit_parts=1,
            clock=silent,
            soon=lambda function, *arguments: function(*arguments),
            log=silent,
        )
        writer.start(1)
        recorder.file = writer
        return deferred([recorder])
    history = History(budget_bytes=BUDGET_BYTES)
    sentinels = Sentinels(silent, Settings(), silent, silent, recorder)
    return deferred([recorder, history, Traffic(BUDGET_BYTES), sentinels])


class Turns:
    """The turns of an event loop, for observers that are told between them."""

    def __init__(self) -> None:
        self._due: list[Callable[[], None]] = []

    def soon(self, function: Callable[[], None]) -> None:
        self._due.append(function)

    def end(self) -> None:
        due, self._due = self._due, []
        for function in due:
            function()


TURNS = Turns()


def deferred(observers: Sequence[Observer]) -> Observers:
    """Observers as a broker has them."""
    silent: Any = Silent()
    made = Observers(observers, silent)
    made.defer(TURNS.soon)
    return made


def coordinator(observer: Observer) -> GroupCoordinator:
    """One that has all its partitions."""
    ids = count()
    made = GroupCoordinator(GroupConfig.of(Settings()), lambda: str(next(ids)), PARTITIONS, observer)
    made.start()
    for partition in range(PARTITIONS):
        made.load_started(partition, 0, 0)
        made.loaded(partition, 0, 0)
    made.take_effects()
    return made


def requests() -> list[OffsetCommitRequest]:
    """One commit of one offset for each group."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1234, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="committed", topic_id=ZERO_UUID, partitions=[partition])
    return [OffsetCommitRequest(group_id=f"bench-group-{number}", topics=[topic]) for number in range(GROUPS)]


def turn(one: GroupCoordinator, asked: Iterable[tuple[OffsetCommitRequest, Asks]], turns: int, now_ms: int) -> float:
    """CPU µs for each commit."""
    began, commits = time.thread_time_ns(), 0
    wall_ms = 1_700_000_000_000 + now_ms
    for _ in range(turns):
        for request, asks in asked:
            one.commit_offsets(request, asks, now_ms, wall_ms)
            commits += 1
        for effect in one.take_effects():
            if isinstance(effect, Append):
                one.appended(effect.token, ErrorCode.NONE, now_ms, wall_ms)
        one.take_effects()
        TURNS.end()
    return (time.thread_time_ns() - began) / 1000 / commits


def measured(rounds: int, directory: Path) -> Mapping[str, list[float]]:
    """The figures of each round."""
    found = {who: coordinator(observers(who, directory)) for who in ("nobody", "ring", "all", "file")}
    asked = [(request, Asks(request)) for request in requests()]
    figures = {who: list[float]() for who in found}
    for number in range(rounds):
        for who, one in found.items():
            figures[who].append(turn(one, asked, 100, number * 1000))
    return figures


@click.command(help=__doc__)
@click.option("--rounds", default=41, show_default=True, type=click.IntRange(1))
def main(rounds: int) -> None:
    gc.set_threshold(garbage.YOUNG, garbage.OLDER, garbage.NEVER)  # as `ottla serve` does
    gc.collect()
    gc.freeze()
    with tempfile.TemporaryDirectory() as directory:
        figures = measured(rounds, Path(directory))
        without = figures["nobody"]
        for who, found in figures.items():
            more = statistics.median(mine - other for mine, other in zip(found, without, strict=True))
            click.echo(f"{who:8} {statistics.median(found):6.2f} µs a commit  {more:+.2f} µs")


if __name__ == "__main__":
    main()
