"""kafka-python behind the faces that the tests share.

Releases before 2.1 name the administration otherwise, and have neither idempotence nor transactions nor static members.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from types import MappingProxyType
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition, errors
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.structs import OffsetAndMetadata

from tests.support.kit import Ack, Got, Place, Poll, Row, Transactional, WholeKit
from tests.support.members import Member, listener, python_options

ASSIGNORS: dict[str, Any] = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
try:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.structs import MemberState
except ImportError:  # releases before 3.0, which tests/interop plays too
    MemberState = None
else:
    ASSIGNORS["cooperative-sticky"] = CooperativeStickyAssignor
OLD = not hasattr(KafkaProducer, "begin_transaction")
NOT_YET = "not in this release of kafka-python"


def note(offset: int, text: str = "") -> OffsetAndMetadata:
    """Later releases have the leader's epoch besides."""
    return OffsetAndMetadata(offset, text, *([-1] if len(OffsetAndMetadata._fields) == 3 else []))


def polled(consumer: KafkaConsumer, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
    """Poll as a member of a group.

    kafka-python 3.0 forgets an answer to its JoinGroup that comes between two calls of poll(), and joins again: there
    are few such moments when it polls for longer while it is about to join.
    """
    stable = MemberState is None or consumer.group_metadata().state == MemberState.STABLE
    try:
        return consumer.poll(timeout_ms=timeout_ms if stable else 2_000)
    except errors.KafkaConnectionError:
        return {}  # told when there is no broker while it joins; the next poll() tries again


class KafkaPythonMember(Member):
    def commit(self) -> None:
        self.ask(lambda consumer: consumer.commit())

    def _run(self) -> None:
        consumer = KafkaConsumer(**python_options(self.role, ASSIGNORS))
        with closing(consumer):
            consumer.subscribe(list(self.role.topics), listener=listener(ConsumerRebalanceListener, self))
            while not self._stopping.is_set():
                self.saw_all(polled(consumer, 50))
                self._answer(consumer)


class KafkaPythonTransactional(Transactional):
    def send(self, topic: str, values: Sequence[bytes]) -> None:
        for future in [self._producer.send(topic, value, partition=0) for value in values]:
            future.get(30)

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        self._producer.send_offsets_to_transaction(
            {TopicPartition(*place): note(offset) for place, offset in offsets.items()}, group
        )

    def close(self) -> None:
        self._producer.close(timeout=5)


class KafkaPythonKit(WholeKit):
    kind = "kafka-python"
    producing: Mapping[str, Any] = MappingProxyType({"max_request_size": 10_000_000, "retries": 5})
    new_topic = NewTopic
    lacks: Mapping[str, str] = MappingProxyType(
        dict.fromkeys(
            ("idempotence", "transactions", "static", "cooperative", "delete_records", "reauthentication"), NOT_YET
        )
        if OLD
        else {}
    )

    def code(self, error: BaseException) -> int:
        number = getattr(error, "errno", None)
        return number if isinstance(error, errors.KafkaError) and isinstance(number, int) else -1

    def _produce(
        self, options: dict[str, Any], topic: str, rows: Sequence[Row], partition: int | None, one_by_one: bool
    ) -> list[Ack]:
        if OLD:
            del options["enable_idempotence"]
        with closing(KafkaProducer(bootstrap_servers=self.bootstrap, **options)) as producer:
            futures = []
            for row in rows:
                named = {"key": row.key, "headers": list(row.headers), "timestamp_ms": row.timestamp_ms}
                futures.append(producer.send(topic, row.value, partition=partition, **named))
                if one_by_one:
                    futures[-1].get(timeout=30)
            producer.flush(30)
            told = [future.get(timeout=30) for future in futures]
        return [(one.partition, one.offset) for one in told]

    @contextmanager
    def reading(self, starts: Mapping[Place, int], **options: Any) -> Iterator[Poll]:
        if OLD:
            del options["isolation_level"]
        with self._consumer(auto_offset_reset="earliest", **options) as consumer:
            consumer.assign([TopicPartition(*place) for place in starts])
            for place, offset in starts.items():
                consumer.seek(TopicPartition(*place), offset)
            yield lambda seconds: self._polled(consumer, seconds)

    @staticmethod
    def _polled(consumer: KafkaConsumer, seconds: float) -> list[Got]:
        batches = consumer.poll(int(seconds * 1000))
        return [Got.of(record) for records in batches.values() for record in records]

    def _consumer(self, **options: Any) -> Any:
        return closing(KafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False, **options))

    def _admin(self) -> Any:
        return closing(KafkaAdminClient(bootstrap_servers=self.bootstrap))

    def transactional(self, transactional_id: str) -> Transactional:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, transactional_id=transactional_id)
        producer.init_transactions()
        return KafkaPythonTransactional(producer)

    def commit(self, group: str, offsets: Mapping[Place, tuple[int, str]]) -> None:
        with self._consumer(group_id=group) as consumer:
            consumer.assign([TopicPartition(*place) for place in offsets])
            consumer.commit({TopicPartition(*place): note(*what) for place, what in offsets.items()})

    def committed(self, group: str, place: Place) -> tuple[int, str]:
        with self._consumer(group_id=group) as consumer:
            told = consumer.committed(TopicPartition(*place), metadata=True)
            return told.offset, told.metadata

    def _create(self, wanted: list[NewTopic], *, validate_only: bool) -> None:
        with self._admin() as admin:
            admin.create_topics(wanted, validate_only=validate_only)

    def delete(self, topic: str) -> None:
        with self._admin() as admin:
            admin.delete_topics([topic])

    def topics(self) -> set[str]:
        with self._admin() as admin:
            return set(admin.list_topics())

    def leaders(self, topic: str) -> dict[int, int]:
        number, leader = ("partition", "leader") if OLD else ("partition_index", "leader_id")
        with self._admin() as admin:
            [told] = admin.describe_topics([topic])
            return {one[number]: one[leader] for one in told["partitions"]}

    def grow(self, topic: str, partitions: int) -> None:
        with self._admin() as admin:
            admin.create_partitions({topic: NewPartitions(partitions)})

    def configs(self, name: str, kind: str = "topic") -> dict[str, str | None]:
        wanted = [ConfigResource(ConfigResourceType[kind.upper()], name)]
        with self._admin() as admin:
            if OLD:
                [told] = admin.describe_configs(wanted)
                [resource] = told.resources
                return {entry[0]: entry[1] for entry in resource[4]}
            told = admin.describe_configs(wanted, config_filter="all")
            return {key: entry["value"] for key, entry in told[kind][name].items()}

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        with self._admin() as admin:
            told = admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(configs))])
            if OLD:
                code = told.resources[0][0]
            else:  # a text: "[Error 40] …"
                found = re.match(r"\[Error (\d+)\]", str(told["topic"][topic]))
                code = int(found[1]) if found else 0
            if code:
                raise errors.for_code(code)()

    def groups(self) -> set[str]:
        with self._admin() as admin:
            if OLD:
                return {group for group, _ in admin.list_consumer_groups()}
            return {group["group_id"] for group in admin.list_groups()}

    def describe(self, group: str) -> tuple[str, set[str]]:
        with self._admin() as admin:
            if OLD:
                [told] = admin.describe_consumer_groups([group])
                return told.state, {member.client_id for member in told.members}
            found = admin.describe_groups([group])[group]
            return found["group_state"], {member["client_id"] for member in found["members"]}

    def group_offsets(self, group: str) -> dict[Place, int]:
        with self._admin() as admin:
            told = admin.list_consumer_group_offsets(group) if OLD else admin.list_group_offsets(group)[group]
            return {(place.topic, place.partition): row.offset for place, row in told.items()}

    def delete_group(self, group: str) -> None:
        with self._admin() as admin:
            if OLD:
                [(_, error)] = admin.delete_consumer_groups([group])
                if error.errno:
                    raise error()
            elif (told := admin.delete_groups([group])[group]) != "OK":
                raise getattr(errors, told)()

    def delete_records(self, place: Place, before: int) -> int:
        with self._admin() as admin:
            return int(admin.delete_records({TopicPartition(*place): before})[TopicPartition(*place)]["low_watermark"])

    def ends(self, place: Place) -> tuple[int, int]:
        where = TopicPartition(*place)
        with self._consumer() as consumer:
            return consumer.beginning_offsets([where])[where], consumer.end_offsets([where])[where]

    def offset_at(self, place: Place, timestamp_ms: int) -> int:
        where = TopicPartition(*place)
        with self._consumer() as consumer:
            found = consumer.offsets_for_times({where: timestamp_ms})[where]
            return -1 if found is None else int(found.offset)

    @contextmanager
    def subscribing(self, pattern: str, group: str) -> Iterator[Poll]:
        with self._consumer(group_id=group, auto_offset_reset="earliest") as consumer:
            consumer.subscribe(pattern=pattern)
            yield lambda seconds: self._polled(consumer, seconds)


MEMBER, KIT = KafkaPythonMember, KafkaPythonKit
