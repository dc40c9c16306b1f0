"""kafka-python behind the face that the tests share."""

from collections.abc import Iterable, Sequence
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import KafkaConnectionError

from tests.e2e.members import Member, Role

ASSIGNORS: dict[str, Any] = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
try:
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.structs import MemberState
except ImportError:  # releases before 3.0, which tests/interop plays too
    MemberState = None
else:
    ASSIGNORS["cooperative-sticky"] = CooperativeStickyAssignor


class KafkaPythonMember(Member):
    """Only the session timeout and the start at the beginning differ from kafka-python's defaults."""

    def __init__(self, role: Role) -> None:
        super().__init__(role)
        options: dict[str, Any] = {
            "bootstrap_servers": role.bootstrap,
            "group_id": role.group,
            "client_id": role.name,
            "session_timeout_ms": role.session_timeout_ms,
            "auto_offset_reset": "earliest",
        }
        if role.instance_id:
            options["group_instance_id"] = role.instance_id
        if role.assignor:
            options["partition_assignment_strategy"] = [ASSIGNORS[role.assignor]]
        if not role.auto_commit:
            options["enable_auto_commit"] = False
        self._options = options | role.options

    def commit(self) -> None:
        self.ask(lambda consumer: consumer.commit())

    def _run(self) -> None:
        consumer = KafkaConsumer(**self._options)
        try:
            consumer.subscribe(list(self.role.topics), listener=_Listener(self))
            while not self._stopping.is_set():
                for records in self._records(consumer).values():
                    for record in records:
                        self.saw(record.topic, record.partition, record.offset, record.value)
                self._answer(consumer)
        finally:
            consumer.close()

    @staticmethod
    def _records(consumer: KafkaConsumer) -> dict[TopicPartition, list[Any]]:
        # kafka-python 3.0 forgets an answer to its JoinGroup that comes between two calls of poll(), and joins again:
        # there are few such moments when it polls for longer while it is about to join.
        stable = MemberState is None or consumer.group_metadata().state == MemberState.STABLE
        try:
            return consumer.poll(timeout_ms=50 if stable else 2_000)
        except KafkaConnectionError:
            return {}  # told when there is no broker while it joins; the next poll() tries again


class _Listener(ConsumerRebalanceListener):
    def __init__(self, member: KafkaPythonMember) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._member.changed("assigned", map(tuple, assigned))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._member.changed("revoked", map(tuple, revoked))

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._member.changed("lost", map(tuple, lost))


def produce(
    bootstrap: str,
    topic: str,
    values: Sequence[str],
    *,
    codec: str | None = None,
    idempotent: bool = True,
    partition: int | None = None,
    **options: Any,
) -> list[tuple[int, int]]:
    """Produce values with their own text as key and one header; give the acknowledged partitions and offsets."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, compression_type=codec, enable_idempotence=idempotent, linger_ms=20, **options
    )
    try:
        futures = [
            producer.send(
                topic, value.encode(), key=value.encode(), headers=[("by", b"kafka-python")], partition=partition
            )
            for value in values
        ]
        told = [future.get(timeout=60) for future in futures]
    finally:
        producer.close()
    return [(ack.partition, ack.offset) for ack in told]
