"""Clients that may not: what they try, and what they hear. They are confluent-kafka's: not what is on trial."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

TIMEOUT_S = 15.0
POLL_S = 0.2
SILENT = logging.Logger("guest", logging.CRITICAL + 1)
"""For what librdkafka says of each attempt to connect again."""


@dataclass(frozen=True)
class Attempt:
    """Something that a client tried, what it was to hear, and what it heard.

    Attributes:
        heard: the name of an error, or what came of the attempt.
    """

    what: str
    expected: str
    heard: str

    @property
    def is_refused(self) -> bool:
        return self.heard == self.expected


def attempts(bootstrap: str, topic: str, guest: dict[str, str]) -> list[Attempt]:
    """Try everything that is to be refused. Blocks: not for an event loop's thread.

    Args:
        guest: the properties of a user whom no rule allows anything.
    """
    config = {"bootstrap.servers": bootstrap, "client.id": "guest", **guest}
    stranger = config | {"client.id": "stranger", "sasl.password": "not the password"}
    plain = {"bootstrap.servers": bootstrap, "client.id": "plain"}
    tried: list[tuple[str, str, Callable[[], str]]] = [
        ("the guest looks the topic up", "TOPIC_AUTHORIZATION_FAILED", lambda: _look_up(config, topic)),
        ("the guest writes", "TOPIC_AUTHORIZATION_FAILED", lambda: _write(config, topic)),
        ("the guest joins the group", "GROUP_AUTHORIZATION_FAILED", lambda: _join(config, topic)),
        ("somebody has a wrong password", "_AUTHENTICATION", lambda: _connect(stranger)),
        ("somebody comes without TLS", "_TRANSPORT", lambda: _connect(plain)),
    ]
    return [Attempt(what, expected, attempt()) for what, expected, attempt in tried]


def _look_up(config: dict[str, Any], topic: str) -> str:
    consumer = Consumer(config | {"group.id": "guests"}, logger=SILENT)
    try:
        error = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].error
        return error.name() if error is not None else "its partitions"
    finally:
        consumer.close()


def _join(config: dict[str, Any], topic: str) -> str:
    consumer = Consumer(config | {"group.id": "readers"}, logger=SILENT)
    try:
        consumer.subscribe([topic])
        return _polled(consumer)
    finally:
        consumer.close()


def _polled(consumer: Consumer) -> str:
    """What a consumer gets first: the name of an error, or a record."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        message = consumer.poll(POLL_S)
        if message is not None:
            error = message.error()
            return error.name() if error is not None else "a record"
    return "nothing"


def _write(config: dict[str, Any], topic: str) -> str:
    heard: list[KafkaError | None] = []
    producer = Producer(config | {"message.timeout.ms": int(TIMEOUT_S * 1000)}, logger=SILENT)
    producer.produce(topic, b"from a guest", on_delivery=lambda error, _: heard.append(error))
    producer.flush(TIMEOUT_S)
    if not heard:
        return "nothing"
    return heard[0].name() if heard[0] is not None else "acknowledged"


def _connect(config: dict[str, Any]) -> str:
    heard: list[KafkaError] = []
    consumer = Consumer(config | {"group.id": "strangers", "error_cb": heard.append}, logger=SILENT)
    try:
        consumer.list_topics(timeout=2)
        return "the topics"
    except KafkaException as error:
        consumer.poll(POLL_S)
        names = [one.name() for one in heard if one.code() != KafkaError._ALL_BROKERS_DOWN]
        return names[0] if names else error.args[0].name()
    finally:
        consumer.close()
