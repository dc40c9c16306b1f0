"""Members of groups on real clients, all in this process: each polls, works on what it gets, and commits.

They commit one after another and note each commit that is acknowledged. One that is ``stuck`` goes on to heartbeat, but
neither polls nor commits.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from examples.asyncio_clients import Kind, kind_of
from examples.pipeline.ledger import Ledger

SESSION_TIMEOUT_MS = 10_000
POLL_S = 0.1
GIVE_UP_S = 10.0


@dataclass
class Role:
    """The part that a member plays.

    Attributes:
        client: ``confluent-kafka``, ``aiokafka`` or ``ottla``.
        per_second: the number of records it gets done; 0 for as many as there are.
        commit_s: the time between two commits.
    """

    name: str
    group: str
    client: str = "confluent-kafka"
    per_second: int = 0
    commit_s: float = 1.0

    @property
    def topic(self) -> str:
        """Each group has one of its own."""
        return self.group


@dataclass
class _Member:
    """The state of a member of either kind; ``owned`` is the number of partitions it was assigned."""

    role: Role
    bootstrap: str
    ledger: Ledger
    is_stuck: bool = False
    owned: int = 0


@dataclass
class ConfluentMember(_Member):
    """A member on confluent-kafka, in a thread of its own."""

    _stopping: threading.Event = field(default_factory=threading.Event)
    _positions: dict[tuple[str, int], int] = field(default_factory=dict)
    _thread: threading.Thread | None = None

    async def start(self) -> None:
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, name=self.role.name, daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, GIVE_UP_S)

    def _run(self) -> None:
        role = self.role
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": role.group,
                "client.id": role.name,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": 500,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "roundrobin",
                "log_level": 2,
            }
        )
        consumer.subscribe([role.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        committed = time.monotonic()
        try:
            while not self._stopping.is_set():
                if self.is_stuck:
                    self._stopping.wait(POLL_S)
                    continue
                most = max(1, int(role.per_second * POLL_S)) if role.per_second else 500
                for message in consumer.consume(most, POLL_S):
                    if message.error() is None:
                        place: Any = (message.topic(), message.partition())
                        self._positions[place] = (message.offset() or 0) + 1
                if role.per_second:
                    self._stopping.wait(POLL_S)
                if time.monotonic() - committed >= role.commit_s:
                    committed = time.monotonic()
                    self._commit(consumer)
        finally:
            self.owned = 0
            consumer.close()

    def _assigned(self, _: Consumer, places: list[TopicPartition]) -> None:
        self.owned = len(places)

    def _revoked(self, _: Consumer, places: list[TopicPartition]) -> None:
        self.owned = 0
        self._positions.clear()

    def _commit(self, consumer: Consumer) -> None:
        positions = dict(self._positions)
        if not positions:
            return
        try:
            done = consumer.commit(
                offsets=[TopicPartition(*place, offset) for place, offset in positions.items()], asynchronous=False
            )
        except KafkaException as error:
            self._refused(error.args[0])
            return
        for place in done or ():
            if place.error is not None:
                del positions[place.topic, place.partition]
        self.ledger.acknowledged(self.role.group, positions)

    def _refused(self, error: KafkaError) -> None:
        """While the group rebalances commits are refused, and done again by whoever has the partitions then."""
        if error.code() in (KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT, KafkaError._TRANSPORT):
            self.ledger.unsure += 1


@dataclass
class AsyncMember(_Member):
    """A member on aiokafka or on the included client: they have the same names."""

    _stopping: bool = False
    _positions: dict[Any, int] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._stopping = False
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self._stopping = True
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._task, GIVE_UP_S)

    async def _run(self) -> None:
        kind = kind_of(self.role.client)
        consumer = self._consumer(kind)
        consumer.subscribe([self.role.topic], listener=self._listening(kind.listener))
        committed = time.monotonic()
        try:
            await consumer.start()
            while not self._stopping:
                for place, records in (await consumer.getmany(timeout_ms=int(POLL_S * 1000))).items():
                    if records:
                        self._positions[place] = records[-1].offset + 1
                if time.monotonic() - committed >= self.role.commit_s:
                    committed = time.monotonic()
                    await self._commit(consumer, kind.error)
        finally:
            self.owned = 0
            await consumer.stop()

    def _consumer(self, kind: Kind) -> Any:
        return kind.consumer(
            bootstrap_servers=self.bootstrap,
            client_id=self.role.name,
            group_id=self.role.group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=500,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=[kind.assignors["roundrobin"]],
        )

    def _listening(self, base: Any) -> Any:
        outer = self

        class Listener(base):  # type: ignore[misc]
            async def on_partitions_revoked(self, revoked: Any) -> None:
                outer.owned = 0
                outer._positions.clear()

            async def on_partitions_assigned(self, assigned: Any) -> None:
                outer.owned = len(assigned)

        return Listener()

    async def _commit(self, consumer: Any, failures: type[Exception]) -> None:
        positions = dict(self._positions)
        if not positions:
            return
        try:
            await consumer.commit(positions)
        except failures as error:
            # While the group rebalances commits are refused, and done again by whoever has the partitions then.
            self.ledger.unsure += "Timeout" in type(error).__name__
            return
        self.ledger.acknowledged(
            self.role.group, {(place.topic, place.partition): offset for place, offset in positions.items()}
        )


Member = ConfluentMember | AsyncMember


def member(role: Role, bootstrap: str, ledger: Ledger) -> Member:
    """A member on the client that the role names."""
    kind = ConfluentMember if role.client == "confluent-kafka" else AsyncMember
    return kind(role, bootstrap, ledger)
