"""aiokafka behind the face that the tests share."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from tests.e2e.members import AsyncMember, Role

T = TypeVar("T")

ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class AiokafkaMember(AsyncMember):
    """Only the session timeout and the start at the beginning differ from aiokafka's defaults."""

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
            options["partition_assignment_strategy"] = (ASSIGNORS[role.assignor],)
        if not role.auto_commit:
            options["enable_auto_commit"] = False
        self._options = options | role.options

    async def _poll(self) -> None:
        consumer = AIOKafkaConsumer(**self._options)
        consumer.subscribe(list(self.role.topics), listener=_Listener(self))
        try:
            await consumer.start()
            while not self._stopping.is_set():
                for records in (await consumer.getmany(timeout_ms=50)).values():
                    for record in records:
                        self.saw(record.topic, record.partition, record.offset, record.value)
                await self._answer_async(consumer)
        finally:
            await consumer.stop()


class _Listener(ConsumerRebalanceListener):
    def __init__(self, member: AiokafkaMember) -> None:
        self._member = member

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._member.changed("assigned", map(tuple, assigned))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._member.changed("revoked", map(tuple, revoked))


def run(work: Callable[[], Coroutine[Any, Any, T]], timeout_s: float = 120) -> T:
    """Run a coroutine function to its end."""
    return asyncio.run(asyncio.wait_for(work(), timeout_s))


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

    async def work() -> list[tuple[int, int]]:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, compression_type=codec, enable_idempotence=idempotent, linger_ms=20, **options
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic, value.encode(), key=value.encode(), headers=[("by", b"aiokafka")], partition=partition
                )
                for value in values
            ]
            # With acks=0 there is nothing to tell.
            return [(told.partition, told.offset) for told in await asyncio.gather(*futures) if told is not None]
        finally:
            await producer.stop()

    return run(work)
