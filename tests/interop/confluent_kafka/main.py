"""confluent-kafka behind the face of a Kit: ``python -m tests.interop.confluent_kafka.main HOST:PORT [REGEXP]``."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
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

from tests.interop.confluent_kafka.extras import SCENARIOS
from tests.interop.python.harness import play
from tests.interop.python.kit import Got, Kit, Place, Row, Transactional
from tests.interop.python.scenarios import ALL, ALONE

QUIET = {"log_level": 2}
STATES = {"PREPARING_REBALANCING": "PreparingRebalance", "COMPLETING_REBALANCING": "CompletingRebalance"}
LARGE = {"message.max.bytes": 10_000_000}


def first(futures: Any) -> Any:
    """The result of the only future of a mapping."""
    [future] = futures.values()
    return future.result(30)


class ConfluentTransactional(Transactional):
    def __init__(self, kit: ConfluentKit, transactional_id: str) -> None:
        self._kit = kit
        self._producer = Producer({**kit.common, "transactional.id": transactional_id})
        self._producer.init_transactions(30)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, values: Sequence[bytes]) -> None:
        deliver(self._producer, topic, [Row(value) for value in values], 0)

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        consumer = Consumer({**self._kit.common, "group.id": group})
        try:
            places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
            self._producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 30)
        finally:
            consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(30)

    def abort(self) -> None:
        self._producer.abort_transaction(30)

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


class ConfluentKit(Kit):
    kind = "confluent"
    quick: Mapping[str, Any] = MappingProxyType({"heartbeat.interval.ms": 300})

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self.common = {"bootstrap.servers": bootstrap, **QUIET}
        self._admin = AdminClient(self.common)

    def code(self, error: BaseException) -> int:
        if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
            return int(error.args[0].code())
        return -1

    def produce(
        self,
        topic: str,
        rows: Sequence[Row],
        *,
        partition: int | None = None,
        codec: str = "none",
        options: Mapping[str, Any] | None = None,
    ) -> list[tuple[int, int]]:
        given: dict[str, Any] = {"compression.type": codec, "linger.ms": 20, **LARGE}
        if (options or {}).get("idempotent"):
            given["enable.idempotence"] = True
        return deliver(Producer({**self.common, **given}), topic, rows, partition)

    def read(
        self, starts: Mapping[Place, int], count: int, *, committed: bool = False, patience_s: float = 20
    ) -> list[Got]:
        consumer = self._reader("read_committed" if committed else "read_uncommitted")
        found: list[Got] = []
        try:
            consumer.assign([TopicPartition(*place, offset) for place, offset in starts.items()])
            while len(found) < count and (message := consumer.poll(patience_s)) is not None:
                if message.error():
                    raise KafkaException(message.error())
                headers = tuple(message.headers() or ())
                place = (message.partition(), message.offset())
                found.append(Got(*place, message.value(), message.key(), headers, message.timestamp()[1]))
        finally:
            consumer.close()
        return found

    def _reader(self, isolation: str = "read_committed", group: str = "unused") -> Consumer:
        options = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        return Consumer({**self.common, **options, "isolation.level": isolation})

    def transactional(self, transactional_id: str) -> Transactional:
        return ConfluentTransactional(self, transactional_id)

    def commit(self, group: str, offsets: Mapping[Place, tuple[int, str]]) -> None:
        consumer = self._reader(group=group)
        try:
            places = [TopicPartition(*place, offset, note) for place, (offset, note) in offsets.items()]
            for told in consumer.commit(offsets=places, asynchronous=False):
                if told.error:
                    raise KafkaException(told.error)
        finally:
            consumer.close()

    def committed(self, group: str, place: Place) -> tuple[int, str]:
        consumer = self._reader(group=group)
        try:
            [told] = consumer.committed([TopicPartition(*place)], timeout=30)
            return told.offset, told.metadata or ""
        finally:
            consumer.close()

    def create(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        first(self._admin.create_topics([NewTopic(topic, partitions, 1, config=dict(configs or {}))]))

    def delete(self, topic: str) -> None:
        first(self._admin.delete_topics([topic]))

    def topics(self) -> set[str]:
        # Of its own: release 2.6 damages its memory when several threads list topics with one client.
        return set(AdminClient(self.common).list_topics(timeout=30).topics)

    def partitions(self, topic: str) -> int:
        return len(AdminClient(self.common).list_topics(topic, timeout=30).topics[topic].partitions)

    def grow(self, topic: str, partitions: int) -> None:
        first(self._admin.create_partitions([NewPartitions(topic, partitions)]))

    def configs(self, topic: str) -> dict[str, str | None]:
        told = first(self._admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]))
        return {name: entry.value for name, entry in told.items()}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        changes = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in configs.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=changes)
        first(self._admin.incremental_alter_configs([resource]))

    def groups(self) -> set[str]:
        return {group.group_id for group in self._admin.list_consumer_groups().result(30).valid}

    def describe(self, group: str) -> tuple[str, set[str]]:
        told = first(self._admin.describe_consumer_groups([group]))
        state = STATES.get(told.state.name, told.state.name.capitalize())
        [legacy] = self._admin.list_groups(group, timeout=30) or [None]
        assert state == "Dead" or (legacy and legacy.state == state), f"{legacy and legacy.state} is not {state}"
        return state, {member.client_id for member in told.members}

    def group_offsets(self, group: str) -> dict[Place, int]:
        told = first(self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
        return {(place.topic, place.partition): place.offset for place in told.topic_partitions}

    def delete_group(self, group: str) -> None:
        first(self._admin.delete_consumer_groups([group]))

    def delete_records(self, place: Place, before: int) -> int:
        return int(first(self._admin.delete_records([TopicPartition(*place, before)])).low_watermark)

    def ends(self, place: Place) -> tuple[int, int]:
        def offset(spec: OffsetSpec) -> int:
            return int(first(self._admin.list_offsets({TopicPartition(*place): spec})).offset)

        return offset(OffsetSpec.earliest()), offset(OffsetSpec.latest())

    def offset_at(self, place: Place, timestamp_ms: int) -> int:
        spec = OffsetSpec.for_timestamp(timestamp_ms)
        return int(first(self._admin.list_offsets({TopicPartition(*place): spec})).offset)

    def subscribe_pattern(self, pattern: str, wanted: Sequence[bytes], group: str) -> set[bytes]:
        consumer = self._reader(group=group)
        found: set[bytes] = set()
        deadline = time.monotonic() + 30
        try:
            consumer.subscribe([pattern])
            while not found >= set(wanted) and time.monotonic() < deadline:
                message = consumer.poll(1)
                if message is not None and not message.error():
                    found.add(message.value())
        finally:
            consumer.close()
        return found


if __name__ == "__main__":
    play(ConfluentKit(sys.argv[1]), [*ALL, *SCENARIOS], alone=ALONE)
