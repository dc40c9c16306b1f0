"""MirrorMaker 2 between two brokers: records, settings and groups follow while it and the brokers come and go.

The suite's broker is ``east``; ``west`` is another of this story's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager

from confluent_kafka import Consumer, Message, TopicPartition

from ottla.testing import BrokerProcess
from tests.differential.real_kafka import NoJava, RealKafka
from tests.interop.connect.processes import JavaProcess, check, kill
from tests.interop.connect.reading import Reader, partitions, topic_config, until
from tests.interop.suite import EVERY_SUITE, NotHere, Run
from tests.support.clients import confluent
from tests.support.clients.confluent import create_topics

ORDERS, RETURNS, GROUP = "orders", "returns", "billing"
MIRRORED = f"east.{ORDERS}"
RECORDS = 150
EVERY_SECOND = (
    "refresh.topics",
    "refresh.groups",
    "sync.topic.configs",
    "sync.topic.acls",
    "sync.group.offsets",
    "emit.heartbeats",
    "emit.checkpoints",
)
ONE_COPY = (
    "replication.factor",
    *(f"{what}.topic.replication.factor" for what in ("checkpoints", "heartbeats", "offset-syncs")),
    *(f"{what}.storage.replication.factor" for what in ("offset", "status", "config")),
)
SETTINGS: dict[str, object] = {
    **{f"{what}.interval.seconds": 1 for what in EVERY_SECOND},
    **dict.fromkeys(ONE_COPY, 1),
    "sync.group.offsets.enabled": True,
    "offset.flush.interval.ms": 500,
    "plugin.discovery": "service_load",
    "session.timeout.ms": 2500,
    "heartbeat.interval.ms": 500,
    "tasks.max": 2,
    "topics": f"{ORDERS},{RETURNS}",
}


class Mirror:
    """Two brokers, the program between them, and what was written to the source.

    Attributes:
        sent: every record of `ORDERS`, by partition, in order.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.east = run.bootstrap
        self.sent: dict[int, list[str]] = {}
        settings = {**EVERY_SUITE, "group.min.session.timeout.ms": 500}
        self.west = BrokerProcess(run.scratch / "west", settings=settings).start()
        self.maker = self.make("one-way", {"east": self.east, "west": self.west.bootstrap_servers}, "east->west")
        self.reader: Reader | None = None

    def make(self, name: str, clusters: Mapping[str, str], *ways: str) -> JavaProcess:
        """MirrorMaker 2 between clusters, by name and address; it is not started yet."""
        properties: dict[str, object] = {"clusters": ",".join(clusters), **SETTINGS}
        properties |= {f"{cluster}.bootstrap.servers": address for cluster, address in clusters.items()}
        properties |= {f"{way}.enabled": True for way in ways}
        main = "org.apache.kafka.connect.mirror.MirrorMaker"
        return JavaProcess(self.run.place.cache / "jars", self.run.scratch, name, main, properties)

    def close(self) -> None:
        self.maker.kill()
        if self.reader is not None:
            self.reader.close()
        self.west.stop()

    def write(self, what: str) -> None:
        """Send as many records to each partition of `ORDERS`, and keep what they are."""
        count = partitions(self.east)[ORDERS]
        sent = send(self.east, ORDERS, what, count)
        for partition, values in sent.items():
            self.sent.setdefault(partition, []).extend(values)

    def arrives(self) -> None:
        """Everything is at the target, in the order in which it was written, however often."""
        assert self.reader is not None
        self.reader.wait({value for values in self.sent.values() for value in values}, self.maker.tail)
        found = self.read()
        for partition, values in self.sent.items():
            first_seen = list(dict.fromkeys(message.value().decode() for message in found[partition]))
            assert first_seen == values, f"partition {partition} is in another order"

    def read(self) -> dict[int, list[Message]]:
        assert self.reader is not None
        found: dict[int, list[Message]] = {}
        for message in list(self.reader.messages):
            found.setdefault(message.partition(), []).append(message)
        return found

    def committed(self, bootstrap: str, topic: str) -> dict[int, int]:
        """The offsets that the group has committed, by partition."""
        with closing(confluent.consumer(bootstrap, GROUP)) as consumer:
            places = [TopicPartition(topic, partition) for partition in range(partitions(bootstrap)[topic])]
            return {one.partition: one.offset for one in consumer.committed(places, timeout=30) if one.offset >= 0}


def send(bootstrap: str, topic: str, what: str, count: int) -> dict[int, list[str]]:
    """Send records with key, header and time to each of so many partitions; give their values by partition."""
    producer = confluent.producer(bootstrap, linger_ms=5)
    sent: dict[int, list[str]] = {}
    # No time of its own that retention would take for old.
    an_hour_ago = int(time.time() * 1000) - 3_600_000
    for number in range(RECORDS):
        for partition in range(count):
            value = f"{what} {partition} {number}"
            headers = [("number", str(number).encode()), ("nothing", None)]
            producer.produce(topic, value, f"key {number}", partition, headers=headers, timestamp=an_hour_ago + number)
            sent.setdefault(partition, []).append(value)
    assert producer.flush(60) == 0, "not everything was delivered"
    return sent


@contextmanager
def group(bootstrap: str, topic: str) -> Iterator[Consumer]:
    """A consumer of the group, which commits what it read when it is closed."""
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": True, "session_timeout_ms": 2500}
    with closing(confluent.consumer(bootstrap, GROUP, **options)) as consumer:
        consumer.subscribe([topic])
        yield consumer


def records_follow(at: Mirror) -> None:
    """The topic is made with its partitions and settings; key, value, headers and time of each record are the same."""
    create_topics(at.east, {ORDERS: 3}, retention_ms="-1", max_message_bytes="2000000")
    at.write("first")
    at.maker.start()
    at.reader = Reader(at.west.bootstrap_servers, MIRRORED)
    at.arrives()
    assert partitions(at.west.bootstrap_servers)[MIRRORED] == 3
    for key, value in (("retention.ms", "-1"), ("max.message.bytes", "2000000")):
        assert topic_config(at.west.bootstrap_servers, MIRRORED, key) == value
    with_source = Reader(at.east, ORDERS)
    with with_source:
        with_source.wait({value for values in at.sent.values() for value in values})
        source = sorted(map(_whole, with_source.messages))
    assert sorted(map(_whole, at.reader.messages)) == source


def _whole(message: Message) -> tuple[object, ...]:
    return (message.partition(), message.offset(), message.key(), message.value(), message.timestamp(),
            repr(message.headers()))  # fmt: skip


def its_own_topics(at: Mirror) -> None:
    """Heartbeats, checkpoints and the topics in which it keeps what it knows."""
    west = at.west.bootstrap_servers
    internal = {f"mm2-{what}.east.internal" for what in ("configs", "offsets", "status")}
    wanted = {"heartbeats", "east.checkpoints.internal", *internal}
    until(lambda: wanted <= set(partitions(west)), f"{wanted}", show=at.maker.tail)
    assert {topic_config(west, topic, "cleanup.policy") for topic in wanted} == {"compact"}
    with Reader(west, "heartbeats") as heartbeats:
        until(lambda: len(heartbeats.messages) > 1, "heartbeats", show=at.maker.tail)
    assert "mm2-offset-syncs.west.internal" in partitions(at.east)


def changes_follow(at: Mirror) -> None:
    """More partitions and other settings, while it runs."""
    assert at.reader is not None
    kit = confluent.KIT(at.east)
    kit.grow(ORDERS, 4)
    kit.alter(ORDERS, {"max.message.bytes": "3000000"})
    west = at.west.bootstrap_servers
    until(lambda: partitions(west)[MIRRORED] == 4, "the fourth partition", show=at.maker.tail)
    until(lambda: topic_config(west, MIRRORED, "max.message.bytes") == "3000000", "the setting", show=at.maker.tail)
    at.reader.close()
    at.reader = Reader(west, MIRRORED)
    at.write("with four")
    at.arrives()


def groups_follow(at: Mirror) -> None:
    """A group that moves to the target goes on there: nothing is left out, and not everything comes again."""
    values: set[str] = set()
    with group(at.east, ORDERS) as consumer:
        while len(values) < RECORDS * 5:
            if (message := consumer.poll(30)) is not None and message.error() is None:
                values.add(message.value().decode())
    # Records after those that the group has read: a checkpoint is of what both sides have.
    at.write("after the group has left")
    at.arrives()
    west = at.west.bootstrap_servers
    there = at.committed(at.east, ORDERS)
    until(lambda: set(at.committed(west, MIRRORED)) == set(there), "translated offsets", show=at.maker.tail)
    assert all(0 < offset <= there[partition] for partition, offset in at.committed(west, MIRRORED).items())
    everything = {value for values in at.sent.values() for value in values}
    again: set[str] = set()
    with group(west, MIRRORED) as consumer:
        while not everything <= values | again:
            message = consumer.poll(30)
            assert message is not None, f"not read by the group: {len(everything - values - again)} records"
            again.add(message.value().decode())
    assert again < everything, "the group began from the start"


def nothing_went_wrong(at: Mirror) -> None:
    """Nobody was killed so far: an error that it logged is one that its user has to look into."""
    bad = [line for line in at.maker.log.read_text("utf-8").splitlines() if " ERROR " in line]
    assert not bad, "\n".join(bad[:20])


def maker_killed(at: Mirror) -> None:
    """It is killed, and another takes over, which mirrors both ways: what came from one side does not go back to it."""
    at.write("before it is killed")
    at.maker.kill()
    at.write("while it is gone")
    west = at.west.bootstrap_servers
    create_topics(west, {RETURNS: 2})
    sent = send(west, RETURNS, "back", 2)
    at.maker = at.make("both-ways", {"east": at.east, "west": west}, "east->west", "west->east").start()
    at.arrives()
    with Reader(at.east, f"west.{RETURNS}") as reader:
        reader.wait({value for values in sent.values() for value in values}, at.maker.tail)
    found = {name for name in {*partitions(at.east), *partitions(west)} if name.endswith((ORDERS, RETURNS))}
    assert found == {ORDERS, MIRRORED, RETURNS, f"west.{RETURNS}"}, found


def brokers_restarted(at: Mirror) -> None:
    """Both brokers are killed while it runs, the target first, and come back on their data."""
    at.write("before the target is killed")
    kill(at.west)
    at.write("without a target")
    at.west.restart()
    at.arrives()
    if at.run.broker is not None:
        kill(at.run.broker)
        at.run.broker.restart()
        at.write("the source is back")
        at.arrives()


def from_apache_kafka(at: Mirror) -> None:
    """Another cluster moves in: Apache Kafka's topics to Ottla."""
    at.maker.stop()
    west = at.west.bootstrap_servers
    try:
        with RealKafka() as kafka:
            address = f"127.0.0.1:{kafka.port}"
            create_topics(address, {ORDERS: 2})
            sent = send(address, ORDERS, "from Kafka", 2)
            at.maker = at.make("from-kafka", {"kafka": address, "west": west}, "kafka->west").start()
            with Reader(west, f"kafka.{ORDERS}") as reader:
                reader.wait({value for values in sent.values() for value in values}, at.maker.tail)
            at.maker.stop()
    except NoJava as absent:
        raise NotHere(str(absent)) from absent


def west_is_well(at: Mirror) -> None:
    """The runner looks at the log of its own broker alone."""
    check(at.west)


STEPS: list[Callable[[Mirror], None]] = [
    records_follow,
    its_own_topics,
    changes_follow,
    groups_follow,
    nothing_went_wrong,
    maker_killed,
    brokers_restarted,
    from_apache_kafka,
    west_is_well,
]
