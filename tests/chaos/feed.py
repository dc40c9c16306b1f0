"""Feeds the applications: an idempotent producer of confluent-kafka, whose records are numbered."""

from __future__ import annotations

import itertools
import threading
from functools import partial

from confluent_kafka import KafkaError, Message, Producer

from tests.chaos.events import Acked, Trouble, tell
from tests.chaos.load import Role, role_of, run_threads, value_of
from tests.chaos.load_confluent import COMMON
from tests.chaos.pipeline import INPUT, PARTITIONS

BURST = 8
PAUSE_S = 0.03


def feed(role: Role, stopping: threading.Event) -> None:
    producer = Producer(
        {"bootstrap.servers": role.bootstrap, "enable.idempotence": True, "message.timeout.ms": 300_000, **COMMON}
    )

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            tell(Trouble(f"{INPUT}: {error}"))
        else:
            tell(Acked(INPUT, message.partition(), message.offset(), message.value().decode()))

    numbers = itertools.count()
    while not stopping.wait(PAUSE_S):
        for number in itertools.islice(numbers, BURST):
            producer.produce(INPUT, value_of(number), partition=number % PARTITIONS, on_delivery=delivered)
        producer.poll(0)
    if left := producer.flush(120):
        tell(Trouble(f"{INPUT}: {left} records are not delivered"))


if __name__ == "__main__":
    mine = role_of()
    run_threads(mine, [partial(feed, mine)])
