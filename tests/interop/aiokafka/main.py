"""aiokafka behind the face of a Kit: ``python -m tests.interop.aiokafka.main HOST:PORT [REGEXP]``."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka import errors as kafka_errors
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.structs import OffsetAndMetadata

from tests.interop.python.harness import play
from tests.interop.python.kit import Got, Kit, Place, Row, Transactional
from tests.interop.python.scenarios import ALL, ALONE

T = TypeVar("T")


class Loop:
    """An event loop in a thread of its own; `run` waits for a coroutine there."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="loop", daemon=True).start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = 60) -> T:
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, timeout_s), self._loop).result()


def check(code: int) -> None:
    if code:
        raise kafka_errors.for_code(code)()


class AiokafkaTransactional(Transactional):
    def __init__(self, loop: Loop, bootstrap: str, transactional_id: str) -> None:
        self._loop = loop

        async def start() -> AIOKafkaProducer:
            producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
            await producer.start()
            return producer

        self._producer = loop.run(start())

    def begin(self) -> None:
        self._loop.run(self._producer.begin_transaction())

    def send(self, topic: str, values: Sequence[bytes]) -> None:
        async def send() -> None:
            for future in [await self._producer.send(topic, value, partition=0) for value in values]:
                await future

        self._loop.run(send())

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        places = {TopicPartition(*place): offset for place, offset in offsets.items()}
        self._loop.run(self._producer.send_offsets_to_transaction(places, group))

    def commit(self) -> None:
        self._loop.run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._loop.run(self._producer.abort_transaction())

    def close(self) -> None:
        self._loop.run(self._producer.stop())


class AiokafkaKit(Kit):
    kind = "aiokafka"
    quick: Mapping[str, Any] = MappingProxyType({"heartbeat_interval_ms": 300})
    lacks: Mapping[str, str] = MappingProxyType(
        {
            "cooperative": "aiokafka has no cooperative rebalancing",
            "delete_groups": "aiokafka's admin does not delete groups",
        }
    )

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._loop = Loop()

    def code(self, error: BaseException) -> int:
        number = getattr(error, "errno", None)
        return number if isinstance(error, kafka_errors.KafkaError) and isinstance(number, int) else -1

    def produce(
        self,
        topic: str,
        rows: Sequence[Row],
        *,
        partition: int | None = None,
        codec: str = "none",
        options: Mapping[str, Any] | None = None,
    ) -> list[tuple[int, int]]:
        return self._loop.run(self._produce(topic, rows, partition, codec, bool((options or {}).get("idempotent"))))

    async def _produce(
        self, topic: str, rows: Sequence[Row], partition: int | None, codec: str, idempotent: bool
    ) -> list[tuple[int, int]]:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=20,
            max_request_size=10_000_000,
            request_timeout_ms=10_000,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    row.value,
                    key=row.key,
                    headers=list(row.headers),
                    partition=partition,
                    timestamp_ms=row.timestamp_ms,
                )
                for row in rows
            ]
            return [(told.partition, told.offset) for told in await asyncio.gather(*futures)]
        finally:
            await producer.stop()

    def read(
        self, starts: Mapping[Place, int], count: int, *, committed: bool = False, patience_s: float = 20
    ) -> list[Got]:
        async def read() -> list[Got]:
            found: list[Got] = []
            isolation = "read_committed" if committed else "read_uncommitted"
            async with self._consumer(auto_offset_reset="earliest", isolation_level=isolation) as consumer:
                consumer.assign([TopicPartition(*place) for place in starts])
                for place, offset in starts.items():
                    consumer.seek(TopicPartition(*place), offset)
                last = time.monotonic()
                while len(found) < count and time.monotonic() - last < patience_s:
                    for records in (await consumer.getmany(timeout_ms=200)).values():
                        last = time.monotonic()
                        for one in records:
                            headers = tuple(one.headers)
                            found.append(Got(one.partition, one.offset, one.value, one.key, headers, one.timestamp))
            return found

        return self._loop.run(read())

    @asynccontextmanager
    async def _consumer(self, **options: Any) -> AsyncIterator[AIOKafkaConsumer]:
        consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, enable_auto_commit=False, **options)
        await consumer.start()
        try:
            yield consumer
        finally:
            await consumer.stop()

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    def transactional(self, transactional_id: str) -> Transactional:
        return AiokafkaTransactional(self._loop, self.bootstrap, transactional_id)

    def commit(self, group: str, offsets: Mapping[Place, tuple[int, str]]) -> None:
        async def commit() -> None:
            async with self._consumer(group_id=group) as consumer:
                consumer.assign([TopicPartition(*place) for place in offsets])
                await consumer.commit(
                    {TopicPartition(*place): OffsetAndMetadata(*what) for place, what in offsets.items()}
                )

        self._loop.run(commit())

    def committed(self, group: str, place: Place) -> tuple[int, str]:
        async def committed() -> tuple[int, str]:
            async with self._admin() as admin:
                told = (await admin.list_consumer_group_offsets(group))[TopicPartition(*place)]
                return told.offset, told.metadata

        return self._loop.run(committed())

    def create(self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        async def create() -> None:
            async with self._admin() as admin:
                told = await admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=dict(configs or {}))])
                check(told.topic_errors[0][1])

        self._loop.run(create())

    def delete(self, topic: str) -> None:
        async def delete() -> None:
            async with self._admin() as admin:
                check((await admin.delete_topics([topic])).topic_error_codes[0][1])

        self._loop.run(delete())

    def topics(self) -> set[str]:
        async def topics() -> set[str]:
            async with self._admin() as admin:
                return set(await admin.list_topics())

        return self._loop.run(topics())

    def partitions(self, topic: str) -> int:
        async def partitions() -> int:
            async with self._admin() as admin:
                [told] = await admin.describe_topics([topic])
                return len(told["partitions"])

        return self._loop.run(partitions())

    def grow(self, topic: str, partitions: int) -> None:
        async def grow() -> None:
            async with self._admin() as admin:
                told = await admin.create_partitions({topic: NewPartitions(partitions)})
                check(told.topic_errors[0][1])

        self._loop.run(grow())

    def configs(self, topic: str) -> dict[str, str | None]:
        async def configs() -> dict[str, str | None]:
            async with self._admin() as admin:
                [told] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
                return {entry[0]: entry[1] for entry in told.resources[0][4]}

        return self._loop.run(configs())

    def alter(self, topic: str, configs: Mapping[str, str]) -> None:
        async def alter() -> None:
            async with self._admin() as admin:
                resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(configs))
                [told] = await admin.alter_configs([resource])
                check(told.resources[0][0])

        self._loop.run(alter())

    def groups(self) -> set[str]:
        async def groups() -> set[str]:
            async with self._admin() as admin:
                return {row[0] for row in await admin.list_consumer_groups()}

        return self._loop.run(groups())

    def describe(self, group: str) -> tuple[str, set[str]]:
        async def describe() -> tuple[str, set[str]]:
            async with self._admin() as admin:
                [told] = await admin.describe_consumer_groups([group])
                row = told.groups[0]
                return row[2], {member[1] if len(member) == 5 else member[2] for member in row[5]}

        return self._loop.run(describe())

    def group_offsets(self, group: str) -> dict[Place, int]:
        async def offsets() -> dict[Place, int]:
            async with self._admin() as admin:
                told = await admin.list_consumer_group_offsets(group)
                return {(place.topic, place.partition): row.offset for place, row in told.items()}

        return self._loop.run(offsets())

    def delete_group(self, group: str) -> None:
        raise NotImplementedError

    def delete_records(self, place: Place, before: int) -> int:
        async def delete() -> int:
            async with self._admin() as admin:
                told = await admin.delete_records({TopicPartition(*place): RecordsToDelete(before)})
                return int(told[TopicPartition(*place)])

        return self._loop.run(delete())

    def ends(self, place: Place) -> tuple[int, int]:
        where = TopicPartition(*place)

        async def ends() -> tuple[int, int]:
            async with self._consumer() as consumer:
                first = await consumer.beginning_offsets([where])
                return first[where], (await consumer.end_offsets([where]))[where]

        return self._loop.run(ends())

    def offset_at(self, place: Place, timestamp_ms: int) -> int:
        where = TopicPartition(*place)

        async def offset() -> int:
            async with self._consumer() as consumer:
                found = (await consumer.offsets_for_times({where: timestamp_ms}))[where]
                return -1 if found is None else int(found.offset)

        return self._loop.run(offset())

    def subscribe_pattern(self, pattern: str, wanted: Sequence[bytes], group: str) -> set[bytes]:
        async def consume() -> set[bytes]:
            found: set[bytes] = set()
            deadline = time.monotonic() + 30
            async with self._consumer(group_id=group, auto_offset_reset="earliest") as consumer:
                consumer.subscribe(pattern=pattern)
                while not found >= set(wanted) and time.monotonic() < deadline:
                    for records in (await consumer.getmany(timeout_ms=500)).values():
                        found |= {record.value for record in records}
            return found

        return self._loop.run(consume())


if __name__ == "__main__":
    play(AiokafkaKit(sys.argv[1]), ALL, alone=ALONE)
