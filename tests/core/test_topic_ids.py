"""What a committed offset knows of the topic it was committed for: its id, where the record has one (KIP-848)."""

from __future__ import annotations

import uuid
from types import SimpleNamespace

import pytest

from ottla.broker.core.effects import Append
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from ottla.protocol.offsets_topic import (
    CoordinatorRecord,
    OffsetValue,
    decode_key,
    decode_offset_value,
    encode_offset_value,
    offset_key,
)
from ottla.protocol.primitives import ZERO_UUID
from tests.core.durable import durable_state

OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)


def loaded(topic_id: uuid.UUID, version: int = 4) -> GroupCoordinator:
    """A coordinator whose log has one offset of topic t."""
    coordinator = GroupCoordinator(GroupConfig(), lambda: "id", partition_count=1)
    coordinator.start()
    coordinator.load_started(0, 0)
    value = OffsetValue(offset=5, metadata="m", topic_id=topic_id)
    coordinator.replay(0, CoordinatorRecord(offset_key("g", "t", 0), encode_offset_value(value, version)), 0)
    coordinator.loaded(0, 0, 0)
    coordinator.take_effects()
    return coordinator


def fetched(coordinator: GroupCoordinator, topic_id: uuid.UUID, version: int = 10) -> list[tuple[uuid.UUID, int]]:
    topics = [OffsetFetchRequestTopic(name="t", topic_id=topic_id, partition_indexes=[0])]
    groups = [OffsetFetchRequestGroup(group_id="g", topics=topics)]
    ctx = SimpleNamespace(api_version=version, client_id="c", client_host="/h")
    answer = coordinator.fetch_offsets(OffsetFetchRequest(groups=groups), ctx, 0, 0, lambda name: NEW)
    assert answer is not None
    return [(topic.topic_id, p.committed_offset) for topic in answer.groups[0].topics for p in topic.partitions]


def fetched_all(
    coordinator: GroupCoordinator, present: uuid.UUID, version: int = 10, *, stable: bool = False
) -> list[tuple[uuid.UUID, dict[int, int]]]:
    """What is told of a group whose topics are not named: for each topic the offsets, or the negative error codes."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)], require_stable=stable)
    ctx = SimpleNamespace(api_version=version, client_id="c", client_host="/h")
    answer = coordinator.fetch_offsets(request, ctx, 0, 0, lambda name: present)
    assert answer is not None
    return [
        (topic.topic_id, {p.partition_index: -p.error_code or p.committed_offset for p in topic.partitions})
        for topic in answer.groups[0].topics
    ]


def tombstones(coordinator: GroupCoordinator) -> list[str]:
    records = [r for effect in coordinator.take_effects() if isinstance(effect, Append) for r in effect.records]
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
    coordinator = loaded(OLD)
    group = coordinator.groups["g"]
    group.offsets.store("t", 1, group.offsets.by_topic["t"][0]._replace(topic_id=NEW, offset=6))
    assert fetched_all(coordinator, NEW) == [(NEW, {1: 6})]
    group.offsets.hold(7, "t", 0, group.offsets.by_topic["t"][1])
    unstable = -ErrorCode.UNSTABLE_OFFSET_COMMIT
    assert fetched_all(coordinator, NEW, stable=True) == [(NEW, {0: unstable, 1: 6})], "it may get one of this topic"


@pytest.mark.parametrize("version", [3, 4])
def test_an_offset_without_an_id_is_shown_to_everybody(version: int) -> None:
    assert fetched(loaded(ZERO_UUID, version), NEW) == [(NEW, 5)]


@pytest.mark.parametrize(
    ("stored", "deleted", "gone"),
    [(OLD, OLD, True), (NEW, OLD, False), (ZERO_UUID, OLD, True), (OLD, ZERO_UUID, True)],
)
def test_only_offsets_of_the_topic_go_with_it(stored: uuid.UUID, deleted: uuid.UUID, gone: bool) -> None:
    coordinator = loaded(stored)
    coordinator.topic_deleted("t", 0, 0, deleted)
    assert tombstones(coordinator) == (["t"] if gone else [])


@pytest.mark.parametrize(("retention", "version", "topic_id"), [(-1, 4, NEW), (60_000, 1, ZERO_UUID)])
def test_memory_knows_of_the_id_what_the_record_can_say(retention: int, version: int, topic_id: uuid.UUID) -> None:
    coordinator = loaded(ZERO_UUID)
    place = OffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name="t", topic_id=NEW, partitions=[place])]
    request = OffsetCommitRequest(group_id="g", retention_time_ms=retention, topics=topics)
    coordinator.commit_offsets(request, SimpleNamespace(api_version=4, client_id="c", client_host="/h"), 0, 0)
    (append,) = (effect for effect in coordinator.take_effects() if isinstance(effect, Append))
    value = append.records[0].value
    assert value is not None
    assert int.from_bytes(value[:2], "big") == version
    assert decode_offset_value(value).topic_id == topic_id
    coordinator.appended(append.token, 0, 0, 0)  # type: ignore[arg-type]
    assert durable_state(coordinator)["g"].offsets["t", 0].topic_id == topic_id
