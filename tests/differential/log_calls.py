"""Requests about topics and their logs in few words, for traces."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import google_crc32c

from ottla.protocol.apis import ApiKey, api
from ottla.protocol.message_parts import ConfigValue
from ottla.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic
from ottla.protocol.messages.fetch import FetchPartition, FetchTopic
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, TopicProduceData
from ottla.protocol.primitives import ZERO_UUID
from ottla.protocol.records import Record, build_batch
from tests.differential.tracing import Trace
from tests.differential.wire import Wire

WHO = "client"
BASE_TIME = 1_700_000_000_000


def topic(
    name: str,
    count: int = 1,
    factor: int = 1,
    *,
    configs: dict[str, str | None] | None = None,
    assigned: dict[int, list[int]] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=count,
        replication_factor=factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in (assigned or {}).items()
        ],
        configs=[ConfigValue(name=key, value=value) for key, value in (configs or {}).items()],
    )


def create(t: Trace, *topics: CreatableTopic, version: int = 5, only_check: bool = False) -> Any:
    answer = t.call(
        WHO, ApiKey.CREATE_TOPICS, version, topics=list(topics), timeout_ms=10_000, validate_only=only_check
    )
    if not only_check:
        for item in answer.topics:
            if item.error_code == 0:
                wait_for(t, item.name)
    return answer


def made(t: Trace, suffix: str = "a", count: int = 1, **configs: str) -> str:
    """A new topic, ready for use; not noted."""
    name = f"{t.name}-{suffix}"
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    wire = t.wire("maker")
    wire.send(ApiKey.CREATE_TOPICS, 5, api(ApiKey.CREATE_TOPICS).request(topics=[topic(name, count, configs=settings)]))
    assert wire.answer(10).topics[0].error_code == 0
    wait_for(t, name)
    return name


def wait_for(t: Trace, name: str, *, gone: bool = False) -> None:
    """Until the broker serves the topic, or no longer does: a controller may answer earlier."""
    until(lambda: (_served(t.wire("maker"), name) == 0) != gone)


def _served(wire: Wire, name: str) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    topics = [ListOffsetsTopic(name=name, partitions=[partition])]
    wire.send(ApiKey.LIST_OFFSETS, 5, api(ApiKey.LIST_OFFSETS).request(replica_id=-1, topics=topics))
    return int(wire.answer(10).topics[0].partitions[0].error_code)


def until(check: Callable[[], bool], timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not check() and time.monotonic() < deadline:
        time.sleep(0.02)


def metadata(t: Trace, version: int, *names: str | None, ids: Sequence[UUID] = (), everything: bool = False,
             create: bool = False, operations: bool = False) -> Any:  # fmt: skip
    topics = [MetadataRequestTopic(name=name) for name in names]
    topics += [MetadataRequestTopic(topic_id=item, name=None) for item in ids]
    return t.call(
        WHO,
        ApiKey.METADATA,
        version,
        topics=None if everything else topics,
        allow_auto_topic_creation=create,
        include_cluster_authorized_operations=operations and 8 <= version <= 10,
        include_topic_authorized_operations=operations and version >= 8,
    )


def batch(
    count: int = 1, *, start: int = 0, key: bytes | None = b"k", value: bytes | None = b"v", **options: Any
) -> bytes:
    """``count`` records, one millisecond apart."""
    return build_batch(
        [Record(number, BASE_TIME + start + number, key, value, []) for number in range(count)], **options
    )


def patched(data: bytes, at: int, value: bytes, *, seal: bool = True) -> bytes:
    """The batch with bytes replaced, and a CRC that fits again if ``seal``."""
    changed = bytearray(data)
    changed[at : at + len(value)] = value
    if seal:
        struct.pack_into(">I", changed, 17, google_crc32c.value(bytes(changed[21:])))
    return bytes(changed)


def produce(t: Trace, name: str, *batches: bytes | None, version: int = 9, acks: int = -1, partition: int = 0,
            transactional_id: str | None = None, timeout_s: float = 10) -> Any:  # fmt: skip
    """Each batch for one partition: the first for ``partition``, the next for the one behind it."""
    data = [PartitionProduceData(index=partition + number, records=item) for number, item in enumerate(batches)]
    topics = [TopicProduceData(name=name, partition_data=data)]
    return t.call(WHO, ApiKey.PRODUCE, version, timeout_s, transactional_id=transactional_id, acks=acks,
                  timeout_ms=5000, topic_data=topics)  # fmt: skip


def read(t: Trace, name: str, offset: int = 0, *, version: int = 11, partition: int = 0, max_wait: int = 100,
         min_bytes: int = 1, max_bytes: int = 1 << 20, partition_max: int = 1 << 20, isolation: int = 0,
         leader_epoch: int = -1, last_epoch: int = -1, session: tuple[int, int] = (0, -1)) -> Any:  # fmt: skip
    item = FetchPartition(
        partition=partition,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        partition_max_bytes=partition_max,
    )
    return t.call(
        WHO,
        ApiKey.FETCH,
        version,
        max_wait_ms=max_wait,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=name, partitions=[item])],
    )


def offsets(t: Trace, name: str, *timestamps: int, version: int = 7, partition: int = 0, leader_epoch: int = -1,
            isolation: int = 0) -> Any:  # fmt: skip
    for timestamp in timestamps:
        item = ListOffsetsPartition(partition_index=partition, current_leader_epoch=leader_epoch, timestamp=timestamp)
        t.call(WHO, ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=isolation,
               topics=[ListOffsetsTopic(name=name, partitions=[item])])  # fmt: skip


NO_ID = ZERO_UUID
