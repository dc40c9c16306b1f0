"""A service on confluent-kafka that books orders in batches.

It collects orders, books them together and commits after that. When it has to give a partition back, it books what it
has of it first. When it has lost a partition, it forgets what it has of it: somebody else reads these orders again.

``python billing.py localhost:9092`` runs it until SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from threading import Event
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

Book = Callable[[list[bytes]], None]
"""Books orders. It raises an exception if it cannot; then the service ends, and its orders are read again."""


class Billing:
    """The service.

    Args:
        config: options of confluent-kafka, such as ``bootstrap.servers``.
        book: books orders.
        batch_size: so many orders are booked together.

    Attributes:
        orders: what has been collected, and is not booked yet.
    """

    def __init__(self, config: dict[str, Any], book: Book, batch_size: int = 100) -> None:
        own = {"group.id": "billing", "auto.offset.reset": "earliest"}
        by_hand = {"enable.auto.commit": False, "enable.auto.offset.store": False}
        self._consumer = Consumer({**own, **by_hand, **config})
        self._book = book
        self._batch_size = batch_size
        self.orders: list[Message] = []

    def run(self, stop: Event) -> None:
        """Work until the event is set; then book what has been collected, and leave the group."""
        self._consumer.subscribe(["orders"], on_revoke=self.on_revoke, on_lost=self.on_lost)
        try:
            while not stop.is_set():
                order = self._consumer.poll(0.1)
                if order is None:
                    continue
                if order.error():
                    print("Billing goes on after:", order.error(), file=sys.stderr)
                    continue
                self.orders.append(order)
                if len(self.orders) >= self._batch_size:
                    self.book()
            self.book()
        finally:
            self._consumer.close()

    def book(self) -> None:
        """Book what has been collected, and commit it."""
        if not self.orders:
            return
        self._book([order.value() or b"" for order in self.orders])
        booked, self.orders = self.orders, []
        try:
            for order in booked:
                self._consumer.store_offsets(order)
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            # A later commit makes up for it, unless a partition has been lost: then on_lost is about to be called.
            print("Billing could not commit:", error, file=sys.stderr)

    def on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Partitions are about to be taken away; they are ours until this returns."""
        self.book()

    def on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Partitions have been taken away, and may have another owner already."""
        lost = {(one.topic, one.partition) for one in partitions}
        self.orders = [one for one in self.orders if (one.topic(), one.partition()) not in lost]


def main() -> None:
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    Billing({"bootstrap.servers": sys.argv[1]}, lambda orders: print(*map(bytes.decode, orders), sep="\n")).run(stop)


if __name__ == "__main__":
    main()
