"""A service on aiokafka that makes a shipment of each paid order, exactly once.

It reads ``payments`` and writes ``shipments`` in transactions, which commit the offsets of the payments, too: both
count, or neither does. After a transaction that failed it goes back to what is committed, and tries again.

``python shipping.py localhost:9092`` runs it until SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

log = logging.getLogger(__name__)
Batch = dict[TopicPartition, list[Any]]


class Shipping(ConsumerRebalanceListener):  # type: ignore[misc]
    """The service.

    Args:
        bootstrap_servers: where Kafka is.
        name: of this instance: no other has it at the same time, and this one has it again after a restart.
    """

    def __init__(self, bootstrap_servers: str, name: str) -> None:
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap_servers,
            group_id="shipping",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=500,
        )
        self._bootstrap_servers, self._name = bootstrap_servers, name
        self._shipping = asyncio.Lock()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until the event is set; then leave the group.

        Raises:
            ProducerFenced: another instance with this name has started.
        """
        await self._start_producer()
        try:
            async with self._consumer:
                self._consumer.subscribe(["payments"], listener=self)
                while not stop.is_set():
                    if batch := await self._consumer.getmany(timeout_ms=100):
                        async with self._shipping:
                            await self._ship(batch)
        finally:
            await self._producer.stop()

    async def _start_producer(self) -> None:
        """A producer that starts aborts the transaction that its predecessor left open."""
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap_servers, transactional_id=f"shipping-{self._name}"
        )
        await self._producer.start()

    async def _ship(self, batch: Batch) -> None:
        try:
            async with self._producer.transaction():
                for payments in batch.values():
                    for payment in payments:
                        await self._producer.send_and_wait("shipments", b"ship " + payment.value, key=payment.key)
                ends = {place: payments[-1].offset + 1 for place, payments in batch.items()}
                await self._producer.send_offsets_to_transaction(ends, "shipping")
        except ProducerFenced:
            raise
        except KafkaError as error:
            log.warning("The shipments of %d partitions are taken back: %s", len(batch), error)
            await self._producer.stop()  # aiokafka 0.14 may not have aborted, and its sequence numbers may be wrong
            await self._start_producer()
            self.go_back(batch)

    def go_back(self, batch: Batch) -> None:
        """Read again what was read and does not count: the consumer does not do that by itself."""
        for place, payments in batch.items():
            self._consumer.seek(place, payments[0].offset)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Give partitions away when no transaction is open: the next owner begins at what is committed."""
        async with self._shipping:
            log.info("Gives back %s", revoked)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        log.info("Has %s", assigned)


async def main() -> None:
    logging.basicConfig(level=logging.INFO)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await Shipping(sys.argv[1], "1").run(stop)


if __name__ == "__main__":
    asyncio.run(main())
