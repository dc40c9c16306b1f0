"""Load from confluent-kafka: an idempotent producer, one with acks=1, members of groups, a maker of topics."""

from __future__ import annotations

import itertools
import threading
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.events import Acked, Committed, Created, Deleted, Doubtful, Saw, Trouble, tell
from tests.chaos.load import (
    BURST,
    COMES_AND_GOES,
    MIXED,
    PARTITIONS,
    SESSION_MS,
    STEADY,
    STEADY_SESSION_MS,
    Member,
    Role,
    bursts,
    role_of,
    run_threads,
    steady,
    value_of,
)
from tests.support.clients import confluent

COMMON = {
    "log_level": 0,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 300,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 300,
}
HARMLESS = {
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError._DESTROY_BROKER,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
}
LOST = {
    KafkaError._NO_OFFSET,
    KafkaError._WAIT_COORD,
    KafkaError._STATE,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REQUEST_TIMED_OUT,
    *HARMLESS,
}
"""Why a commit may fail without anybody being to blame."""
CLASSIC = {
    "partition_assignment_strategy": "roundrobin",
    "session_timeout_ms": SESSION_MS,
    "heartbeat_interval_ms": 300,
}
STAYING: dict[str, dict[str, Any]] = {
    "classic": CLASSIC | {"session_timeout_ms": STEADY_SESSION_MS},
    "consumer": {"group_protocol": "consumer"},
}
"""Options of a member that stays, by the protocol of its group."""


def produce(
    role: Role,
    topic: str,
    stopping: threading.Event,
    *,
    partitions: int = PARTITIONS,
    burst: int = BURST,
    **options: Any,
) -> None:
    """Records with rising numbers, to the partitions in turn."""
    producer = Producer({"bootstrap.servers": role.bootstrap, "message.timeout.ms": 300_000, **COMMON, **options})

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            tell(Trouble(f"{topic}: {error}"))
        else:
            tell(Acked(topic, message.partition(), message.offset(), message.value().decode()))

    for numbers in bursts(burst):
        if stopping.wait(role.pause_s):
            break
        for number in numbers:
            while True:
                try:
                    producer.produce(topic, value_of(number), partition=number % partitions, on_delivery=delivered)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
    if left := producer.flush(120):
        tell(Trouble(f"{topic}: {left} records are not delivered"))


def consume(role: Role, group: str, stopping: threading.Event, *, stays_s: float | None = None, **options: Any) -> None:
    """Read as a member of a group, and commit what was read; with ``stays_s`` leave after so long and come back."""
    while not stopping.is_set():
        left = threading.Event()
        if stays_s is not None:
            timer = threading.Timer(stays_s, left.set)
            timer.daemon = True
            timer.start()
        _membership(role, group, stopping, left, options or CLASSIC)


def _membership(
    role: Role, group: str, stopping: threading.Event, left: threading.Event, options: dict[str, Any]
) -> None:
    member = Member(group, role.name)
    made = confluent.consumer(
        role.bootstrap,
        group,
        client_id=role.name,
        auto_offset_reset="earliest",
        topic_metadata_refresh_interval_ms=5_000,
        **options,
        **COMMON,
    )
    with closing(made) as consumer:
        consumer.subscribe(role.topics)
        while not stopping.is_set() and not left.is_set():
            messages = consumer.consume(200, 0.1)
            good = [message for message in messages if message.error() is None]
            for message in messages:
                if (error := message.error()) is not None and error.code() not in LOST:
                    tell(Trouble(f"{group} {role.name}: {error}"))
            tell(*(Saw(group, m.topic(), m.partition(), m.offset(), m.value().decode()) for m in good))
            if good:
                _commit(consumer, group, good)
            metadata = consumer.consumer_group_metadata()
            generation = int.from_bytes(metadata[7:11], "little", signed=True)
            member.is_in(generation if generation > -1 and consumer.assignment() else None)


def _commit(consumer: Consumer, group: str, messages: list[Message]) -> None:
    ends: dict[tuple[str, int], int] = {}
    for message in messages:
        ends[message.topic(), message.partition()] = message.offset() + 1
    places = [TopicPartition(topic, number, offset) for (topic, number), offset in ends.items()]
    try:
        done = consumer.commit(offsets=places, asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in LOST:
            tell(Trouble(f"{group}: commit: {error}"))
        return
    tell(*(Committed(group, one.topic, one.partition, one.offset) for one in done if one.error is None))


def make_topics(role: Role, stopping: threading.Event) -> None:
    """Create topics, and delete every second one."""
    admin = AdminClient({"bootstrap.servers": role.bootstrap, **COMMON})
    for number in itertools.count():
        if stopping.wait(5 * role.pause_s):
            return
        topic = f"made-{number}"
        if _done(admin.create_topics([NewTopic(topic, 2)], request_timeout=5)[topic], "create", topic):
            tell(Created(topic, 2))
            if number % 2:
                tell(Doubtful(topic))
                if _done(admin.delete_topics([topic], request_timeout=5)[topic], "delete", topic):
                    tell(Deleted(topic))


def _done(future: Any, what: str, topic: str) -> bool:
    try:
        future.result(20)
    except KafkaException as error:
        if error.args[0].code() not in LOST:
            tell(Trouble(f"{what} {topic}: {error}"))
        return False
    return True


if __name__ == "__main__":
    mine = role_of()
    stays = replace(mine, topics=steady(mine.topics))
    run_threads(
        mine,
        [
            partial(consume, mine, MIXED),
            partial(consume, mine, COMES_AND_GOES),
            partial(consume, mine, COMES_AND_GOES, stays_s=4.0),
            *(partial(consume, stays, group, **STAYING[protocol]) for group, protocol in STEADY.items()),
        ],
        [
            partial(produce, mine, "confluent-once", **{"enable.idempotence": True}),
            partial(
                produce,
                mine,
                "confluent-acks-1",
                **{"enable.idempotence": False, "acks": 1, "max.in.flight.requests.per.connection": 1},
            ),
            partial(make_topics, mine),
        ],
    )
