"""Load from a client for asyncio, aiokafka or the included one: an idempotent producer, one with acks=1, a member of a
group. The name of the process says which client.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import aiokafka
from aiokafka.errors import CommitFailedError, IllegalStateError
from aiokafka.errors import KafkaError as AiokafkaError

import ottla.clients
from ottla.clients import CommitFailed, KafkaError, MemberState
from tests.chaos.events import Acked, Trouble, tell
from tests.chaos.load import (
    MIXED,
    PARTITIONS,
    SESSION_MS,
    STEADY,
    STEADY_SESSION_MS,
    Member,
    Role,
    Task,
    bursts,
    pause,
    role_of,
    run_tasks,
    steady,
    value_of,
)
from tests.support.clients import aiokafka as stock

COMMON = {"retry_backoff_ms": 50, "retry_backoff_max_ms": 300, "reconnect_backoff_max_ms": 300}
"""Of the included client."""


@dataclass(frozen=True)
class Client:
    """A client's classes, and what it calls things.

    Attributes:
        lost: errors of a commit: the partitions were given to another member.
        generation: of a consumer in a stable group.
        plainly: more options of the producer that is not idempotent.
    """

    consumer: Any
    producer: Any
    assignor: Any
    common: dict[str, Any]
    producing: dict[str, Any]
    error: type[Exception]
    lost: tuple[type[Exception], ...]
    generation: Callable[[Any], int | None]
    plainly: dict[str, Any] = field(default_factory=dict)


def _aiokafkas_generation(consumer: Any) -> int | None:
    generation: int = consumer._coordinator.generation  # it tells nobody
    return generation if generation > -1 and consumer.assignment() else None


CLIENTS = {
    "aiokafka": Client(
        consumer=aiokafka.AIOKafkaConsumer,
        producer=aiokafka.AIOKafkaProducer,
        assignor=stock.AiokafkaMember.assignors["roundrobin"],
        common={"retry_backoff_ms": 50, "request_timeout_ms": 10_000},
        # It has no delivery timeout of its own: it gives a record up after request_timeout_ms.
        producing={"request_timeout_ms": 300_000},
        error=AiokafkaError,
        lost=(CommitFailedError, IllegalStateError),
        generation=_aiokafkas_generation,
    ),
    "ottla": Client(
        consumer=ottla.clients.Consumer,
        producer=ottla.clients.Producer,
        assignor="roundrobin",
        common=COMMON,
        producing={"delivery_timeout_ms": 300_000},
        error=KafkaError,
        lost=(CommitFailed,),
        generation=lambda consumer: consumer.generation_id if consumer.member_state is MemberState.STABLE else None,
        plainly={"max_in_flight_requests_per_connection": 1},
    ),
}


async def produce(client: Client, role: Role, topic: str, stopping: asyncio.Event, **options: Any) -> None:
    def told(value: str, future: asyncio.Future[Any]) -> None:
        if (error := future.exception()) is not None:
            tell(Trouble(f"{topic}: {error!r}"))
        else:
            tell(Acked(topic, future.result().partition, future.result().offset, value))

    given = client.common | client.producing | options
    async with client.producer(bootstrap_servers=role.bootstrap, **given) as producer:
        for numbers in bursts():
            if stopping.is_set():
                return
            await pause(stopping, role.pause_s)
            for number in numbers:
                value = value_of(number)
                future = await producer.send(topic, value.encode(), partition=number % PARTITIONS)
                future.add_done_callback(partial(told, value))


async def visit(client: Client, role: Role, group: str, stopping: asyncio.Event, *, stays_s: float) -> None:
    """Be a member of a group for a while, leave, come back."""
    while not stopping.is_set():
        left = asyncio.Event()
        asyncio.get_running_loop().call_later(stays_s, left.set)
        watch = asyncio.create_task(stopping.wait())
        watch.add_done_callback(lambda _, left=left: left.set())  # type: ignore[misc]
        with contextlib.suppress(client.error):  # no broker, when it came
            await consume(client, role, group, left)
        watch.cancel()
        await pause(stopping, stays_s / 4)


async def consume(client: Client, role: Role, group: str, stopping: asyncio.Event, **options: Any) -> None:
    if options.get("group_protocol") != "consumer":
        classic = {"partition_assignment_strategy": [client.assignor], "session_timeout_ms": SESSION_MS}
        options = classic | {"heartbeat_interval_ms": 300} | options
    consumer = client.consumer(
        *role.topics,
        bootstrap_servers=role.bootstrap,
        group_id=group,
        client_id=role.name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **client.common,
        **options,
    )
    member = Member(group, role.name)
    async with consumer:
        while not stopping.is_set():
            if ends := member.saw(await consumer.getmany(timeout_ms=100)):
                with member.committing(ends, client.error, client.lost):
                    await consumer.commit(ends)
            member.is_in(client.generation(consumer))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # brokers come and go here
    mine = role_of()
    chosen = CLIENTS[mine.name]
    producing = partial(produce, chosen, mine)
    writers: list[Task] = [
        partial(producing, f"{mine.name}-once", enable_idempotence=True),
        partial(producing, f"{mine.name}-acks-1", enable_idempotence=False, acks=1, **chosen.plainly),
    ]
    parts: list[Task] = [partial(consume, chosen, mine, MIXED)]
    if mine.name == "ottla":
        parts.append(partial(visit, chosen, replace(mine, name="visitor"), MIXED, stays_s=6.0))
        stays = replace(mine, topics=steady(mine.topics))
        for group, protocol in STEADY.items():
            lasting = {"session_timeout_ms": STEADY_SESSION_MS} if protocol == "classic" else {}
            parts.append(partial(consume, chosen, stays, group, group_protocol=protocol, **lasting))
    run_tasks(mine, parts, writers)
