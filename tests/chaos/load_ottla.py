"""Load from the included client: an idempotent producer, one with acks=1, a member of a group."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from dataclasses import replace
from functools import partial
from typing import Any

from ottla.clients import CommitFailed, Consumer, KafkaError, MemberState, Producer, TopicPartition
from tests.chaos.events import Acked, Committed, Generation, Saw, Trouble, tell
from tests.chaos.load import BURST, MIXED, PARTITIONS, PAUSE_S, SESSION_MS, Role, pause, role_of, run_tasks, value_of

COMMON = {"retry_backoff_ms": 50, "retry_backoff_max_ms": 300, "reconnect_backoff_max_ms": 300}


async def produce(role: Role, topic: str, stopping: asyncio.Event, **options: Any) -> None:
    async with Producer(bootstrap_servers=role.bootstrap, delivery_timeout_ms=300_000, **COMMON, **options) as producer:

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


async def visit(role: Role, group: str, stopping: asyncio.Event, *, stays_s: float) -> None:
    """Be a member of a group for a while, leave, come back."""
    while not stopping.is_set():
        left = asyncio.Event()
        asyncio.get_running_loop().call_later(stays_s, left.set)
        watch = asyncio.create_task(stopping.wait())
        watch.add_done_callback(lambda _, left=left: left.set())  # type: ignore[misc]
        with contextlib.suppress(KafkaError):  # no broker, when it came
            await consume(role, group, left)
        watch.cancel()
        await pause(stopping, stays_s / 4)


async def consume(role: Role, group: str, stopping: asyncio.Event) -> None:
    consumer = Consumer(
        *role.topics,
        bootstrap_servers=role.bootstrap,
        group_id=group,
        client_id=role.name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy="roundrobin",
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=300,
        **COMMON,
    )
    known = -1
    async with consumer:
        while not stopping.is_set():
            batches = await consumer.getmany(timeout_ms=100)
            for tp, records in batches.items():
                tell(*(Saw(group, tp.topic, tp.partition, one.offset, one.value.decode()) for one in records))
            if batches:
                await _commit(consumer, group, {tp: records[-1].offset + 1 for tp, records in batches.items()})
            if consumer.member_state is MemberState.STABLE and consumer.generation_id != known:
                known = consumer.generation_id
                tell(Generation(group, role.name, known))


async def _commit(consumer: Consumer, group: str, ends: dict[TopicPartition, int]) -> None:
    try:
        await consumer.commit(ends)
    except CommitFailed:
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
            partial(produce, mine, "ottla-once", enable_idempotence=True),
            partial(
                produce,
                mine,
                "ottla-acks-1",
                enable_idempotence=False,
                acks=1,
                max_in_flight_requests_per_connection=1,
            ),
            partial(consume, mine, MIXED),
            partial(visit, replace(mine, name="visitor"), MIXED, stays_s=6.0),
        ],
    )
