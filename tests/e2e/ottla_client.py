"""The included client behind the face that the tests share."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from ottla.clients import Consumer, ConsumerRebalanceListener, Producer, TopicPartition
from tests.e2e.members import AsyncMember, Role


class OttlaMember(AsyncMember):
    """Only the session timeout and the start at the beginning differ from the client's defaults."""

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
            options["partition_assignment_strategy"] = [role.assignor]
        if not role.auto_commit:
            options["enable_auto_commit"] = False
        self._options = options | role.options

    async def _poll(self) -> None:
        consumer = Consumer(**self._options)
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
    def __init__(self, member: OttlaMember) -> None:
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

    async def work() -> list[tuple[int, int]]:
        async with Producer(
            bootstrap_servers=bootstrap,
            compression_type=codec,
            enable_idempotence=idempotent,
            linger_ms=20,
            **options,
        ) as producer:
            futures = [
                await producer.send(
                    topic, value.encode(), key=value.encode(), headers=[("by", b"ottla")], partition=partition
                )
                for value in values
            ]
            return [(told.partition, told.offset) for told in await asyncio.gather(*futures)]

    return asyncio.run(asyncio.wait_for(work(), 120))
