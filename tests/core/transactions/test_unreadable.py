"""Records of ``__transaction_state`` that this release cannot read."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import MalformedFrame
from ottla.protocol.offsets_topic import CoordinatorRecord
from tests.core.durable import durable_transactions
from tests.core.transactions.txn_world import World


@pytest.fixture
def world() -> World:
    """Two partitions, which are loading; ``b`` belongs to the first."""
    world = World(partition_count=2)
    world.begin_load()
    return world


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
    with pytest.raises(MalformedFrame):
        world.coordinator.replay(1, record, 0)


def test_a_record_of_another_kind_is_skipped(world: World) -> None:
    world.coordinator.replay(0, CoordinatorRecord(b"\0\1whatever", b"x"), 0)
    world.finish_load()
    assert durable_transactions(world.coordinator) == {}
