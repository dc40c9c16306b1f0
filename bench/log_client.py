"""One client of the log benchmark: a stock confluent-kafka producer or consumer in a process of its own.

    log_client.py produce|pace|consume HOST:PORT TOPIC PARTITIONS RECORD_BYTES RECORDS [SETTING=VALUE …]

``produce`` sends as fast as it is taken, acks=all, and is done when everything is acknowledged; ``pace`` sends 500
records a second, each at once, and tells how long the acknowledgements took; ``consume`` reads as many records as it
is told to from the beginning, PASSES times. The settings are librdkafka's. One line of JSON on stdout.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

PACE_SECONDS = 1 / 500
PASSES = 8
PATIENCE_SECONDS = 60.0
LOUDEST = 3
"""librdkafka's log level: errors."""
Conf = dict[str, Any]


def produce(client: Conf, topic: str, partitions: int, size: int, records: int) -> dict[str, Any]:
    """Send everything and wait for the last acknowledgement."""
    producer = Producer(
        {
            **client,
            "acks": "all",
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 262_144,
        }
    )
    producer.list_topics(topic, timeout=PATIENCE_SECONDS)
    value = os.urandom(size)
    failed: list[KafkaError] = []

    def settled(error: KafkaError | None, message: Any) -> None:
        if error is not None:
            failed.append(error)

    start = time.perf_counter()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions, on_delivery=settled)
                break
            except BufferError:
                producer.poll(0.01)
        if not number & 1023:
            producer.poll(0)
    left = producer.flush(PATIENCE_SECONDS)
    seconds = time.perf_counter() - start
    if left or failed:
        raise SystemExit(f"{left} records not acknowledged, {len(failed)} refused: {failed[:1]}")
    return {"seconds": seconds, "passes": 1}


def pace(client: Conf, topic: str, partitions: int, size: int, records: int) -> dict[str, Any]:
    """Send records one by one, and see how long each waits for its acknowledgement."""
    producer = Producer({**client, "acks": "all", "linger.ms": 0})
    producer.list_topics(topic, timeout=PATIENCE_SECONDS)
    value = os.urandom(size)
    took: list[float] = []
    due = time.perf_counter()
    for number in range(records):
        while (left := due - time.perf_counter()) > 0:
            producer.poll(left)
        due += PACE_SECONDS
        sent = time.perf_counter()

        def settled(error: KafkaError | None, message: Any, sent: float = sent) -> None:
            if error is None:
                took.append(time.perf_counter() - sent)

        producer.produce(topic, value, partition=number % partitions, on_delivery=settled)
    producer.flush(PATIENCE_SECONDS)
    if len(took) < records:
        raise SystemExit(f"{records - len(took)} of {records} records were not acknowledged")
    percentiles = statistics.quantiles(took, n=100)
    return {"p50_us": percentiles[49] * 1e6, "p99_us": percentiles[98] * 1e6}


def consume(client: Conf, topic: str, partitions: int, size: int, records: int) -> dict[str, Any]:
    """Read from the beginning, again and again: a mock cluster keeps five megabytes of a partition."""
    consumer = Consumer({**client, "group.id": "bench", "fetch.wait.max.ms": 10})
    consumer.list_topics(topic, timeout=PATIENCE_SECONDS)
    beginning = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
    seconds = 0.0
    for _ in range(PASSES):
        start, got = time.perf_counter(), 0
        consumer.assign(beginning)
        while got < records and time.perf_counter() < start + PATIENCE_SECONDS:
            messages = consumer.consume(500, timeout=0.005)
            for message in messages:
                if message.error() is not None or len(message.value() or b"") != size:
                    raise SystemExit(f"a record that was not sent: {message.error()}")
            got += len(messages)
        seconds += time.perf_counter() - start
        if got != records:
            raise SystemExit(f"{got} of {records} records were read")
        consumer.unassign()
    consumer.close()
    return {"seconds": seconds / PASSES, "passes": PASSES}


def main() -> None:
    """See the module."""
    what, address, topic, *more = sys.argv[1:]
    client: Conf = {"bootstrap.servers": address, "log_level": LOUDEST}
    for setting in more[3:]:
        name, _, value = setting.partition("=")
        client[name] = value
    figures = {"produce": produce, "pace": pace, "consume": consume}[what](client, topic, *map(int, more[:3]))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
