"""A process that holds librdkafka's mock cluster for the heartbeat benchmark.

The mock cluster lives on a thread of librdkafka, next to the client that asked for it. Prints the
mock broker's `host:port` and runs until its stdin ends or it is ended.
"""

from __future__ import annotations

import sys

from confluent_kafka import Producer


def main() -> None:
    """Start the mock cluster, say where it is, and wait."""
    producer = Producer({"test.mock.num.brokers": 1})
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    print(f"{broker.host}:{broker.port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
