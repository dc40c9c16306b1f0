"""confluent-kafka (librdkafka) behind the face that the tests share."""

import threading
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.members import Member, Role

Ack = tuple[int, int]
"""Partition and offset that a producer was told."""

QUIET = {"log_level": 2}
"""Brokers come and go in these tests; librdkafka writes a line to standard error for each."""


class ConfluentMember(Member):
    """Only the session timeout and the start at the beginning differ from librdkafka's defaults."""

    def __init__(self, role: Role) -> None:
        super().__init__(role)
        options: dict[str, Any] = {
            "bootstrap.servers": role.bootstrap,
            "group.id": role.group,
            "client.id": role.name,
            "session.timeout.ms": role.session_timeout_ms,
            "auto.offset.reset": "earliest",
            "error_cb": self._error,
            **QUIET,
        }
        if role.instance_id:
            options["group.instance.id"] = role.instance_id
        if role.assignor:
            options["partition.assignment.strategy"] = role.assignor
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


def produce(
    bootstrap: str,
    topic: str,
    values: Sequence[str],
    *,
    codec: str = "none",
    idempotent: bool = True,
    partition: int | None = None,
    **options: Any,
) -> list[Ack]:
    """Produce values with their own text as key and one header, in one batch a partition; give what was acknowledged.

    ``options`` are librdkafka's, with underscores for dots.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "linger.ms": 20,
            **QUIET,
            **{key.replace("_", "."): value for key, value in options.items()},
        }
    )
    acks: dict[int, Ack] = {}
    errors: list[KafkaError] = []

    def delivered(at: int) -> Any:
        def told(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error)
            else:
                acks[at] = (message.partition(), message.offset())

        return told

    where = {} if partition is None else {"partition": partition}
    for at, value in enumerate(values):
        producer.produce(topic, value, key=value, headers=[("by", b"confluent")], on_delivery=delivered(at), **where)
    assert producer.flush(60) == 0, "not everything was delivered"
    assert not errors, errors
    return [acks[at] for at in range(len(values))]


def read_all(bootstrap: str, topic: str, ends: dict[int, int]) -> dict[int, list[Message]]:
    """Read every partition from its beginning to the given ends, without a group."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, **QUIET})
    found: dict[int, list[Message]] = {partition: [] for partition in ends}
    waiting = {partition for partition, end in ends.items() if end > 0}
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        while waiting:
            message = consumer.poll(30)
            assert message is not None, f"nothing more of partitions {waiting} after {found}"
            assert message.error() is None, message.error()
            found[message.partition()].append(message)
            if message.offset() + 1 >= ends[message.partition()]:
                waiting.discard(message.partition())
    finally:
        consumer.close()
    return found


def create_topics(bootstrap: str, topics: dict[str, int]) -> None:
    """Create topics by name and partition count."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    for future in admin.create_topics([NewTopic(topic, count) for topic, count in topics.items()]).values():
        future.result(30)


class Stream:
    """Produces numbered values to the partitions of a topic in turn, one every few milliseconds, until it is stopped.

    Attributes:
        acknowledged: value → its partition and offset.
    """

    def __init__(self, bootstrap: str, topic: str, partitions: int, **options: Any) -> None:
        self.acknowledged: dict[str, Ack] = {}
        self.errors: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                **QUIET,
                **{key.replace("_", "."): value for key, value in options.items()},
            }
        )
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


def end_offset(bootstrap: str, topic: str, partition: int) -> int:
    """The offset that the next record of a partition will get."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", **QUIET})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
        return int(end)
    finally:
        consumer.close()
