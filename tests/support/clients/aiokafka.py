"""aiokafka behind the faces that the tests share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, ClassVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka import errors as kafka_errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.structs import OffsetAndMetadata

from tests.support.clients.on_a_loop import LoopKit, LoopMember
from tests.support.kit import Place, Poll, Transactional, WholeKit


def check(code: int) -> None:
    if code:
        raise kafka_errors.for_code(code)()


class AiokafkaMember(LoopMember):
    consumer = AIOKafkaConsumer
    listener = ConsumerRebalanceListener
    assignors: ClassVar = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class AiokafkaTransactional(Transactional):
    def send(self, topic: str, values: Sequence[bytes]) -> None:
        async def send() -> None:
            for future in [await self._producer.send(topic, value, partition=0) for value in values]:
                await future

        self._run(send())

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        places = {TopicPartition(*place): offset for place, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(places, group))

    def close(self) -> None:
        self._run(self._producer.stop())


class AiokafkaKit(LoopKit, WholeKit):
    kind = "aiokafka"
    consumer = AIOKafkaConsumer
    producer = AIOKafkaProducer
    place = TopicPartition
    new_topic = NewTopic
    producing: Mapping[str, Any] = MappingProxyType({"max_request_size": 10_000_000, "request_timeout_ms": 10_000})
    lacks: Mapping[str, str] = MappingProxyType(
        {
            "cooperative": "aiokafka has no cooperative rebalancing",
            "delete_groups": "aiokafka's admin does not delete groups",
            "reauthentication": "aiokafka renews no sessions (KIP-368); it connected again each time, and lost nothing",
        }
    )

    def code(self, error: BaseException) -> int:
        number = getattr(error, "errno", None)
        return number if isinstance(error, kafka_errors.KafkaError) and isinstance(number, int) else -1

    def administer(self, work: Callable[[AIOKafkaAdminClient], Awaitable[Any]]) -> Any:
        """Have something done with an admin client, and give the result."""

        async def administer() -> Any:
            admin = await self._made(AIOKafkaAdminClient)
            try:
                return await work(admin)
            finally:
                await admin.close()

        return self._loop.run(administer())

    def transactional(self, transactional_id: str) -> Transactional:
        producer = self._loop.run(self._made(AIOKafkaProducer, transactional_id=transactional_id))
        return AiokafkaTransactional(producer, self._loop.run)

    def commit(self, group: str, offsets: Mapping[Place, tuple[int, str]]) -> None:
        with self._consumer(group_id=group) as consumer:
            self._loop.call(consumer.assign, [TopicPartition(*place) for place in offsets])
            noted = {TopicPartition(*place): OffsetAndMetadata(*what) for place, what in offsets.items()}
            self._loop.run(consumer.commit(noted))

    def committed(self, group: str, place: Place) -> tuple[int, str]:
        told = self.administer(lambda admin: admin.list_consumer_group_offsets(group))[TopicPartition(*place)]
        return told.offset, told.metadata

    def _create(self, wanted: list[NewTopic], *, validate_only: bool) -> None:
        told = self.administer(lambda admin: admin.create_topics(wanted, validate_only=validate_only))
        check(told.topic_errors[0][1])

    def delete(self, topic: str) -> None:
        check(self.administer(lambda admin: admin.delete_topics([topic])).topic_error_codes[0][1])

    def topics(self) -> set[str]:
        return set(self.administer(lambda admin: admin.list_topics()))

    def leaders(self, topic: str) -> dict[int, int]:
        [told] = self.administer(lambda admin: admin.describe_topics([topic]))
        return {one["partition"]: one["leader"] for one in told["partitions"]}

    def grow(self, topic: str, partitions: int) -> None:
        told = self.administer(lambda admin: admin.create_partitions({topic: NewPartitions(partitions)}))
        check(told.topic_errors[0][1])

    def configs(self, name: str, kind: str = "topic") -> dict[str, str | None]:
        wanted = ConfigResource(ConfigResourceType[kind.upper()], name)
        [told] = self.administer(lambda admin: admin.describe_configs([wanted]))
        return {entry[0]: entry[1] for entry in told.resources[0][4]}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        wanted = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(configs))
        [told] = self.administer(lambda admin: admin.alter_configs([wanted]))
        check(told.resources[0][0])

    def groups(self) -> set[str]:
        return {row[0] for row in self.administer(lambda admin: admin.list_consumer_groups())}

    def describe(self, group: str) -> tuple[str, set[str]]:
        [told] = self.administer(lambda admin: admin.describe_consumer_groups([group]))
        row = told.groups[0]
        return row[2], {member[1] if len(member) == 5 else member[2] for member in row[5]}

    def group_offsets(self, group: str) -> dict[Place, int]:
        told = self.administer(lambda admin: admin.list_consumer_group_offsets(group))
        return {(place.topic, place.partition): row.offset for place, row in told.items()}

    def delete_group(self, group: str) -> None:
        raise NotImplementedError

    def delete_records(self, place: Place, before: int) -> int:
        where = TopicPartition(*place)
        return int(self.administer(lambda admin: admin.delete_records({where: RecordsToDelete(before)}))[where])

    def ends(self, place: Place) -> tuple[int, int]:
        where = TopicPartition(*place)
        with self._consumer() as consumer:
            first = self._loop.run(consumer.beginning_offsets([where]))
            return first[where], self._loop.run(consumer.end_offsets([where]))[where]

    def offset_at(self, place: Place, timestamp_ms: int) -> int:
        where = TopicPartition(*place)
        with self._consumer() as consumer:
            found = self._loop.run(consumer.offsets_for_times({where: timestamp_ms}))[where]
            return -1 if found is None else int(found.offset)

    @contextmanager
    def subscribing(self, pattern: str, group: str) -> Iterator[Poll]:
        with self._consumer(group_id=group, auto_offset_reset="earliest") as consumer:
            self._loop.call(consumer.subscribe, pattern=pattern)
            yield lambda seconds: self._polled(consumer, seconds)


MEMBER, KIT = AiokafkaMember, AiokafkaKit
