"""A service on kafka-python that keeps a record of who did what.

Events that it cannot read go to the topic ``audit.dead-letters``, with the reason as a header. An event is committed
when it is kept, or when its dead letter is acknowledged: none gets lost, and some may be kept twice.

``python audit.py localhost:9092`` runs it until SIGTERM or Ctrl-C.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Callable
from threading import Event
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import CommitFailedError, KafkaError

log = logging.getLogger(__name__)
DEAD_LETTERS = "audit.dead-letters"


class Audit(ConsumerRebalanceListener):  # type: ignore[misc]
    """The service.

    Args:
        keep: keeps an event, which has ``who`` and ``what``.
        options: options of kafka-python, such as ``bootstrap_servers``.
    """

    def __init__(self, keep: Callable[[dict[str, str]], None], **options: Any) -> None:
        self._consumer = KafkaConsumer(
            group_id="audit",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=500,
            **options,
        )
        # An idempotent producer of kafka-python 3.0 refuses every record after one that was refused.
        self._producer = KafkaProducer(enable_idempotence=False, **options)
        self._keep = keep

    def run(self, stop: Event) -> None:
        """Work until the event is set; then leave the group."""
        self._consumer.subscribe(["events"], listener=self)
        try:
            while not stop.is_set():
                # Long: kafka-python 3.0 forgets an answer to its JoinGroup that comes between two calls.
                for place, records in self._consumer.poll(timeout_ms=1000).items():
                    self._handle(place, records)
        finally:
            self._consumer.close()
            self._producer.close()

    def _handle(self, place: TopicPartition, records: list[Any]) -> None:
        done = records[0].offset
        try:
            for record in records:
                self._handle_one(record)
                done = record.offset + 1
        except KafkaError as error:
            log.warning("%s at offset %d has to wait: %s", place, done, error)
            self._consumer.seek(place, done)  # it is read again with the next poll
        try:
            self._consumer.commit({place: OffsetAndMetadata(done, "", -1)})
        except CommitFailedError as error:
            log.warning("The next owner of %s reads some events again: %s", place, error)

    def _handle_one(self, record: Any) -> None:
        try:
            event = json.loads(record.value)
            kept = {"who": str(event["who"]), "what": str(event["what"])}
        except (ValueError, KeyError, TypeError) as error:
            self.bury(record.value, repr(error))
        else:
            self._keep(kept)

    def bury(self, value: bytes, reason: str) -> None:
        """Write a dead letter, and wait until it is acknowledged. Raises KafkaError."""
        sent = self._producer.send(DEAD_LETTERS, value, headers=[("reason", reason.encode())])
        sent.get(timeout=10)

    def on_partitions_revoked(self, revoked: Any) -> None:
        log.info("Gives back %s", revoked)  # all that was read is committed before the next poll, which calls this

    def on_partitions_assigned(self, assigned: Any) -> None:
        log.info("Has %s", assigned)


def main() -> None:
    logging.basicConfig(level=logging.INFO)
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    Audit(lambda event: print(event["who"], event["what"]), bootstrap_servers=sys.argv[1]).run(stop)


if __name__ == "__main__":
    main()
