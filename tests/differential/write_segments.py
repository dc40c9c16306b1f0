"""Let Apache Kafka write the segments that tests/cli reads: ``python write_segments.py`` (with Java and Maven)."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.differential.real_kafka import RealKafka, version

TARGET = Path(__file__).parents[1] / "cli" / f"kafka_{'_'.join(version().split('.')[:2])}"
PARTITIONS = ("__consumer_offsets-0", "__consumer_offsets-1", "__transaction_state-0", "orders-0", "results-0")
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 1,
    "log.index.interval.bytes": 300,
    "log.index.size.max.bytes": 4096,
}
RECORDS = 60


def write(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic("orders", 1), NewTopic("results", 1)]).values():
        made.result()
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    for begin in range(0, RECORDS, 12):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codecs[begin // 12], "linger.ms": 5})
        for number in range(begin, begin + 12):
            value = b"value %d" % number if number % 11 else None
            producer.produce("orders", key=b"key %d" % (number % 7), value=value, headers={"h": b"x"})
            if number % 4 == 3:
                producer.flush()
    read(bootstrap, {"group.id": "classic", "group.instance.id": "instance-1"}).close()
    modern = read(bootstrap, {"group.id": "modern", "group.protocol": "consumer"})
    transactions(bootstrap, modern)
    modern.close()
    commit(bootstrap, "gone", TopicPartition("orders", 0, 3))
    admin.delete_consumer_groups(["gone"])["gone"].result()
    commit(bootstrap, "alone", TopicPartition("orders", 0, 7, "some metadata"))


def read(bootstrap: str, options: dict[str, str]) -> Consumer:
    """A member that has read and committed everything."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest", **options})
    consumer.subscribe(["orders"])
    left = RECORDS
    while left:
        message = consumer.poll(1)
        left -= message is not None and message.error() is None
    consumer.commit(asynchronous=False)
    return consumer


def transactions(bootstrap: str, consumer: Consumer) -> None:
    """Two that are committed, one in between that is aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "tx"})
    producer.init_transactions()
    for commits in (True, False, True):
        producer.begin_transaction()
        producer.produce("results", b"result", key=b"k")
        offsets = [TopicPartition("orders", 0, 10 + commits)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()


def commit(bootstrap: str, group: str, offset: TopicPartition) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[offset], asynchronous=False)
    consumer.close()


def main() -> int:
    shutil.rmtree(TARGET, ignore_errors=True)
    with RealKafka(SETTINGS) as kafka:
        write(f"127.0.0.1:{kafka.port}")
        # While it runs, the indexes of the segments that it writes to are filled with zeros in advance.
        for name in PARTITIONS:
            (TARGET / name).mkdir(parents=True)
            for path in sorted((kafka.data / name).glob("*.*")):
                if path.suffix in (".log", ".index", ".timeindex", ".txnindex") and path.stat().st_size:
                    shutil.copyfile(path, TARGET / name / path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
