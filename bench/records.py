#!/usr/bin/env python3
"""Measure what one Ottla process appends and reads, beside Apache Kafka, kfake and librdkafka's mock cluster.

Producers and consumers are stock confluent-kafka clients (log_client.py). Ottla syncs every append to the disk before
it answers; Kafka answers when the operating system has it, and the others keep everything in memory. The servers take
turns; README.md next to this file says more.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import beside
import click
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from report import Figures, beneath, describe, tell
from servers import (
    HERE,
    JUST_IN_TIME,
    BenchError,
    Server,
    by_turns,
    choose_cores,
    cpu_seconds,
    pinned,
    prepared,
    started,
)

SERVERS = ("ottla", "kafka", "kfake", "mock")
PACED = ("ottla", "kafka")
"""Those of which the time to a single acknowledgement is measured."""
PARTITIONS = 4
"""As many as a topic of the mock cluster has."""
SIZES = {100: 600_000, 10_000: 30_000}
"""Records to produce, by their size in bytes."""
KEPT_BYTES = 4_000_000
"""Of each partition, to be consumed: the mock cluster keeps five megabytes."""
PACED_RECORDS = 1_000
SETTLES_SECONDS = 0.3
"""What was acknowledged is put in its place by then."""
COLUMNS = {
    "MB/s": ("mb_per_second", 0),
    "CPU ms per MB": ("cpu_ms", 2),
    "p50 µs": ("p50_us", 0),
    "p99 µs": ("p99_us", 0),
}


class Loads:
    """The loads of one server, and the figures they give."""

    def __init__(self, server: Server, core: int | None, scale: float) -> None:
        self.server, self._core, self._scale = server, core, scale
        self._admin = AdminClient({"bootstrap.servers": f"{server.host}:{server.port}", "log_level": 0})
        self._number = 0
        self._make("paced")
        for size in SIZES:
            self._make(f"kept-{size}")
            self._client("produce", f"kept-{size}", size, kept(size))

    def turn(self, figures: Figures) -> None:
        """Produce, consume, and one at a time."""
        name = self.server.name
        for size, records in SIZES.items():
            records = int(records * self._scale)
            self._number += 1
            topic = f"bulk-{self._number}"
            self._make(topic)
            figures.add(f"produce, {size:,} bytes", name, **self._bulk("produce", topic, size, records))
            if name != "mock":  # it keeps little, and cannot forget a topic
                self._admin.delete_topics([topic])[topic].result()
            figures.add(f"consume, {size:,} bytes", name, **self._bulk("consume", f"kept-{size}", size, kept(size)))
        if name in PACED:
            taken = self._client("pace", "paced", 100, int(PACED_RECORDS * self._scale))
            figures.add("one produce at a time, 100 bytes", name, **taken)

    def _bulk(self, what: str, topic: str, size: int, records: int) -> dict[str, float]:
        return bulk(self.server, self._core, what, topic, size, records)

    def _make(self, topic: str) -> None:
        if self.server.name != "mock":  # it makes those that somebody asks for
            self._admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()

    def _client(self, what: str, topic: str, size: int, records: int) -> dict[str, float]:
        return client(self.server, self._core, what, topic, size, records)


def bulk(
    server: Server, core: int | None, what: str, topic: str, size: int, records: int, settings: Sequence[str] = ()
) -> dict[str, float]:
    """Produce or consume as fast as it goes; ``settings`` are more of librdkafka's.

    Raises:
        BenchError: as `client`.
    """
    before = cpu_seconds(server)
    taken = client(server, core, what, topic, size, records, settings)
    time.sleep(SETTLES_SECONDS)
    megabytes = size * records / 1e6
    used = cpu_seconds(server) - before
    return {"mb_per_second": megabytes / taken["seconds"], "cpu_ms": used * 1e3 / megabytes / taken["passes"]}


def kept(size: int) -> int:
    """How many records of a size a topic keeps that is consumed again and again."""
    return KEPT_BYTES // (size + 10) * PARTITIONS


def client(
    server: Server, core: int | None, what: str, topic: str, size: int, records: int, settings: Sequence[str] = ()
) -> dict[str, float]:
    """The figures of one run of log_client.py.

    Raises:
        BenchError: it failed.
    """
    done = subprocess.run(
        [sys.executable, str(HERE / "log_client.py"), what, f"{server.host}:{server.port}", topic,
         *map(str, (PARTITIONS, size, records)), *settings],
        capture_output=True, text=True, preexec_fn=pinned(core),
    )  # fmt: skip
    if done.returncode:
        raise BenchError(f"{server.name}, {what} of {topic}: {done.stderr.strip().splitlines()[-1:]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each server.")
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(0.01), help="Share of the records.")
@click.option("--only", multiple=True, type=click.Choice(SERVERS), help="Servers to run; repeatable.")
@click.option("--warm-up", "warm", default=15.0, show_default=True, type=click.FloatRange(0.1),
              help="Seconds of load before a JVM is measured.")  # fmt: skip
@click.option("--directory", type=click.Path(file_okay=False, path_type=Path), default=HERE / ".build",
              show_default=True, help="On the disk that is to be measured.")  # fmt: skip
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's section.")
def main(rounds: int, scale: float, only: tuple[str, ...], warm: float, directory: Path, write: Path | None) -> None:
    names, missing = prepared(only or SERVERS)
    figures = Figures(missing)
    server_core, core = choose_cores()
    directory.mkdir(exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="records-", dir=directory))
    try:
        with started(names, server_core, data) as servers:
            loads = {server.name: Loads(server, core, scale) for server in servers}
            for name, load in loads.items():
                until = time.monotonic() + warm
                while name in JUST_IN_TIME and time.monotonic() < until:
                    load.turn(Figures())
            for server in by_turns(servers, rounds):
                click.echo(f"records: {server.name}", err=True)
                loads[server.name].turn(figures)
    finally:
        shutil.rmtree(data, ignore_errors=True)
    about = describe(core is not None, beside.versions(names)) | {"disk": beneath(directory)}
    tell("records", figures, "Records", about, figures.table(COLUMNS, ("MB/s", "CPU ms per MB")), write)


if __name__ == "__main__":
    main()
