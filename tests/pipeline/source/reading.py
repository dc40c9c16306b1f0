"""What the source gives, read as Spark's tasks read it, without Spark; and clients that give it something to read."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin import NewTopic as ConfluentTopic
from pyspark.sql.datasource import Filter

from ottla.pipeline.source.batch import OttlaReader
from ottla.pipeline.source.ends_stream import EndsStreamReader
from ottla.pipeline.source.options import parse_options
from ottla.pipeline.source.stream import OttlaStreamReader

QUIET = {"log_level": 0, "logger": None}
ORDER = ("topic", "partition", "offset", "log_partition", "log_offset", "ts", "event", "sample_ts")


def where(place: Any) -> dict[str, str]:
    """Options for a broker or a directory."""
    if hasattr(place, "bootstrap_servers"):
        return {"kafka.bootstrap.servers": place.bootstrap_servers}
    return {"path": str(place)}


def read(place: Any, filters: Sequence[Filter] = (), **options: str) -> list[dict[str, Any]]:
    """All rows of a batch, in order."""
    reader = batch_reader(place, **options)
    list(reader.pushFilters(list(filters)))
    return rows_of([batch for part in reader.partitions() for batch in reader.read(part)])


def batch_reader(place: Any, **options: str) -> OttlaReader:
    return OttlaReader(parse_options({**where(place), "tasks": "3", **options}, streaming=False))


def stream_reader(place: Any, **options: str) -> OttlaStreamReader:
    return OttlaStreamReader(parse_options({**where(place), "tasks": "3", **options}, streaming=True))


def ends_reader(place: Any, **options: str) -> EndsStreamReader:
    return EndsStreamReader(parse_options({**where(place), "decode": "ends", **options}, streaming=True))


def read_between(reader: OttlaStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of one micro-batch, in order."""
    return rows_of([batch for part in reader.partitions(start, end) for batch in reader.read(part)])


def rows_of(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    names = [name for name in ORDER if rows and name in rows[0]]
    return sorted(rows, key=lambda row: [str(row[name]) if isinstance(row[name], str) else row[name] for name in names])


# -- clients


def create(servers: str, topic: str, partitions: int = 1, **configs: object) -> None:
    texts = {name.replace("_", "."): str(value) for name, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": servers, **QUIET})
    admin.create_topics([ConfluentTopic(topic, partitions, 1, config=texts)])[topic].result(30)


def producer(servers: str, **options: Any) -> Producer:
    return Producer({"bootstrap.servers": servers, "linger.ms": 1, **QUIET, **options})


def produce(servers: str, topic: str, count: int, *, size: int = 20, **options: Any) -> None:
    """Some records, with headers in some of them, on all partitions in turn."""
    one = producer(servers, **options)
    partitions = len(one.list_topics(topic, timeout=30).topics[topic].partitions)
    for number in range(count):
        headers = [("n", str(number).encode()), ("none", None)] if number % 3 == 0 else None
        value = None if number % 7 == 6 else f"{number:0{size}d}".encode()
        one.produce(topic, value, f"key-{number % 10}", number % partitions, headers=headers)
    assert one.flush(30) == 0


def commit(servers: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    """Committed for a group without members."""
    places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    with Consumer({"bootstrap.servers": servers, "group.id": group, **QUIET}) as consumer:
        for one in consumer.commit(offsets=places, asynchronous=False):
            assert one.error is None, one.error


def transact(servers: str, name: str, topic: str, *, end: str, group: str = "", records: int = 5) -> Producer:
    """A transaction that ends as told: ``commit``, ``abort`` or ``open``; with offsets of a group if one is named."""
    one = producer(servers, **{"transactional.id": name})
    one.init_transactions(30)
    one.begin_transaction()
    for number in range(records):
        one.produce(topic, f"{name}-{end}-{number}", name, 0)
    assert one.flush(30) == 0
    if group:
        places = [TopicPartition(topic, 0, records)]
        with Consumer({"bootstrap.servers": servers, "group.id": group, **QUIET}) as consumer:
            one.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 30)
    if end == "commit":
        one.commit_transaction(30)
    elif end == "abort":
        one.abort_transaction(30)
    return one


def join(servers: str, group: str, topic: str) -> None:
    """A member that gets its partitions, commits what it reads, and leaves."""
    options = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest", **QUIET}
    with Consumer({**options, "enable.auto.commit": False}) as consumer:
        consumer.subscribe([topic])
        while not (got := consumer.consume(10, 0.1)):
            pass
        assert got[0].error() is None
        consumer.commit(asynchronous=False)
