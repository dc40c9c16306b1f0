"""Consume, transform, produce with confluent-kafka, as its documentation shows it, until told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.chaos.events import Trouble, tell
from tests.chaos.load import role_of, run_threads
from tests.chaos.load_confluent import COMMON, LOST
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
from tests.support.clients import confluent

NO_NEW_BEGINNING = {"metadata.recovery.strategy": "none"}
"""When all brokers are gone, librdkafka 2.16 begins anew from the bootstrap servers (KIP-899), and a transactional
producer then holds on to the coordinator that it has thrown away: its calls never come back.
"""
INSISTS_S = 20.0
"""How long a call is repeated. A broker that is down is not in the metadata, so librdkafka 2.16 throws it away. When it
comes back as a group's coordinator, send_offsets_to_transaction() may wait for the one that was thrown away, for ever.
"""
OVER = {KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL}
"""A static member that another has replaced; or that stood still for longer than its session: librdkafka then sends a
heartbeat without its member id, and is taken for another. Both are the end of the consumer.
"""


class Unusable(Exception):
    """The producer, or the member, is of no use any more: begin again with new ones."""


class MustAbort(Exception):
    """The transaction can only be aborted."""


def insist(call: Callable[[], Any], stopping: threading.Event) -> Any:
    """Call again while the error may pass."""
    until_s = time.monotonic() + INSISTS_S
    while True:
        try:
            return call()
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if error.txn_requires_abort():
                raise MustAbort(error) from failure
            if not error.retriable():
                raise Unusable(error) from failure
        if stopping.wait(0.02) or time.monotonic() > until_s:
            raise Unusable("stopping, or nothing comes of it")


def work(app: Application, stopping: threading.Event) -> None:
    while not stopping.is_set():
        producer = Producer(
            {
                "bootstrap.servers": app.role.bootstrap,
                "transactional.id": app.role.name,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                **NO_NEW_BEGINNING,
                **COMMON,
            }
        )
        made = confluent.consumer(app.role.bootstrap, app.group, **app.reading, **NO_NEW_BEGINNING, **COMMON)
        with closing(made) as consumer, suppress(Unusable, MustAbort):
            insist(lambda producer=producer: producer.init_transactions(10), stopping)
            consumer.subscribe([INPUT])
            while not stopping.is_set():
                step(app, producer, consumer, stopping)
        stopping.wait(0.05)


def step(app: Application, producer: Producer, consumer: Consumer, stopping: threading.Event) -> None:
    """One transaction."""
    messages = []
    for message in consumer.consume(BATCH, 0.1):
        if (error := message.error()) is None:
            messages.append(message)
        elif error.code() not in LOST:
            if error.code() not in OVER:
                tell(Trouble(f"{app.role.name}: {error}"))
            raise Unusable(error)
    if not messages:
        return
    member = consumer.consumer_group_metadata()
    gives_up = app.chance.random() < ABORTS
    producer.begin_transaction()
    try:
        send(app, producer, messages, TAKEN_BACK if gives_up else PROMISED)
        time.sleep(app.chance.uniform(0, WORK_S))
        ends = {message.partition(): message.offset() + 1 for message in messages}
        places = [TopicPartition(INPUT, partition, offset) for partition, offset in ends.items()]
        insist(lambda: producer.send_offsets_to_transaction(places, member, 10), stopping)
        if gives_up:
            insist(lambda: producer.flush(10), stopping)
            raise MustAbort
        insist(lambda: producer.commit_transaction(10), stopping)
    except MustAbort:
        insist(lambda: producer.abort_transaction(10), stopping)
        back_to_committed(consumer, stopping)


def send(app: Application, producer: Producer, messages: list[Message], prefix: str) -> None:
    for message in messages:
        try:
            producer.produce(app.output, prefix + message.value().decode(), partition=message.partition())
        except KafkaException as failure:
            raise MustAbort(failure) from failure
        producer.poll(0)


def back_to_committed(consumer: Consumer, stopping: threading.Event) -> None:
    """Read again from the committed offsets."""
    assigned = consumer.assignment()
    if not assigned:
        return
    for place in insist(lambda: consumer.committed(assigned, 10), stopping):
        if place.error is not None:
            raise Unusable(place.error)
        try:
            consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
        except KafkaException as failure:
            raise Unusable(failure) from failure


if __name__ == "__main__":
    mine = role_of()
    run_threads(mine, [partial(work, Application("confluent", mine))])
