"""The cast of confluent-kafka (librdkafka)."""

from __future__ import annotations

import logging
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from ottla.testing.cast import Cast, Client, ConsumerClient, Part, ProducerClient, Tell

TIMEOUT_S = 10
LOGGER = logging.getLogger("confluent-kafka")
"""Takes what the library would write to standard error."""
LOGGER.addHandler(logging.NullHandler())
LOGGER.propagate = False
NAMES = {"request.timeout.ms": "socket.timeout.ms", "fetch.max.wait.ms": "fetch.wait.max.ms"}
"""Options that have another name here."""
PASSING = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT)
"""What the library tells of and gets over by itself."""


class _Confluent(Client):
    error = KafkaException

    def __init__(self, part: Part, tell: Tell) -> None:
        super().__init__(part, tell)
        self.options: dict[str, Any] = {
            "bootstrap.servers": part.bootstrap,
            "client.id": part.name,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            **{NAMES.get(key, key): value for key, value in part.options.items()},
            "logger": LOGGER,
        }

    def code(self, error: KafkaException) -> str:
        found: KafkaError = error.args[0]
        return str(found.name())


class ConfluentConsumer(_Confluent, ConsumerClient):
    def open(self) -> None:
        self._consumer = Consumer({"group.id": self.part.group, **self.options})

        def told(what: str) -> Any:
            return lambda _, places: self.told_of(what, [(one.topic, one.partition) for one in places])

        self._consumer.subscribe(
            list(self.part.topics), on_assign=told("assigned"), on_revoke=told("revoked"), on_lost=told("lost")
        )

    def poll(self, timeout_s: float) -> int:
        rows: list[tuple[Any, Any, Any]] = []
        for message in self._consumer.consume(500, timeout_s):
            error = message.error()
            if error is None:
                rows.append((message.topic(), message.partition(), message.offset()))
            elif error.code() not in PASSING:
                self.told_read(rows)
                raise KafkaException(error)
        return self.told_read(rows)

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


class ConfluentProducer(_Confluent, ProducerClient):
    def open(self) -> None:
        self._producer = Producer({"linger.ms": 0, **self.options})
        if "transactional.id" in self.options:
            self._producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, values: list[bytes]) -> None:
        errors: list[KafkaError] = []
        count = len(self._producer.list_topics(topic, TIMEOUT_S).topics[topic].partitions)

        def delivered(error: KafkaError | None, _: object) -> None:
            if error is not None:
                errors.append(error)

        for at, value in enumerate(values):
            self._producer.produce(topic, value, partition=at % count, on_delivery=delivered)
        self._producer.flush(TIMEOUT_S)
        if errors:
            raise KafkaException(errors[0])

    def end(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)

    def close(self) -> None:
        self._producer.flush(TIMEOUT_S)


CAST = Cast("confluent", ConfluentConsumer, ConfluentProducer)
