"""Load from kafka-python: an idempotent producer, one with acks=all but not idempotent, a member of a group."""

from __future__ import annotations

import itertools
import logging
import threading
from functools import partial
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import CommitFailedError, KafkaConnectionError, KafkaError
from kafka.structs import MemberState, OffsetAndMetadata

from tests.chaos.events import Acked, Committed, Generation, Saw, Trouble, tell
from tests.chaos.load import BURST, MIXED, PARTITIONS, PAUSE_S, SESSION_MS, Role, role_of, run_threads, value_of

COMMON = {"reconnect_backoff_ms": 50, "reconnect_backoff_max_ms": 300, "retry_backoff_ms": 50}


def produce(role: Role, topic: str, stopping: threading.Event, **options: Any) -> None:
    producer = KafkaProducer(
        bootstrap_servers=role.bootstrap, delivery_timeout_ms=300_000, request_timeout_ms=10_000, **COMMON, **options
    )

    def delivered(value: str, ack: Any) -> None:
        tell(Acked(topic, ack.partition, ack.offset, value))

    def failed(error: BaseException) -> None:
        tell(Trouble(f"{topic}: {error!r}"))

    numbers = itertools.count()
    while not stopping.wait(PAUSE_S):
        for number in itertools.islice(numbers, BURST):
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
        partition_assignment_strategy=[RoundRobinPartitionAssignor],
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=300,
        request_timeout_ms=15_000,
        **COMMON,
    )
    known = -1
    try:
        while not stopping.is_set():
            # kafka-python 3.0 forgets an answer to its JoinGroup that comes between two calls of poll(), and joins
            # again: there are few such moments when it polls for longer while it is about to join.
            stable = consumer.group_metadata().state == MemberState.STABLE
            try:
                batches = consumer.poll(timeout_ms=100 if stable else 2_000)
            except KafkaConnectionError:
                continue  # told when there is no broker while it joins; the next poll() tries again
            for tp, records in batches.items():
                tell(*(Saw(group, tp.topic, tp.partition, one.offset, one.value.decode()) for one in records))
            if batches:
                _commit(consumer, group, {tp: records[-1].offset + 1 for tp, records in batches.items()})
            now = consumer.group_metadata()
            if now.state == MemberState.STABLE and now.generation_id != known:
                known = now.generation_id
                tell(Generation(group, role.name, known))
    finally:
        consumer.close()


def _commit(consumer: KafkaConsumer, group: str, ends: dict[TopicPartition, int]) -> None:
    try:
        consumer.commit({tp: OffsetAndMetadata(offset, "", -1) for tp, offset in ends.items()})
    except (CommitFailedError, KafkaConnectionError):
        return
    except KafkaError as error:
        if not error.retriable:
            tell(Trouble(f"{group}: commit: {error!r}"))
        return
    tell(*(Committed(group, tp.topic, tp.partition, offset) for tp, offset in ends.items()))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # brokers come and go here
    mine = role_of()
    run_threads(
        mine,
        [
            partial(produce, mine, "kafka-python-once", enable_idempotence=True),
            partial(
                produce,
                mine,
                "kafka-python-acks-all",
                enable_idempotence=False,
                acks="all",
                max_in_flight_requests_per_connection=1,
            ),
            partial(consume, mine, MIXED),
        ],
    )
