"""confluent-kafka (librdkafka) behind the faces that the tests share, and what is asked of it alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import MappingProxyType
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.support.kit import Ack, Got, Place, Poll, Row, Transactional, WholeKit
from tests.support.members import Member, Role

QUIET = {"log_level": 2}
"""Brokers come and go in these tests; librdkafka writes a line to standard error for each."""
STATES = {"PREPARING_REBALANCING": "PreparingRebalance", "COMPLETING_REBALANCING": "CompletingRebalance"}
PATIENCE_S = 30


def dotted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with the dots of their names, for which underscores may stand."""
    return {key if key in QUIET or key.endswith("_cb") else key.replace("_", "."): options[key] for key in options}


def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, **QUIET})


def result(futures: Any) -> Any:
    """The result of the only future of a mapping."""
    [future] = futures.values()
    return future.result(PATIENCE_S)


def producer(bootstrap: str, transactional_id: str | None = None, **options: Any) -> Producer:
    """A producer; its transactions, if it has any, are initialised."""
    named = {} if transactional_id is None else {"transactional.id": transactional_id}
    made = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, **QUIET, **named, **dotted(options)})
    if transactional_id is not None:
        made.init_transactions(PATIENCE_S)
    return made


def consumer(bootstrap: str, group: str = "unused", **options: Any) -> Consumer:
    """A consumer that commits when it is told to."""
    fixed = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    return Consumer({**fixed, **QUIET, **dotted(options)})


def read_all(bootstrap: str, topic: str, *partitions: int, **options: Any) -> dict[int, list[Message]]:
    """Everything that is shown of partitions, of the first one by default, from their beginnings to their ends."""
    reader = consumer(bootstrap, enable_partition_eof=True, **options)
    found: dict[int, list[Message]] = {partition: [] for partition in partitions or (0,)}
    waiting = set(found)
    with closing(reader):
        reader.assign([TopicPartition(topic, partition, 0) for partition in found])
        while waiting:
            message = reader.poll(PATIENCE_S)
            assert message is not None, f"nothing came of {waiting}, not even the end"
            if message.error() is None:
                found[message.partition()].append(message)
            else:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                waiting.discard(message.partition())
    return found


def watermarks(bootstrap: str, topic: str, partition: int = 0) -> tuple[int, int]:
    """The first offset of a partition, and the one that the next record will get."""
    with closing(consumer(bootstrap)) as reader:
        low, high = reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE_S)
        return low, high


def create_topics(bootstrap: str, topics: Mapping[str, int], **configs: object) -> None:
    """Create topics by name and partition count, all with these settings."""
    texts = {key.replace("_", "."): str(value) for key, value in configs.items()}
    wanted = [NewTopic(topic, count, config=texts) for topic, count in topics.items()]
    client = admin(bootstrap)  # whose futures end with it
    for future in client.create_topics(wanted).values():
        future.result(PATIENCE_S)


CONSUMER_PROTOCOL = {"group.protocol": "consumer"}
"""Options of a member that uses the protocol of KIP-848; its session timeout is the broker's."""


class ConfluentMember(Member):
    """Only the session timeout and the start at the beginning differ from librdkafka's defaults."""

    def __init__(self, role: Role) -> None:
        super().__init__(role)
        options: dict[str, Any] = {
            "bootstrap.servers": role.bootstrap,
            "group.id": role.group,
            "client.id": role.name,
            "auto.offset.reset": "earliest",
            "error_cb": self._error,
            **QUIET,
        }
        if role.instance_id:
            options["group.instance.id"] = role.instance_id
        is_modern = role.options.get("group.protocol") == "consumer"
        if not is_modern:
            options["session.timeout.ms"] = role.session_timeout_ms
        if role.assignor:
            options["group.remote.assignor" if is_modern else "partition.assignment.strategy"] = role.assignor
        if not role.auto_commit:
            options["enable.auto.commit"] = False
        self._options = options | role.options

    def commit(self) -> None:
        self.ask(_commit)

    def _run(self) -> None:
        consumer = Consumer(self._options)
        try:
            consumer.subscribe(
                list(self.role.topics),
                on_assign=lambda _, places: self._moved("assigned", places),
                on_revoke=lambda _, places: self._moved("revoked", places),
                on_lost=lambda _, places: self._moved("lost", places),
            )
            while not self._stopping.is_set():
                message = consumer.poll(0.05)
                self._answer(consumer)
                if message is None:
                    continue
                if message.error():
                    self.trouble(message.error())
                else:
                    self.saw(message.topic(), message.partition(), message.offset(), message.value())
        finally:
            consumer.close()

    def _moved(self, kind: str, places: Sequence[TopicPartition]) -> None:
        self.changed(kind, [(place.topic, place.partition) for place in places])

    def _error(self, error: KafkaError) -> None:
        if error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            self.trouble(error)


def _commit(consumer: Consumer) -> None:
    try:
        consumer.commit(asynchronous=False)
    except KafkaException as error:
        # The automatic commit was here first.
        if error.args[0].code() != KafkaError._NO_OFFSET:
            raise


class Stream:
    """Produces numbered values to the partitions of a topic in turn, one every few milliseconds, until it is stopped.

    Attributes:
        acknowledged: value → its partition and offset.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, **options: Any) -> None:
        self.acknowledged: dict[str, Ack] = {}
        self.errors: list[KafkaError] = []
        self._producer = producer(bootstrap, **{"linger_ms": 5} | options)
        self._topic = topic
        self._partitions = partitions
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"stream to {topic}", daemon=True)
        self._thread.start()

    def stop(self) -> list[str]:
        """Wait until everything is acknowledged, and give the values."""
        self._stopping.set()
        self._thread.join(90)
        assert not self._thread.is_alive(), "the stream does not end"
        assert not self.errors, self.errors
        return list(self.acknowledged)

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(0.005):
            self._producer.produce(
                self._topic, f"stream {number}", partition=number % self._partitions, on_delivery=self._delivered
            )
            self._producer.poll(0)
            number += 1
        if left := self._producer.flush(60):
            self.errors.append(KafkaError(KafkaError._TIMED_OUT, f"{left} records are not acknowledged"))

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            self.acknowledged[message.value().decode()] = (message.partition(), message.offset())


class ConfluentTransactional(Transactional):
    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        super().__init__(producer(bootstrap, transactional_id))
        self._bootstrap = bootstrap

    def send(self, topic: str, values: Sequence[bytes]) -> None:
        deliver(self._producer, topic, [Row(value) for value in values], 0)

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
        with closing(consumer(self._bootstrap, group)) as reader:
            self._producer.send_offsets_to_transaction(places, reader.consumer_group_metadata(), PATIENCE_S)

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(5)


def deliver(producer: Producer, topic: str, rows: Sequence[Row], partition: int | None) -> list[tuple[int, int]]:
    """Produce, and give what was acknowledged; raises the first error."""
    told: dict[int, tuple[int, int]] = {}
    errors: list[KafkaError] = []

    def delivered(at: int) -> Any:
        def call(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                errors.append(error)
            else:
                told[at] = (message.partition(), message.offset())

        return call

    for at, row in enumerate(rows):
        fields: dict[str, Any] = {} if partition is None else {"partition": partition}
        if row.timestamp_ms is not None:
            fields["timestamp"] = row.timestamp_ms
        producer.produce(topic, row.value, row.key, headers=list(row.headers), on_delivery=delivered(at), **fields)
    left = producer.flush(30)
    if errors:
        raise KafkaException(errors[0])
    if left:
        raise TimeoutError(f"{left} records are not acknowledged")
    return [told[at] for at in range(len(rows))]


def polled(reader: Consumer, seconds: float) -> list[Got]:
    """The records that have arrived at a reader.

    Raises:
        KafkaException: an error came.
    """
    found = []
    for message in reader.consume(500, seconds):
        if message.error():
            raise KafkaException(message.error())
        headers = tuple(message.headers() or ())
        place = (message.partition(), message.offset())
        found.append(Got(*place, message.value(), message.key(), headers, message.timestamp()[1]))
    return found


class ConfluentKit(WholeKit):
    kind = "confluent"
    producing: Mapping[str, Any] = MappingProxyType({"message_max_bytes": 10_000_000})
    quick: Mapping[str, Any] = MappingProxyType({"heartbeat.interval.ms": 300})
    new_topic = NewTopic
    settings = "config"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin = admin(bootstrap)

    def code(self, error: BaseException) -> int:
        if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
            return int(error.args[0].code())
        return -1

    def _produce(
        self, options: dict[str, Any], topic: str, rows: Sequence[Row], partition: int | None, one_by_one: bool
    ) -> list[Ack]:
        made = producer(self.bootstrap, **options)
        if one_by_one:
            return [ack for row in rows for ack in deliver(made, topic, [row], partition)]
        return deliver(made, topic, rows, partition)

    @contextmanager
    def reading(self, starts: Mapping[Place, int], **options: Any) -> Iterator[Poll]:
        with closing(consumer(self.bootstrap, auto_offset_reset="earliest", **options)) as reader:
            reader.assign([TopicPartition(*place, offset) for place, offset in starts.items()])
            yield lambda seconds: polled(reader, seconds)

    @contextmanager
    def subscribing(self, pattern: str, group: str) -> Iterator[Poll]:
        with closing(consumer(self.bootstrap, group, auto_offset_reset="earliest")) as reader:
            reader.subscribe([pattern])
            yield lambda seconds: polled(reader, seconds)

    def transactional(self, transactional_id: str) -> Transactional:
        return ConfluentTransactional(self.bootstrap, transactional_id)

    def commit(self, group: str, offsets: Mapping[Place, tuple[int, str]]) -> None:
        places = [TopicPartition(*place, offset, note) for place, (offset, note) in offsets.items()]
        with closing(consumer(self.bootstrap, group)) as committing:
            for told in committing.commit(offsets=places, asynchronous=False):
                if told.error:
                    raise KafkaException(told.error)

    def committed(self, group: str, place: Place) -> tuple[int, str]:
        with closing(consumer(self.bootstrap, group)) as asking:
            [told] = asking.committed([TopicPartition(*place)], timeout=PATIENCE_S)
            return told.offset, told.metadata or ""

    def _create(self, wanted: list[NewTopic], *, validate_only: bool) -> None:
        result(self._admin.create_topics(wanted, validate_only=validate_only))

    def delete(self, topic: str) -> None:
        result(self._admin.delete_topics([topic]))

    def topics(self) -> set[str]:
        # Of its own: release 2.6 damages its memory when several threads list topics with one client.
        return set(admin(self.bootstrap).list_topics(timeout=30).topics)

    def leaders(self, topic: str) -> dict[int, int]:
        found = admin(self.bootstrap).list_topics(topic, timeout=30).topics[topic].partitions
        return {number: partition.leader for number, partition in found.items()}

    def grow(self, topic: str, partitions: int) -> None:
        result(self._admin.create_partitions([NewPartitions(topic, partitions)]))

    def configs(self, name: str, kind: str = "topic") -> dict[str, str | None]:
        told = result(self._admin.describe_configs([ConfigResource(ConfigResource.Type[kind.upper()], name)]))
        return {key: entry.value for key, entry in told.items()}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        changes = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes)
        result(self._admin.incremental_alter_configs([resource]))

    def groups(self) -> set[str]:
        return {group.group_id for group in self._admin.list_consumer_groups().result(30).valid}

    def describe(self, group: str) -> tuple[str, set[str]]:
        told = result(self._admin.describe_consumer_groups([group]))
        state = STATES.get(told.state.name, told.state.name.capitalize())
        [legacy] = self._admin.list_groups(group, timeout=30) or [None]
        if state in ("Stable", "Empty"):  # a rebalance may have ended between the two requests
            assert legacy and legacy.state == state, f"{legacy and legacy.state} is not {state}"
        return state, {member.client_id for member in told.members}

    def group_offsets(self, group: str) -> dict[Place, int]:
        told = result(self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
        return {(place.topic, place.partition): place.offset for place in told.topic_partitions}

    def delete_group(self, group: str) -> None:
        result(self._admin.delete_consumer_groups([group]))

    def delete_records(self, place: Place, before: int) -> int:
        return int(result(self._admin.delete_records([TopicPartition(*place, before)])).low_watermark)

    def ends(self, place: Place) -> tuple[int, int]:
        def offset(spec: OffsetSpec) -> int:
            return int(result(self._admin.list_offsets({TopicPartition(*place): spec})).offset)

        return offset(OffsetSpec.earliest()), offset(OffsetSpec.latest())

    def offset_at(self, place: Place, timestamp_ms: int) -> int:
        spec = OffsetSpec.for_timestamp(timestamp_ms)
        return int(result(self._admin.list_offsets({TopicPartition(*place): spec})).offset)


MEMBER, KIT = ConfluentMember, ConfluentKit
