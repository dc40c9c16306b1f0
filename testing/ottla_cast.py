"""The cast of the included client."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from ottla.clients import Consumer, ConsumerRebalanceListener, KafkaError, Producer
from ottla.protocol.records import TopicPartition
from ottla.testing.cast import Cast, Client, ConsumerClient, Part, ProducerClient, Sight, Tell


class _Told(logging.Handler):
    """Tells of what the client logs."""

    def __init__(self, tell: Tell) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        self._tell(Sight("logged", text=record.getMessage()))


class _OnALoop(Client):
    error = KafkaError

    def __init__(self, part: Part, tell: Tell) -> None:
        super().__init__(part, tell)
        logger = logging.getLogger("ottla.clients")
        logger.addHandler(_Told(tell))
        logger.propagate = False
        self.run = asyncio.Runner().run
        self.options: dict[str, Any] = {
            "bootstrap_servers": part.bootstrap,
            "client_id": part.name,
            **{key.replace(".", "_"): value for key, value in part.options.items()},
        }

    def rest(self, timeout_s: float) -> None:
        self.run(asyncio.sleep(timeout_s))

    def code(self, error: KafkaError) -> str:
        return error.code.name


class OttlaConsumer(_OnALoop, ConsumerClient):
    def open(self) -> None:
        self.run(self._open())

    async def _open(self) -> None:
        told = self.told_of

        class Listener(ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
                told("assigned", assigned)

            def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
                told("revoked", revoked)

            def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
                told("lost", lost)

        self._consumer = Consumer(group_id=self.part.group, **self.options)
        await self._consumer.start()
        self._consumer.subscribe(self.part.topics, listener=Listener())

    def poll(self, timeout_s: float) -> int:
        batches = self.run(self._consumer.getmany(timeout_ms=timeout_s * 1000))
        return self.told_read((one.topic, one.partition, one.offset) for batch in batches.values() for one in batch)

    def commit(self) -> None:
        self.run(self._consumer.commit())

    def close(self) -> None:
        self.run(self._consumer.stop())


class OttlaProducer(_OnALoop, ProducerClient):
    def open(self) -> None:
        self.run(self._open())

    async def _open(self) -> None:
        self._producer = Producer(**self.options)
        await self._producer.start()

    def begin(self) -> None:
        self.run(self._producer.begin_transaction())

    def send(self, topic: str, values: list[bytes]) -> None:
        self.run(self._send(topic, values))

    async def _send(self, topic: str, values: list[bytes]) -> None:
        count = len(await self._producer.partitions_for(topic))
        sent = [await self._producer.send(topic, value, partition=at % count) for at, value in enumerate(values)]
        await asyncio.gather(*sent)

    def end(self) -> None:
        self.run(self._producer.commit_transaction())

    def close(self) -> None:
        self.run(self._producer.stop())


CAST = Cast("ottla", OttlaConsumer, OttlaProducer)
