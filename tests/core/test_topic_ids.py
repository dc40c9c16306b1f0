"""A committed offset keeps the id of its topic where the record has one (KIP-848)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from msgspec.structs import replace

from ottla.broker.core.groups.config import GroupConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.offsets_topic import (
    CoordinatorRecord,
    OffsetValue,
    decode_key,
    decode_value,
    encode_offset_value,
    offset_key,
)
from ottla.protocol.primitives import ZERO_UUID
from tests.core.durable import durable_state
from tests.core.world import Ctx, World
from tests.support.requests import commit_fields, offset_fetch_fields, request

OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)


def loaded(topic_id: uuid.UUID, version: int = 4) -> World:
    """A world whose log has one offset of topic t."""
    world = World(GroupConfig(), 1)
    value = OffsetValue(offset=5, metadata="m", topic_id=topic_id)
    world.log.append((0, CoordinatorRecord(offset_key("g", "t", 0), encode_offset_value(value, version))))
    world.load()
    return world


def both(topic_id: uuid.UUID) -> dict[str, Any]:
    """Name and id, as handlers have them."""
    return {"name": "t", "topic_id": topic_id}


def fetched(world: World, topic_id: uuid.UUID, version: int = 10) -> list[tuple[uuid.UUID, int]]:
    fields = offset_fetch_fields("g", {topic_id: [0]}, name=both)
    asked = Ctx("c", version, request(ApiKey.OFFSET_FETCH, fields))
    answer = world.enter(asked, "fetch_offsets", lambda name: NEW).answer
    return [(topic.topic_id, p.committed_offset) for topic in answer.groups[0].topics for p in topic.partitions]


def fetched_all(
    world: World, present: uuid.UUID, version: int = 10, *, stable: bool = False
) -> list[tuple[uuid.UUID, dict[int, int]]]:
    """The answer for a group whose topics are not named: for each topic the offsets, or the negative error codes."""
    fields = offset_fetch_fields("g", stable=stable)
    answer = world.send("c", ApiKey.OFFSET_FETCH, version, fields, lambda name: present).answer
    return [
        (topic.topic_id, {p.partition_index: -p.error_code or p.committed_offset for p in topic.partitions})
        for topic in answer.groups[0].topics
    ]


def tombstones(world: World) -> list[str]:
    records = [record for append in world.appends for record in append.records]
    return [decode_key(record.key).topic for record in records if record.value is None]


def test_an_offset_of_another_topic_of_that_name_is_not_shown_to_who_asks_by_id() -> None:
    assert fetched(loaded(OLD), OLD) == [(OLD, 5)]
    assert fetched(loaded(OLD), NEW) == [(NEW, -1)]
    assert fetched(loaded(OLD), ZERO_UUID, version=9) == [(ZERO_UUID, 5)], "by name it is"


def test_an_offset_of_another_topic_of_that_name_is_not_shown_among_all() -> None:
    """As a crash leaves it that comes between the deletion of the topic and the tombstones."""
    assert fetched_all(loaded(OLD), OLD) == [(OLD, {0: 5})]
    assert fetched_all(loaded(OLD), NEW) == []
    assert fetched_all(loaded(ZERO_UUID), NEW) == [(NEW, {0: 5})]
    assert fetched_all(loaded(OLD), ZERO_UUID) == [], "there is no topic of that name"
    assert fetched_all(loaded(OLD), NEW, version=9) == [(ZERO_UUID, {0: 5})], "by name it is"


def test_among_all_only_the_offsets_of_the_other_topic_are_left_out() -> None:
    world = loaded(OLD)
    group = world.coordinator.groups["g"]
    group.offsets.store("t", 1, replace(group.offsets.by_topic["t"][0], topic_id=NEW, offset=6))
    assert fetched_all(world, NEW) == [(NEW, {1: 6})]
    group.offsets.hold(7, "t", 0, group.offsets.by_topic["t"][1])
    unstable = -ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert fetched_all(world, NEW, stable=True) == [(NEW, {0: unstable, 1: 6})], "it may get one of this topic"


@pytest.mark.parametrize("version", [3, 4])
def test_an_offset_without_an_id_is_shown_to_everybody(version: int) -> None:
    assert fetched(loaded(ZERO_UUID, version), NEW) == [(NEW, 5)]


@pytest.mark.parametrize(
    ("stored", "deleted", "gone"),
    [(OLD, OLD, True), (NEW, OLD, False), (ZERO_UUID, OLD, True), (OLD, ZERO_UUID, True)],
)
def test_only_offsets_of_the_topic_go_with_it(stored: uuid.UUID, deleted: uuid.UUID, gone: bool) -> None:
    world = loaded(stored)
    world.coordinator.topic_deleted("t", 0, 0, deleted)
    world.settle()
    assert tombstones(world) == (["t"] if gone else [])


@pytest.mark.parametrize(("retention", "version", "topic_id"), [(-1, 4, NEW), (60_000, 1, ZERO_UUID)])
def test_memory_knows_of_the_id_what_the_record_can_say(retention: int, version: int, topic_id: uuid.UUID) -> None:
    world = loaded(ZERO_UUID)
    fields = commit_fields("g", [(NEW, 0, 7)], retention_ms=retention, name=both)
    world.enter(Ctx("c", 4, request(ApiKey.OFFSET_COMMIT, fields)), "commit_offsets")
    ((record,),) = (append.records for append in world.appends)
    assert record.value is not None
    assert int.from_bytes(record.value[:2], "big") == version
    assert decode_value(OffsetValue, record.value).topic_id == topic_id
    assert durable_state(world.coordinator)["g"].offsets["t", 0].topic_id == topic_id
