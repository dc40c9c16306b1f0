"""Load from aiokafka: an idempotent producer, one with acks=1, a member of a group."""

from __future__ import annotations

import asyncio
import itertools
import logging
from functools import partial
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError, KafkaError

from tests.chaos.events import Acked, Committed, Generation, Saw, Trouble, tell
from tests.chaos.load import BURST, MIXED, PARTITIONS, PAUSE_S, SESSION_MS, Role, pause, role_of, run_tasks, value_of

COMMON = {"retry_backoff_ms": 50, "request_timeout_ms": 10_000}


async def produce(role: Role, topic: str, stopping: asyncio.Event, **options: Any) -> None:
    # aiokafka has no delivery timeout of its own: it gives a record up after request_timeout_ms.
    producer = AIOKafkaProducer(bootstrap_servers=role.bootstrap, **COMMON | {"request_timeout_ms": 300_000}, **options)
    await producer.start()

    def told(value: str, future: asyncio.Future[Any]) -> None:
        if (error := future.exception()) is not None:
            tell(Trouble(f"{topic}: {error!r}"))
        else:
            tell(Acked(topic, future.result().partition, future.result().offset, value))

    numbers = itertools.count()
    while not stopping.is_set():
        await pause(stopping, PAUSE_S)
        for number in itertools.islice(numbers, BURST):
            value = value_of(number)
            future = await producer.send(topic, value.encode(), partition=number % PARTITIONS)
            future.add_done_callback(partial(told, value))
    await producer.stop()


async def consume(role: Role, group: str, stopping: asyncio.Event) -> None:
    consumer = AIOKafkaConsumer(
        *role.topics,
        bootstrap_servers=role.bootstrap,
        group_id=group,
        client_id=role.name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=(RoundRobinPartitionAssignor,),
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=300,
        **COMMON,
    )
    await consumer.start()
    known = -1
    try:
        while not stopping.is_set():
            batches = await consumer.getmany(timeout_ms=100)
            for tp, records in batches.items():
                tell(*(Saw(group, tp.topic, tp.partition, one.offset, one.value.decode()) for one in records))
            if batches:
                await _commit(consumer, group, {tp: records[-1].offset + 1 for tp, records in batches.items()})
            generation = consumer._coordinator.generation
            if generation > -1 and generation != known and consumer.assignment():
                known = generation
                tell(Generation(group, role.name, known))
    finally:
        await consumer.stop()


async def _commit(consumer: AIOKafkaConsumer, group: str, ends: dict[TopicPartition, int]) -> None:
    try:
        await consumer.commit(ends)
    except (CommitFailedError, IllegalStateError):
        return  # the partitions were given to another member
    except KafkaError as error:
        if not error.retriable:
            tell(Trouble(f"{group}: commit: {error!r}"))
        return
    tell(*(Committed(group, tp.topic, tp.partition, offset) for tp, offset in ends.items()))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # brokers come and go here
    mine = role_of()
    run_tasks(
        mine,
        [
            partial(produce, mine, "aiokafka-once", enable_idempotence=True),
            partial(produce, mine, "aiokafka-acks-1", enable_idempotence=False, acks=1),
            partial(consume, mine, MIXED),
        ],
    )
