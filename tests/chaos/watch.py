"""Reads what the applications made, read_committed, all the time, with both clients."""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial

from confluent_kafka import TopicPartition as ConfluentPlace

from ottla.clients import Consumer, KafkaError, TopicPartition
from tests.chaos.events import Saw, Trouble, tell
from tests.chaos.load import Role, role_of, run_tasks
from tests.chaos.load_asyncio import COMMON
from tests.chaos.load_confluent import COMMON as CONFLUENT
from tests.chaos.load_confluent import LOST
from tests.chaos.pipeline import PARTITIONS
from tests.support.clients import confluent

WATCHERS = ("watched by confluent", "watched by ottla")


def with_confluent(role: Role, stopping: threading.Event) -> None:
    consumer = confluent.consumer(role.bootstrap, isolation_level="read_committed", **CONFLUENT)
    consumer.assign([ConfluentPlace(topic, number, 0) for topic in role.topics for number in range(PARTITIONS)])
    while not stopping.is_set():
        for message in consumer.consume(200, 0.1):
            if (error := message.error()) is None:
                value = message.value().decode()
                tell(Saw(WATCHERS[0], message.topic(), message.partition(), message.offset(), value))
            elif error.code() not in LOST:
                tell(Trouble(f"{WATCHERS[0]}: {error}"))
    consumer.close()


async def with_ottla(role: Role, stopping: asyncio.Event) -> None:
    async with Consumer(
        bootstrap_servers=role.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="none",
        **COMMON,
    ) as consumer:
        places = [TopicPartition(topic, number) for topic in role.topics for number in range(PARTITIONS)]
        consumer.assign(places)
        for place in places:
            consumer.seek(place, 0)
        while not stopping.is_set():
            try:
                batches = await consumer.getmany(timeout_ms=100)
            except KafkaError as error:
                tell(Trouble(f"{WATCHERS[1]}: {error}"))
                return
            for tp, records in batches.items():
                tell(*(Saw(WATCHERS[1], *tp, one.offset, one.value.decode()) for one in records))


async def both(role: Role, stopping: asyncio.Event) -> None:
    told = threading.Event()
    thread = asyncio.create_task(asyncio.to_thread(with_confluent, role, told))
    try:
        await with_ottla(role, stopping)
    finally:
        told.set()
        await thread


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    mine = role_of()
    run_tasks(mine, [partial(both, mine)])
