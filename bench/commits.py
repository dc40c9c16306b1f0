#!/usr/bin/env python3
"""Measure what an offset commit costs one Ottla process, beside Apache Kafka, kfake, librdkafka's mock cluster and an
earlier Ottla.

Ottla answers when the commit is synced, and so does kafka-flush; ottla-os and kafka when the operating system has it;
the others when it is in memory. Offsets rise with each commit and lie within their logs. The servers take turns;
README.md next to this file says more.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import beside
import click
from confluent_kafka import Producer
from heartbeat_groups import Identity, compact, form_groups
from report import Figures, beneath, describe, tell
from servers import (
    HERE,
    JUST_IN_TIME,
    BenchError,
    Load,
    Server,
    ask,
    by_turns,
    choose_cores,
    compile_generator,
    measure,
    prepared,
    raise_file_limit,
    started,
    thread_seconds,
)

from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_protocol import Assignment, ConsumerTopicPartitions, encode_assignment
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.protocol.records import BatchBuilder

SERVERS = ("ottla", "ottla-os", "before", "kafka", "kafka-flush", "kfake", "mock")
MAIN = ("ottla", "before", "kafka", "kfake")
"""Those that take part in every load."""
TOPIC = "orders"
PARTITIONS, MOCK_PARTITIONS = 20, 4
BATCH_RECORDS, BATCHES = 50_000, 20
"""Of the first partition; of the others one batch. More than any connection commits in one run of the benchmark."""
PATIENCE = 100
OFFSET_COMMIT_VERSION, CREATE_TOPICS_VERSION, PRODUCE_VERSION = 8, 5, 9


@dataclass(frozen=True, slots=True)
class Kind:
    """One load: each connection commits so many partitions, for a group of its own with a member or without."""

    connections: int
    partitions: int = 1
    member: bool = False
    servers: Sequence[str] = MAIN

    def __str__(self) -> str:
        said = f"commit, {self.connections:,} connection{'s' if self.connections > 1 else ''}"
        return said + (f", {self.partitions} partitions" if self.partitions > 1 else "") + ", member" * self.member


KINDS = (
    *(Kind(connections, servers=SERVERS) for connections in (1, 64, 1024)),
    *(Kind(connections, member=True) for connections in (64, 1024)),
    *(Kind(connections, partitions=PARTITIONS, member=member) for connections, member in ((64, True), (1024, False))),
)
"""The history follows a thousand groups without members: 1,024 are more."""


def commits(identities: Sequence[Identity], partitions: int = 1, first: int = 0) -> Load:
    """OffsetCommit v8 of each of them; its offsets rise from the first."""
    frames = []
    rising_at: list[int] = []
    for number, one in enumerate(identities):
        frame = struct.pack(">hhih", ApiKey.OFFSET_COMMIT, OFFSET_COMMIT_VERSION, 0, 5) + b"bench\0"
        frame += compact(one.group_id) + struct.pack(">i", one.generation) + compact(one.member_id) + b"\0"
        frame += b"\2" + compact(TOPIC) + bytes([partitions + 1])
        places = []
        for partition in range(partitions):
            places.append(len(frame) + 4)
            frame += struct.pack(">iqi", partition, first + number, -1) + compact("") + b"\0"
        frames.append(frame + b"\0\0")
        assert rising_at in ([], places), "ids differ in length"
        rising_at = places
    # Length, correlation id, header tags, throttle, one topic with its name, partitions with their errors, three tags.
    error_at = 4 + 4 + 1 + 4 + 1 + len(compact(TOPIC)) + 1 + 4
    return Load(frames, error_at - 4 + 7 * partitions + 2, error_at, rising_at)


def fill(server: Server, partitions: int = PARTITIONS) -> None:
    """Make the topic, and logs long enough for all offsets."""
    partitions = MOCK_PARTITIONS if server.name == "mock" else partitions
    if server.name == "mock":  # it makes topics for those who ask
        Producer({"bootstrap.servers": f"{server.host}:{server.port}"}).list_topics(TOPIC, timeout=10)
    else:
        topic = CreatableTopic(name=TOPIC, num_partitions=partitions, replication_factor=1)
        ask(server, CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CREATE_TOPICS_VERSION)
    builder = BatchBuilder()
    for _ in range(BATCH_RECORDS):
        builder.append(None, b"", 1_700_000_000_000)
    batch = builder.build()
    for partition in range(partitions):
        place = PartitionProduceData(index=partition, records=batch)
        data = TopicProduceData(name=TOPIC, partition_data=[place])
        request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[data])
        for _ in range(1 if partition else BATCHES):
            error = produced(server, request)
            for _ in range(PATIENCE):
                if error not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER):
                    break
                time.sleep(0.1)  # Kafka answers that a topic is there before its partitions are
                error = produced(server, request)
            if error:
                raise BenchError(f"{server.name}: Produce answered error {error}")


def produced(server: Server, request: ProduceRequest) -> int:
    """The error code of the one partition of a Produce."""
    answer = ProduceResponse.layout(PRODUCE_VERSION).decode(ask(server, request, PRODUCE_VERSION), 1)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def assigned(partitions: int) -> bytes:
    """The assignment of a member that owns what it commits."""
    return encode_assignment(
        Assignment(assigned_partitions=[ConsumerTopicPartitions(topic=TOPIC, partitions=list(range(partitions)))])
    )


class Committers:
    """One server under one kind of load; its offsets go on where they were. ``greetings`` let its clients in."""

    def __init__(
        self, generator: Path, server: Server, kind: Kind, core: int | None, greetings: Sequence[bytes] = ()
    ) -> None:
        self.server, self.kind = server, kind
        self._generator, self._core, self._greetings = generator, core, greetings
        prefix = f"{kind.connections}-{kind.partitions}"
        self._identities = (
            form_groups(server, kind.connections, 1, f"member-{prefix}", assigned(kind.partitions))
            if kind.member
            else [Identity(f"alone-{prefix}-{number:06d}", "", -1) for number in range(kind.connections)]
        )
        self._first = 0

    def turn(self, seconds: float) -> dict[str, float]:
        """The figures of one turn, with the CPU time of each thread for a commit where they are Ottla's."""
        load = replace(commits(self._identities, self.kind.partitions, self._first), greetings=self._greetings)
        before = thread_seconds(self.server)
        run = measure(self._generator, self.server, load, self.kind.connections, 1, seconds, self._core)
        used = {name: now - before.get(name, 0) for name, now in thread_seconds(self.server).items()}
        self._first += run.most_sent
        figures = {"per_second": run.per_second, "cpu_us": run.cpu_us, "p50_us": run.p50_us, "p99_us": run.p99_us}
        if self.server.name.startswith(("ottla", "before")):
            # Its warm-up is part of these: their shares count.
            whole = sum(used.values())
            figures |= {f"{name.removeprefix('ottla-')}_us": run.cpu_us * spent / whole for name, spent in used.items()}
        return figures


COLUMNS = {
    "per second": ("per_second", 0),
    "CPU µs": ("cpu_us", 1),
    "p50 µs": ("p50_us", 0),
    "p99 µs": ("p99_us", 0),
    "loop µs": ("loop_us", 1),
    "journal µs": ("journal_us", 1),
    "keeper µs": ("keeper_us", 1),
}


@click.command(help=__doc__)
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1), help="Turns of each server.")
@click.option("--seconds", default=1.0, show_default=True, type=click.FloatRange(0.1), help="Of one turn.")
@click.option("--warm-up", "warm", default=15.0, show_default=True, type=click.FloatRange(0.1),
              help="Seconds of each load before a JVM is measured.")  # fmt: skip
@click.option("--before", metavar="COMMIT", default="", help="Measure the Ottla of a commit, too.")
@click.option("--only", multiple=True, type=click.Choice(SERVERS), help="Servers to run; repeatable.")
@click.option("--few", is_flag=True, help="Only the loads in which all servers take part.")
@click.option("--directory", type=click.Path(file_okay=False, path_type=Path), default=HERE / ".build",
              show_default=True, help="On the disk that is to be measured.")  # fmt: skip
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="(Re)write the file's section.")
def main(
    rounds: int, seconds: float, warm: float, before: str, only: tuple[str, ...], few: bool, directory: Path,
    write: Path | None,
) -> None:  # fmt: skip
    raise_file_limit()
    names, missing = prepared([name for name in only or SERVERS if name != "before" or before])
    figures = Figures(missing)
    generator = compile_generator()
    server_core, core = choose_cores()
    directory.mkdir(exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="commits-", dir=directory))
    try:
        with started(names, server_core, data, before) as servers:
            for server in servers:
                fill(server)
            for kind in KINDS[: 3 if few else None]:
                taking_part = [server for server in servers if server.name in kind.servers]
                loads = {server.name: Committers(generator, server, kind, core) for server in taking_part}
                for server in taking_part:
                    if server.name in JUST_IN_TIME:
                        loads[server.name].turn(warm)
                for server in by_turns(taking_part, rounds):
                    click.echo(f"{kind}: {server.name}", err=True)
                    figures.add(str(kind), server.name, **loads[server.name].turn(seconds))
    finally:
        shutil.rmtree(data, ignore_errors=True)
    about = describe(core is not None, beside.versions(names))
    about |= {
        "before": before or "none",
        "disk": f"{beneath(directory)}; median (lowest–highest) of {rounds} turns of {seconds} s",
    }
    tell("commits", figures, "Commits", about, figures.table(COLUMNS, ("per second", "CPU µs")), write)


if __name__ == "__main__":
    main()
