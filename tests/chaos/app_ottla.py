"""Consume, transform, produce with the included client until told to stop."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from ottla.clients import Consumer, ConsumerRecord, KafkaError, Producer, TopicPartition, TransactionFailed
from tests.chaos.events import Trouble, tell
from tests.chaos.load import pause, role_of, run_tasks
from tests.chaos.load_asyncio import COMMON
from tests.chaos.pipeline import (
    ABORTS,
    BATCH,
    INPUT,
    PROMISED,
    TAKEN_BACK,
    TRANSACTION_TIMEOUT_MS,
    WORK_S,
    Application,
)

Batches = dict[TopicPartition, list[ConsumerRecord]]


class ChangedItsMind(Exception):
    """The application aborts."""


async def work(app: Application, stopping: asyncio.Event) -> None:
    while not stopping.is_set():
        producer = Producer(
            bootstrap_servers=app.role.bootstrap,
            transactional_id=app.role.name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            **COMMON,
        )
        consumer = Consumer(
            INPUT,
            bootstrap_servers=app.role.bootstrap,
            group_id=app.group,
            enable_auto_commit=False,
            **app.reading,
            **COMMON,
        )
        try:
            async with producer, consumer:
                while not stopping.is_set():
                    batches = await consumer.getmany(timeout_ms=100, max_records=BATCH)
                    if batches:
                        await step(app, producer, consumer, batches)
        except KafkaError:
            await pause(stopping, 0.05)  # the producer, or the member, is of no use: begin again with new ones
        except Exception as error:
            tell(Trouble(f"{app.role.name}: {error!r}"))
            raise


async def step(app: Application, producer: Producer, consumer: Consumer, batches: Batches) -> None:
    """One transaction."""
    member = consumer.group_metadata()
    gives_up = app.chance.random() < ABORTS
    prefix = (TAKEN_BACK if gives_up else PROMISED).encode()
    try:
        async with producer.transaction():
            for tp, records in batches.items():
                for record in records:
                    await producer.send(app.output, prefix + record.value, partition=tp.partition)
            await asyncio.sleep(app.chance.uniform(0, WORK_S))
            await producer.send_offsets_to_transaction(
                {tp: records[-1].offset + 1 for tp, records in batches.items()}, member
            )
            if gives_up:
                await producer.flush()
                raise ChangedItsMind
    except (ChangedItsMind, TransactionFailed):
        await back_to_committed(consumer)


async def back_to_committed(consumer: Consumer) -> None:
    """Read again from the committed offsets."""
    for tp in consumer.assignment():
        offset = await consumer.committed(tp)
        if tp in consumer.assignment():
            consumer.seek(tp, offset or 0)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # brokers come and go here
    mine = role_of()
    run_tasks(mine, [partial(work, Application("ottla", mine))])
