"""A member of the group, in a process of its own: ``python -m examples.migrate.member --kind … --protocol …``.

It reports what it takes, sees and gives up, with the time, and commits what it gives up before it says so. SIGTERM
makes it leave cleanly.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.demo.reports import Report

COMMIT_EVERY_S = 1.0
KINDS = ("ottla", "confluent-kafka")
CLASSIC: dict[str, Any] = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_000}
"""Options that only the classic protocol has; with the other one the broker decides."""
STRATEGY = "range"
"""librdkafka's sticky assignors add data to assignments, for which brokers refuse to convert a group."""


@dataclass
class Member:
    """The state of a member of any kind."""

    name: str
    bootstrap: str
    group: str
    topic: str
    protocol: str
    report: Report
    pending: dict[int, int] = field(default_factory=dict)
    stopping: bool = False
    commit_at: float = 0.0

    def took(self, partitions: Iterable[int]) -> None:
        if numbers := sorted(partitions):
            self.report.event("took", partitions=numbers)

    def gave(self, partitions: Iterable[int], *, lost: bool = False) -> None:
        """Partitions are given up; what was seen of them is committed, unless they are lost."""
        numbers = sorted(partitions)
        for partition in numbers:
            self.pending.pop(partition, None)
        if numbers:
            self.report.event("lost" if lost else "gave", partitions=numbers)

    def saw(self, places: list[tuple[int, int]]) -> None:
        """Records at these partitions and offsets; from now on they may be committed."""
        self.report.event("saw", places=places)
        for partition, offset in places:
            self.pending[partition] = offset + 1

    def to_commit(self, partitions: Iterable[int]) -> list[tuple[int, int]]:
        """By partition the offset after the last record that was seen, where that is not committed."""
        return [(one, self.pending[one]) for one in partitions if one in self.pending]

    def commit_due(self) -> bool:
        now = time.monotonic()
        if not self.pending or now < self.commit_at:
            return False
        self.commit_at = now + COMMIT_EVERY_S
        return True


async def run_ottla(member: Member, done: Callable[[], bool]) -> None:
    """Consume with the included client until told to stop, then commit and leave."""
    from ottla.clients import Consumer, ConsumerRebalanceListener, KafkaError, TopicPartition

    only = {**CLASSIC, "partition_assignment_strategy": STRATEGY} if member.protocol == "classic" else {}
    consumer = Consumer(
        bootstrap_servers=member.bootstrap,
        client_id=member.name,
        group_id=member.group,
        group_protocol=member.protocol,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_wait_ms=100,
        **only,
    )

    async def commit(partitions: Iterable[int]) -> None:
        offsets = {TopicPartition(member.topic, one): offset for one, offset in member.to_commit(partitions)}
        try:
            await consumer.commit(offsets)
        except KafkaError as error:
            member.report.event("commit refused", error=repr(error))

    class Listener(ConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
            numbers = [tp.partition for tp in revoked]
            await commit(numbers)
            member.gave(numbers)

        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            member.took(tp.partition for tp in assigned)

        async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
            member.gave((tp.partition for tp in lost), lost=True)

    consumer.subscribe([member.topic], listener=Listener())
    async with consumer:
        while not done():
            found = await consumer.getmany(timeout_ms=100)
            if places := [(one.partition, one.offset) for rows in found.values() for one in rows]:
                member.saw(places)
            if member.commit_due():
                await commit(list(member.pending))


def run_confluent(member: Member, done: Callable[[], bool]) -> None:
    """The same on confluent-kafka."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    only: dict[str, Any] = {"group.protocol": "consumer"}
    if member.protocol == "classic":
        only = {"partition.assignment.strategy": STRATEGY}
        only |= {name.replace("_", "."): value for name, value in CLASSIC.items()}
    options = {
        "bootstrap.servers": member.bootstrap,
        "client.id": member.name,
        "group.id": member.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.wait.max.ms": 100,
    }
    consumer = Consumer({**options, **only}, logger=logging.getLogger("confluent-kafka"))

    def commit(partitions: Iterable[int]) -> None:
        offsets = [TopicPartition(member.topic, one, offset) for one, offset in member.to_commit(partitions)]
        if offsets:
            try:
                consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as error:
                member.report.event("commit refused", error=str(error.args[0]))

    def revoked(_: Consumer, partitions: list[TopicPartition]) -> None:
        numbers = [tp.partition for tp in partitions]
        commit(numbers)
        member.gave(numbers)

    consumer.subscribe(
        [member.topic],
        on_assign=lambda _, partitions: member.took(tp.partition for tp in partitions),
        on_revoke=revoked,
        on_lost=lambda _, partitions: member.gave((tp.partition for tp in partitions), lost=True),
    )
    while not done():
        places = []
        for message in consumer.consume(500, timeout=0.1):
            partition, offset = message.partition(), message.offset()
            if error := message.error():
                member.report.event("error", error=str(error))
            elif partition is not None and offset is not None:
                places.append((partition, offset))
        if places:
            member.saw(places)
        if member.commit_due():
            commit(list(member.pending))
    consumer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--protocol", choices=["classic", "consumer"], required=True)
    for name in ("name", "bootstrap", "group", "topic"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--reports", type=Path, required=True)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    report = Report(given.reports, given.name)
    member = Member(given.name, given.bootstrap, given.group, given.topic, given.protocol, report)
    parent = os.getppid()

    def done() -> bool:
        return member.stopping or os.getppid() != parent

    signal.signal(signal.SIGTERM, lambda *_: setattr(member, "stopping", True))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the demo says who stops when
    member.report.event("started", protocol=member.protocol)
    if given.kind == "ottla":
        asyncio.run(run_ottla(member, done))
    else:
        run_confluent(member, done)
    member.report.event("left")


if __name__ == "__main__":
    main()
