"""The least of what the simulation found in the coordinator once."""

from __future__ import annotations

import pytest

from ottla.broker.core.groups import removal
from ottla.broker.core.groups.config import GroupConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.core.world import Ctx, World
from tests.support.requests import (
    commit_fields,
    heartbeat_fields,
    join_fields,
    offset_fetch_fields,
    request,
    sync_fields,
)

NONE, FAILED = ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS


@pytest.fixture
def world() -> World:
    """One partition, and appends whose outcome the test decides."""
    world = World(GroupConfig(group_initial_rebalance_delay_ms=0), 1, hold=True)
    world.load()
    return world


def finish(world: World, *errors: ErrorCode) -> None:
    """Let the oldest appends come to their end."""
    for error in errors:
        world.complete(error)
        world.settle()


def commit(world: World, group: str, offset: int) -> None:
    world.send("c", ApiKey.OFFSET_COMMIT, 5, commit_fields(group, [("t", 0, offset)]))


def test_a_deletion_that_half_failed_leaves_the_same_with_and_without_compaction(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tombstone of an offset failed, that of its group did not: the offset stays, for whoever reads the log."""
    monkeypatch.setattr(removal, "BATCH_RECORDS", 1)
    commit(world, "g", 7)
    finish(world, NONE)
    deleted = world.send("c", ApiKey.DELETE_GROUPS, 1, {"groups_names": ["g"]})
    finish(world, FAILED, NONE)
    assert deleted.answer.results[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    answer = world.send("c", ApiKey.OFFSET_FETCH, 5, offset_fetch_fields("g", {"t": [0]})).answer
    assert answer.topics[0].partitions[0].committed_offset == 7
    world.check_log()
    del world.log[-1]  # a tombstone that compaction has done away with
    world.check_log()


def test_memory_does_not_grow_with_heartbeats(world: World) -> None:
    """Moving a deadline costs no entry of the heap, however often it is done."""

    def join(member_id: str) -> Ctx:
        protocols = {"range": b""}
        fields = join_fields("g", member_id=member_id, protocols=protocols, session_ms=6_000, rebalance_ms=3_000)
        return world.send("c", ApiKey.JOIN_GROUP, 4, fields)

    coordinator = world.coordinator
    ids = [join("").answer.member_id for _ in range(3)]
    asked = [join(member_id) for member_id in ids]
    world.advance_to(0)
    asked += [world.send("c", ApiKey.SYNC_GROUP, 2, sync_fields("g", 1, name)) for name in ids]
    finish(world, NONE, NONE)
    assert [ctx.answer.error_code for ctx in asked] == [NONE] * 6

    def heartbeats() -> set[int]:
        beats = [request(ApiKey.HEARTBEAT, heartbeat_fields("g", 1, name)) for name in ids]
        return {coordinator.heartbeat(beat, world.now_ms) for beat in beats}

    for now_ms in range(0, 60_000, 10):
        world.now_ms = now_ms
        assert heartbeats() == {NONE}
        coordinator.advance(now_ms, world.wall_ms)
        assert len(coordinator.deadlines._heap) < 20
    world.now_ms = 66_000
    coordinator.advance(66_000, world.wall_ms)
    assert heartbeats() == {ErrorCode.UNKNOWN_MEMBER_ID}
