"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.offsets_topic import CoordinatorRecord
from tests.core.transactions.txn_world import T0, T1, World, load

E = ErrorCode


@pytest.fixture
def world() -> World:
    """Ids in three states: ``a`` (producer 101), ``b`` open for a second (102), ``c`` committed (103)."""
    world = World()
    world.producer("a")
    world.open(T0, T1, name="b")
    world.advance(1_000)
    world.end(world.open(T0, name="c"), name="c")
    return world


def names(answer: Any) -> list[str]:
    return sorted(row.transactional_id for row in answer.transaction_states)


def test_a_description(world: World) -> None:
    row = world.describe("b")
    assert (row.transaction_state, row.producer_id, row.producer_epoch) == ("Ongoing", 102, 0)
    assert (row.transaction_timeout_ms, row.transaction_start_time_ms) == (60_000, world.wall_ms - 1_000)
    assert [(topic.topic, topic.partitions) for topic in row.topics] == [("t", [0, 1])]


def test_without_a_transaction(world: World) -> None:
    row = world.describe("a")
    assert (row.transaction_state, row.transaction_start_time_ms, row.topics) == ("Empty", -1, [])


@pytest.mark.parametrize(("name", "error"), [("", E.INVALID_REQUEST), ("d", E.TRANSACTIONAL_ID_NOT_FOUND)])
def test_what_cannot_be_described(world: World, name: str, error: ErrorCode) -> None:
    row = world.describe(name)
    assert (row.transactional_id, row.error_code) == (name, error)


def test_the_list(world: World) -> None:
    answer = world.list()
    assert answer.error_code == E.NONE
    assert sorted(
        (row.transactional_id, row.producer_id, row.transaction_state) for row in answer.transaction_states
    ) == [("a", 101, "Empty"), ("b", 102, "Ongoing"), ("c", 103, "CompleteCommit")]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"state_filters": ["Ongoing", "Empty"]}, "ab"),
        ({"state_filters": ["ongoing"]}, ""),
        ({"producer_id_filters": [103, 101, 9]}, "ac"),
        ({"producer_id_filters": [103, 101], "state_filters": ["Ongoing", "CompleteCommit"]}, "c"),
        ({"duration_filter": 999}, "ab"),  # an id without a transaction began long ago, as in Kafka
        ({"duration_filter": 1_000, "state_filters": ["Ongoing"]}, ""),
        ({"duration_filter": -1}, "abc"),
        ({"duration_filter": 0}, "ab"),
    ],
)
def test_filters(world: World, filters: dict[str, Any], found: str) -> None:
    assert "".join(names(world.list(**filters))) == found


def test_names_of_states_that_there_are_not(world: World) -> None:
    answer = world.list(state_filters=["Nowhere", "Empty", "Nowhere"])
    assert answer.unknown_state_filters == ["Nowhere"]
    assert names(answer) == ["a"]


def test_while_a_partition_is_loading(world: World) -> None:
    world.coordinator.unload(1, *world.now)
    world.coordinator.load_started(1, 0)
    assert world.list().error_code == E.COORDINATOR_LOAD_IN_PROGRESS
    assert {world.state(name) for name in "abcdef"} >= {"COORDINATOR_LOAD_IN_PROGRESS"}


@pytest.mark.parametrize(
    "record",
    [
        CoordinatorRecord(b"\0\0\0\1a", b"\0\1\xff"),
        CoordinatorRecord(b"\0\0\0\5a", None),
        CoordinatorRecord(b"\0\0\0\1a", b"\0\0" + bytes(8 + 2 + 4) + b"\x09" + b"\xff" * 4 + bytes(16)),
        CoordinatorRecord(b"\0\0\0\1b", None),
    ],
    ids=["value", "key", "state", "partition"],
)
def test_a_record_that_cannot_be_read(world: World, record: CoordinatorRecord) -> None:
    shard = next(index for index, records in enumerate(world.log) if any(r.key.endswith(b"a") for r in records))
    world.coordinator.unload(shard, *world.now)
    world.coordinator.load_started(shard, 0)
    with pytest.raises(MalformedFrame):
        world.coordinator.replay(shard, record, 0)


def test_a_record_of_another_kind_is_skipped(world: World) -> None:
    world.coordinator.unload(0, *world.now)
    load(world.coordinator, 0, [CoordinatorRecord(b"\0\1whatever", b"x")], *world.now)
    assert world.list().error_code == E.NONE
