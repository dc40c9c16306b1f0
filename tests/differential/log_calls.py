"""Requests about topics and their logs in few words, for traces."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import google_crc32c

from ottla.protocol.apis import ApiKey
from ottla.protocol.records import Record
from tests.differential.tracing import Trace
from tests.support.batches import build_batch
from tests.support.requests import Values, create_fields, delete_records_fields, fetch_fields, list_offsets_fields

WHO = "client"
BASE_TIME = 1_700_000_000_000
OF_TOPIC = 2
"""The type of a topic's settings."""

Change = tuple[str, int, str | None]
"""A setting, what is done to it (set, delete, append or subtract), and its value."""


def topic(
    name: str,
    count: int = 1,
    factor: int = 1,
    *,
    configs: dict[str, str | None] | None = None,
    assigned: dict[int, list[int]] | None = None,
) -> Values:
    """A topic as CreateTopics wants it."""
    (row,) = create_fields({name: count}, configs=configs)["topics"]
    placed = [{"partition_index": index, "broker_ids": brokers} for index, brokers in (assigned or {}).items()]
    return row | {"replication_factor": factor, "assignments": placed}


def create(t: Trace, *topics: Values, version: int = 5, only_check: bool = False) -> Any:
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
    settings: dict[str, str | None] = {key.replace("_", "."): value for key, value in configs.items()}
    answer = t.ask(ApiKey.CREATE_TOPICS, 5, topics=[topic(name, count, configs=settings)])
    assert answer.topics[0].error_code == 0
    wait_for(t, name)
    return name


def wait_for(t: Trace, name: str, *, gone: bool = False) -> None:
    """Until the broker serves the topic, or no longer does: a controller may answer earlier."""
    until(lambda: is_served(t, name, 0) != gone)


def is_served(t: Trace, name: str, *partitions: int) -> bool:
    """True if all of these partitions can be written and read; not noted."""
    answer = t.ask(ApiKey.LIST_OFFSETS, 5, **list_offsets_fields(name, -1, *partitions))
    return not any(row.error_code for row in answer.topics[0].partitions)


def until(check: Callable[[], bool], timeout_s: float = 10) -> None:
    deadline = time.monotonic() + timeout_s
    while not check() and time.monotonic() < deadline:
        time.sleep(0.02)


def metadata(t: Trace, version: int, *names: str | None, ids: Sequence[UUID] = (), everything: bool = False,
             create: bool = False, operations: bool = False) -> Any:  # fmt: skip
    topics = [{"name": name} for name in names] + [{"topic_id": item, "name": None} for item in ids]
    return t.call(
        WHO,
        ApiKey.METADATA,
        version,
        topics=None if everything else topics,
        allow_auto_topic_creation=create,
        include_cluster_authorized_operations=operations and 8 <= version <= 10,
        include_topic_authorized_operations=operations and version >= 8,
    )


def grow(t: Trace, *changes: Values, version: int = 3, only_check: bool = False) -> None:
    t.call(WHO, ApiKey.CREATE_PARTITIONS, version, topics=list(changes), timeout_ms=10_000, validate_only=only_check)


def change(name: str, count: int, assigned: list[list[int]] | None = None) -> Values:
    """A topic as CreatePartitions wants it."""
    rows = None if assigned is None else [{"broker_ids": row} for row in assigned]
    return {"name": name, "count": count, "assignments": rows}


def delete(t: Trace, *names: str, version: int = 5) -> None:
    t.call(WHO, ApiKey.DELETE_TOPICS, version, topic_names=list(names), timeout_ms=10_000)


def configs(t: Trace, kind: int, name: str, keys: list[str] | None, version: int = 4, **options: bool) -> None:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    t.call(WHO, ApiKey.DESCRIBE_CONFIGS, version, resources=[resource], **options)


def alter(t: Trace, kind: int, name: str, *changes: Change, version: int = 1, only_check: bool = False) -> None:
    rows = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    t.call(WHO, ApiKey.INCREMENTAL_ALTER_CONFIGS, version, resources=[resource], validate_only=only_check)


def pages(t: Trace, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> None:
    at = cursor and {"topic_name": cursor[0], "partition_index": cursor[1]}
    t.call(WHO, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": name} for name in names],
           response_partition_limit=limit, cursor=at)  # fmt: skip


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
    data = [{"index": partition + number, "records": item} for number, item in enumerate(batches)]
    return t.call(WHO, ApiKey.PRODUCE, version, timeout_s, transactional_id=transactional_id, acks=acks,
                  timeout_ms=5000, topic_data=[{"name": name, "partition_data": data}])  # fmt: skip


def read(t: Trace, name: str, offset: int = 0, *, version: int = 11, partition: int = 0, **options: Any) -> Any:
    """``options`` are fields of the request, or of its partition."""
    fields = fetch_fields(name, offset, partition, **{"max_wait_ms": 100, "min_bytes": 1} | options)
    return t.call(WHO, ApiKey.FETCH, version, **fields)


def offsets(t: Trace, name: str, *timestamps: int, version: int = 7, partition: int = 0, **options: int) -> None:
    for timestamp in timestamps:
        t.call(WHO, ApiKey.LIST_OFFSETS, version, **list_offsets_fields(name, timestamp, partition, **options))


def trim(t: Trace, name: str, offset: int, version: int = 2, partition: int = 0) -> Any:
    return t.call(WHO, ApiKey.DELETE_RECORDS, version, **delete_records_fields(name, offset, partition))
