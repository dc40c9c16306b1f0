"""Offsets of topics that are named by id, and of topics that are deleted and made anew; one trace for each rule."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from ottla.protocol.apis import ApiKey
from ottla.protocol.primitives import ZERO_UUID
from tests.differential.calls import (
    TOPIC,
    commit,
    commit_alone,
    delete_offsets,
    describe,
    fetch,
    stable,
)
from tests.differential.tracing import Trace
from tests.support.requests import create_fields, offset_fetch_fields

NOBODY = UUID(int=0xABCDEF)
OTHER_NOBODY = UUID(int=0xABCDEE)


def topic_id(t: Trace, name: str) -> UUID:
    answer = t.call("admin", ApiKey.METADATA, 12, topics=[{"name": name}], allow_auto_topic_creation=False)
    return UUID(bytes=answer.topics[0].topic_id.bytes)


def create(t: Trace, name: str, partitions: int = 2) -> UUID:
    t.call("admin", ApiKey.CREATE_TOPICS, 5, **create_fields({name: partitions}))
    t.settle(100)
    return topic_id(t, name)


def delete_topic(t: Trace, name: str) -> None:
    t.call("admin", ApiKey.DELETE_TOPICS, 5, topic_names=[name], timeout_ms=10_000)
    t.settle(200)


def commit_by_id(t: Trace, *topics: tuple[UUID, dict[int, int]], group: str | None = None, **options: Any) -> Any:
    rows = []
    for topic, offsets in topics:
        named = [{"partition_index": i, "committed_offset": at, "committed_metadata": "m"} for i, at in offsets.items()]
        rows.append({"topic_id": topic, "partitions": named})
    fields: dict[str, Any] = {"generation_id_or_member_epoch": -1, "member_id": ""} | options
    return t.do("admin", ApiKey.OFFSET_COMMIT, 10, group_id=group or t.name, topics=rows, **fields)


def fetch_by_id(t: Trace, *topics: tuple[UUID, list[int]], stable: bool = False, group: str | None = None) -> Any:
    """Without topics: all of them."""
    rows = [{"topic_id": topic, "partition_indexes": indexes} for topic, indexes in topics]
    asked = {"group_id": group or t.name, "topics": rows or None}
    return t.call("admin", ApiKey.OFFSET_FETCH, 10, groups=[asked], require_stable=stable)


def trace_topic_ids_in_commits(t: Trace) -> None:
    orders = topic_id(t, TOPIC)
    commit_by_id(t, (orders, {0: 5, 1: 6}))
    commit_by_id(t, (orders, {0: 7, 7: 8, 1: 9, -1: 3}))
    commit_by_id(t, (NOBODY, {0: 1}))
    commit_by_id(t, (ZERO_UUID, {0: 1}))
    commit_by_id(t, (NOBODY, {}))
    commit_by_id(t, (orders, {}))
    commit_by_id(t, (orders, {}), (NOBODY, {}), (orders, {0: 4}))
    commit_by_id(t, (orders, {0: 1}), (NOBODY, {0: 1}), (ZERO_UUID, {1: 1}), (OTHER_NOBODY, {0: 1}), (NOBODY, {5: 1}))
    commit_by_id(t, (orders, {0: 1}), (orders, {0: 2, 9: 1}), (orders, {1: 3}))
    commit_by_id(t, (orders, {0: 1}), (orders, {0: 2}))
    commit_by_id(t)
    commit_by_id(t, (orders, {0: 1}), (NOBODY, {0: 1}), member_id="x", generation_id_or_member_epoch=3)
    commit_by_id(t, (orders, {0: 1}), group=f"{t.name}-absent", generation_id_or_member_epoch=0)
    fetch(t, 9, everything=True)


def trace_topic_ids_in_fetches(t: Trace) -> None:
    orders = topic_id(t, TOPIC)
    fetch_by_id(t)
    fetch_by_id(t, (orders, [0]), (NOBODY, [1]))
    commit_alone(t, 9, offsets=[(TOPIC, 0, 5), (TOPIC, 2, 9)], epoch=3)
    for steady in (False, True):
        fetch_by_id(t, stable=steady)
        fetch_by_id(t, (orders, [2, 0, 0, 77, -1]), stable=steady)
        fetch_by_id(t, (NOBODY, [0]), (orders, [0]), (ZERO_UUID, [0]), (orders, [2]), (NOBODY, [1]), stable=steady)
        fetch_by_id(t, (NOBODY, [0]), stable=steady)
        fetch_by_id(t, (NOBODY, []), (orders, []), stable=steady)
        fetch_by_id(t, (orders, [0]), (NOBODY, [0]), group=f"{t.name}-absent", stable=steady)
        fetch_by_id(t, group=f"{t.name}-absent", stable=steady)
    t.call("admin", ApiKey.OFFSET_FETCH, 10, **offset_fetch_fields(t.name, {}))
    for version in (9, 10):
        for member, epoch in (("", -1), ("x", -1), ("x", 0), (None, 5), ("", 0)):
            fields = offset_fetch_fields(t.name, member_id=member, member_epoch=epoch)
            t.call("admin", ApiKey.OFFSET_FETCH, version, **fields)


def trace_topic_ids_of_members(t: Trace) -> None:
    orders = topic_id(t, TOPIC)
    stable(t, "a")
    member = {"member_id": t.member["a"], "generation_id_or_member_epoch": 1}
    commit_by_id(t, (orders, {0: 5}), (NOBODY, {0: 5}), **member)
    commit_by_id(t, (orders, {0: 5}), (NOBODY, {0: 5}), **member | {"generation_id_or_member_epoch": 0})
    commit_by_id(t, (orders, {0: 5}), (NOBODY, {0: 5}), **member | {"member_id": "nobody"})
    commit_by_id(t, (NOBODY, {0: 5}), **member | {"member_id": "nobody"})
    commit_by_id(t, (orders, {0: 6}))
    fetch_by_id(t, (orders, [0]), (NOBODY, [0]))
    describe(t, 6)
    describe(t, 6, f"{t.name}-absent", operations=True)


def trace_topic_ids_after_deletion(t: Trace) -> None:
    name = f"{t.name}-again"
    first = create(t, name)
    commit_by_id(t, (first, {0: 5}))
    commit(t, "admin", 9, [(name, 1, 6)], member="", generation=-1)
    fetch_by_id(t, (first, [0, 1]))
    delete_topic(t, name)
    fetch(t, 9, everything=True)
    fetch(t, 9, {name: [0]})
    fetch_by_id(t)
    fetch_by_id(t, (first, [0]))
    commit_by_id(t, (first, {0: 6}))
    second = create(t, name, 1)
    fetch(t, 9, everything=True)
    fetch_by_id(t)
    fetch_by_id(t, (first, [0]), (second, [0]))
    commit_by_id(t, (first, {0: 6}), (second, {0: 7, 1: 8}))
    fetch(t, 9, everything=True)
    fetch_by_id(t)
    delete_topic(t, name)
    fetch_by_id(t)


def trace_refused_offset_deletes(t: Trace) -> None:
    commit_alone(t, 9, offsets=[(TOPIC, 0, 5), (TOPIC, 1, 6), (TOPIC, 2, 7)])
    delete_offsets(t, {TOPIC: [0, 9, 1], "absent": [0], f"{t.name}-gone": [1, 2]})
    delete_offsets(t, {"absent": []})
    delete_offsets(t, {TOPIC: [], "absent": [0]})
    delete_offsets(t, {TOPIC: []})
    commit_alone(t, 9, offsets=[(TOPIC, 9, 1), (TOPIC, 0, 5), ("absent", 0, 5), (TOPIC, 1, 6)])
    fetch(t, 9, everything=True)
