"""Shared by the live tests: quick options, filled topics, waiting for conditions, a listener that notes."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ottla.clients import (
    Admin,
    Consumer,
    ConsumerRebalanceListener,
    ConsumerRecord,
    NewTopic,
    Producer,
    TopicPartition,
)
from ottla.testing import Broker

PATIENCE_S = 20.0
"""Long enough for a slow machine; nothing here waits so long unless it fails."""
QUICK = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "reconnect_backoff_ms": 5, "reconnect_backoff_max_ms": 20}
"""Options of a client that tries again soon."""


def bootstrap_of(broker: Broker | str) -> str:
    return broker if isinstance(broker, str) else broker.bootstrap_servers


def group_options(broker: Broker | str, group: str, **options: Any) -> dict[str, Any]:
    """Options of a group member that notices things soon."""
    return {
        "bootstrap_servers": bootstrap_of(broker),
        "group_id": group,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 50,
        "session_timeout_ms": 6_000,
        "retry_backoff_ms": 20,
        "fetch_max_wait_ms": 50,
        **options,
    }


async def create(broker: Broker | str, topic: str, partitions: int = 1, **configs: str) -> list[TopicPartition]:
    async with Admin(bootstrap_servers=bootstrap_of(broker)) as admin:
        await admin.create_topics([NewTopic(topic, partitions, topic_configs=configs)])
    return [TopicPartition(topic, p) for p in range(partitions)]


async def fill(broker: Broker, topic: str, count: int, *, first: int = 0, **options: Any) -> None:
    """Produce ``count`` records, their number as value, round the partitions."""
    async with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=5, **options) as producer:
        partitions = sorted(await producer.partitions_for(topic))
        sent = [
            await producer.send(topic, b"%d" % n, partition=partitions[n % len(partitions)])
            for n in range(first, first + count)
        ]
        await asyncio.gather(*sent)


async def filled(broker: Broker, topic: str, count: int, partitions: int = 1) -> list[TopicPartition]:
    """Create a topic with ``count`` records."""
    places = await create(broker, topic, partitions)
    await fill(broker, topic, count)
    return places


async def commits(broker: Broker | str, group: str) -> dict[TopicPartition, int]:
    """The offsets that a group has committed."""
    async with Admin(bootstrap_servers=bootstrap_of(broker)) as admin:
        return {tp: one.offset for tp, one in (await admin.list_group_offsets(group)).items()}


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds that something else brings about."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - others bring it about, in their own time
            await asyncio.sleep(0.01)
    assert condition(), what


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds that has to be asked for: Kafka's broker learns of changes a moment after them."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110 - others bring it about, in their own time
            await asyncio.sleep(0.02)


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord[Any, Any]]:
    """Read so many records."""
    records: list[ConsumerRecord[Any, Any]] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(records) < count:
            for batch in (await consumer.getmany(timeout_ms=200, max_records=count - len(records))).values():
                records += batch
    return records


async def collect(consumer: Consumer, seen: list[int]) -> None:
    """Read numbers until the consumer is stopped."""
    async for record in consumer:
        seen.append(int(record.value))


def numbers(records: Iterable[ConsumerRecord[Any, Any]]) -> list[int]:
    return [int(record.value) for record in records]


class Notes(ConsumerRebalanceListener):
    """Writes down what it is told, and does what a test gives it to do."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.on_revoked: Callable[[set[TopicPartition]], Any] = lambda revoked: None
        self.on_assigned: Callable[[set[TopicPartition]], Any] = lambda assigned: None

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.calls.append(("revoked", sorted(tp.partition for tp in revoked)))
        await _maybe(self.on_revoked(revoked))

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.calls.append(("assigned", sorted(tp.partition for tp in assigned)))
        await _maybe(self.on_assigned(assigned))

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self.calls.append(("lost", sorted(tp.partition for tp in lost)))


async def _maybe(outcome: Any) -> None:
    if outcome is not None:
        await outcome
