"""Load from kafka-python: an idempotent producer, one with acks=all but not idempotent, a member of a group."""

from __future__ import annotations

import logging
import threading
from contextlib import closing
from functools import partial
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import CommitFailedError, KafkaConnectionError, KafkaError
from kafka.structs import MemberState

from tests.chaos.events import Acked, Trouble, tell
from tests.chaos.load import (
    MIXED,
    PARTITIONS,
    SESSION_MS,
    Member,
    Role,
    bursts,
    role_of,
    run_threads,
    value_of,
)
from tests.support.clients.kafka_python import ASSIGNORS, note, polled

COMMON = {"reconnect_backoff_ms": 50, "reconnect_backoff_max_ms": 300, "retry_backoff_ms": 50}


def produce(role: Role, topic: str, stopping: threading.Event, **options: Any) -> None:
    producer = KafkaProducer(
        bootstrap_servers=role.bootstrap, delivery_timeout_ms=300_000, request_timeout_ms=10_000, **COMMON, **options
    )

    def delivered(value: str, ack: Any) -> None:
        tell(Acked(topic, ack.partition, ack.offset, value))

    def failed(error: BaseException) -> None:
        tell(Trouble(f"{topic}: {error!r}"))

    for numbers in bursts():
        if stopping.wait(role.pause_s):
            break
        for number in numbers:
            value = value_of(number)
            future = producer.send(topic, value.encode(), partition=number % PARTITIONS)
            future.add_callback(partial(delivered, value)).add_errback(failed)
    producer.flush(timeout=120)
    producer.close()


def consume(role: Role, group: str, stopping: threading.Event) -> None:
    consumer = KafkaConsumer(
        *role.topics,
        bootstrap_servers=role.bootstrap,
        group_id=group,
        client_id=role.name,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        partition_assignment_strategy=[ASSIGNORS["roundrobin"]],
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=300,
        request_timeout_ms=15_000,
        **COMMON,
    )
    member = Member(group, role.name)
    with closing(consumer):
        while not stopping.is_set():
            if ends := member.saw(polled(consumer, 100)):
                with member.committing(ends, KafkaError, (CommitFailedError, KafkaConnectionError)):
                    consumer.commit({tp: note(offset) for tp, offset in ends.items()})
            now = consumer.group_metadata()
            member.is_in(now.generation_id if now.state == MemberState.STABLE else None)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # brokers come and go here
    mine = role_of()
    options = {"enable_idempotence": False, "acks": "all", "max_in_flight_requests_per_connection": 1}
    run_threads(
        mine,
        [partial(consume, mine, MIXED)],
        [
            partial(produce, mine, "kafka-python-once", enable_idempotence=True),
            partial(produce, mine, "kafka-python-acks-all", **options),
        ],
    )
