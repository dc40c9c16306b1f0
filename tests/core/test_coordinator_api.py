"""The entries of the coordinator that are not requests, and what the hot path must not do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.core import events as events_
from ottla.broker.core.coordination.shard import ShardState
from ottla.broker.core.effects import Append
from ottla.broker.core.groups import coordinator
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import ACTIVATED_AT_ONCE, GroupCoordinator
from ottla.broker.core.groups.offsets.committed import CommittedOffset
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, MalformedFrame
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.offsets_topic import (
    CoordinatorRecord,
    GroupMemberValue,
    GroupValue,
    OffsetValue,
    encode_group_value,
    encode_offset_value,
    group_key,
    offset_key,
)
from tests.core.durable import GroupFacts, differences, durable_state
from tests.core.world import World, join
from tests.support.requests import sync_fields

GOOD = CoordinatorRecord(offset_key("g", "t", 0), encode_offset_value(OffsetValue(offset=1, metadata="")))
UNREADABLE = CoordinatorRecord(group_key("g"), b"\0\3\xff")


@pytest.fixture
def one_shard() -> GroupCoordinator:
    coordinator = GroupCoordinator(GroupConfig(), lambda: "id", partition_count=1)
    coordinator.start()
    return coordinator


def stable_world(members: int = 1) -> World:
    """A Stable group of members that were added at once; the first leads."""
    world = World(replace(GroupConfig(), group_initial_rebalance_delay_ms=0), partition_count=1)
    world.load()
    member_ids = [join(world, "").answer.member_id for _ in range(members)]
    for member_id in member_ids:
        join(world, member_id)
    world.advance_to(1)
    for member_id in member_ids:
        sync = sync_fields("g", 1, member_id)
        assert world.send("c", ApiKey.SYNC_GROUP, 5, sync).answer.error_code == ErrorCode.NONE
    return world


def test_groups_that_were_loaded_are_served_in_pieces_of_one_entry() -> None:
    events: list[events_.Event] = []
    loading = GroupCoordinator(
        GroupConfig(), lambda: "id", partition_count=1, observer=events_.EveryEvent(events.append)
    )
    loading.start()
    loading.load_started(0, 0)
    value = encode_offset_value(OffsetValue(offset=1, metadata=""))
    for number in range(3 * ACTIVATED_AT_ONCE):
        loading.replay(0, CoordinatorRecord(offset_key(f"g{number}", "t", 0), value), number)
    pieces = loading.activating(0, 5, 6)
    number = loading.cause + 1
    entries = 0
    for _ in pieces:
        if loading.shards[0].state is ShardState.LOADING:
            # Somebody asks meanwhile.
            assert loading.heartbeat(HeartbeatRequest(group_id="g0", member_id="m"), 100) == ErrorCode.NONE
            entries += 1
    assert entries > 3
    assert loading.shards[0].state is ShardState.ACTIVE
    loaded = [event for event in events if isinstance(event, events_.GroupLoaded)]
    assert len(loaded) == len(loading.groups) == 3 * ACTIVATED_AT_ONCE
    assert {(event.cause, event.at_ms, event.wall_ms) for event in loaded} == {(number, 5, 6)}
    assert loading.cause == number + entries


def test_a_shard_that_is_given_up_while_its_groups_come_to_be_served_is_not_served(
    one_shard: GroupCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator, "ACTIVATED_AT_ONCE", 0)
    one_shard.load_started(0, 0)
    one_shard.replay(0, GOOD, 0)
    pieces = one_shard.activating(0, 0, 0)
    next(pieces)
    one_shard.unload(0, 0, 0)
    assert list(pieces) == []
    assert one_shard.shards[0].state is ShardState.ABSENT
    assert not one_shard.groups


def test_a_record_that_cannot_be_read_fails_the_load(one_shard: GroupCoordinator) -> None:
    assert one_shard.load_started(0, 0)
    assert one_shard.replay(0, GOOD, 0)
    with pytest.raises(MalformedFrame):
        one_shard.replay(0, UNREADABLE, 1)
    assert not one_shard.replay(0, GOOD, 2)
    assert not one_shard.loaded(0, 0, 0)
    assert durable_state(one_shard) == {}
    assert one_shard.heartbeat(HeartbeatRequest(group_id="g"), 0) == ErrorCode.NOT_COORDINATOR
    assert one_shard.load_started(0, 0)
    assert one_shard.loaded(0, 0, 0)


def test_records_of_other_kinds_are_skipped(one_shard: GroupCoordinator) -> None:
    one_shard.load_started(0, 0)
    assert one_shard.replay(0, CoordinatorRecord(b"\0\x0b\0\x01g", b"whatever"), 0)
    assert one_shard.loaded(0, 0, 0)
    assert durable_state(one_shard) == {}


def test_only_a_newer_epoch_loads_or_unloads(one_shard: GroupCoordinator) -> None:
    assert one_shard.load_started(0, 0, epoch=4)
    assert not one_shard.load_started(0, 0, epoch=4)
    one_shard.loaded(0, 0, 0)
    # A newer epoch of a partition that is served changes nothing but the epoch.
    assert not one_shard.load_started(0, 0, epoch=5)
    heartbeat = HeartbeatRequest(group_id="g")
    one_shard.unload(0, 0, 0, epoch=5)
    assert one_shard.heartbeat(heartbeat, 0) == ErrorCode.UNKNOWN_MEMBER_ID
    one_shard.unload(0, 0, 0, epoch=6)
    assert one_shard.heartbeat(heartbeat, 0) == ErrorCode.NOT_COORDINATOR
    assert not one_shard.load_started(0, 0, epoch=6)
    assert one_shard.load_started(0, 0, epoch=7)
    one_shard.unload(0, 0, 0)
    assert one_shard.heartbeat(heartbeat, 0) == ErrorCode.NOT_COORDINATOR


def test_a_partition_that_is_given_up_while_it_loads_is_not_served(one_shard: GroupCoordinator) -> None:
    one_shard.load_started(0, 0)
    one_shard.replay(0, GOOD, 0)
    one_shard.unload(0, 0, 0)
    assert not one_shard.replay(0, GOOD, 1)
    assert not one_shard.loaded(0, 0, 0)
    one_shard.load_failed(0, 0)
    assert one_shard.next_deadline_ms() is None


def test_a_good_heartbeat_touches_nothing_but_the_member() -> None:
    world = stable_world()
    m = world.coordinator
    before = (m.cause, m.deadlines._sequence, len(m.effects), len(world.events))
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="c-1")
    for now_ms in range(10, 5_000, 10):
        assert world.coordinator.heartbeat(heartbeat, now_ms) == ErrorCode.NONE
    assert before == (m.cause, m.deadlines._sequence, len(m.effects), len(world.events))
    assert m.groups["g"].members["c-1"].session_deadline_ms == 4_990 + 10_000


def test_members_that_heartbeat_are_looked_at_once_a_session() -> None:
    world = stable_world(members=50)
    m = world.coordinator
    looked = 0
    for now_ms in range(1_000, 61_000, 1_000):
        for member in m.groups["g"].members.values():
            heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member.member_id)
            assert world.coordinator.heartbeat(heartbeat, now_ms) == ErrorCode.NONE
        before = m.deadlines._sequence
        world.advance_to(now_ms)
        looked += m.deadlines._sequence - before
    assert len(m.groups["g"].members) == 50
    assert looked <= 50 * 6


def test_retention_sweeps_one_partition_a_turn() -> None:
    world = World(GroupConfig(offsets_retention_check_interval_ms=1_000), partition_count=3)
    world.load()
    world.events.clear()
    world.now_ms = 1_000
    turns = 0
    while (at_ms := world.coordinator.next_deadline_ms()) is not None and at_ms <= 1_000:
        world.coordinator.advance(1_000, 0)
        turns += 1
    assert turns == len(world.events) == 3


def test_a_large_partition_is_swept_in_parts() -> None:
    """One of the groups with which the sweep would go on is deleted meanwhile: it begins anew."""
    config = GroupConfig(offsets_retention_check_interval_ms=1_000, offsets_retention_ms=1)
    world = World(config, partition_count=1)
    for number in range(2_000):
        value = encode_offset_value(OffsetValue(offset=1, metadata="", commit_timestamp=0))
        world.log.append((0, CoordinatorRecord(offset_key(f"g{number}", "t", 0), value)))
    world.load()
    coordinator = world.coordinator
    parts = 0
    while (at_ms := coordinator.next_deadline_ms()) is not None and at_ms <= 1_000:
        coordinator.advance(1_000, 1_000_000)
        parts += 1
        if parts == 3:
            shard = coordinator.shards[0]
            assert shard.sweep is not None
            coordinator.forget_group(shard.groups[shard.sweep.member_id], "deleted")
        for effect in coordinator.take_effects():
            assert isinstance(effect, Append)
            coordinator.appended(effect.token, ErrorCode.NONE, 1_000, 1_000_000)
    assert not coordinator.groups
    assert parts > 10


def test_one_turn_does_not_look_after_everybody() -> None:
    world = World(GroupConfig(), partition_count=1)
    for group in range(3):
        members = [GroupMemberValue(member_id=f"m{number}", session_timeout=10_000) for number in range(400)]
        value = GroupValue(protocol_type="consumer", generation=1, protocol="range", leader="m0", members=members)
        world.log.append((0, CoordinatorRecord(group_key(f"g{group}"), encode_group_value(value))))
    world.load()
    coordinator = world.coordinator
    for group in coordinator.groups.values():
        for member in group.members.values():
            member.session_deadline_ms = 15_000
    turns = 0
    while coordinator.next_deadline_ms() == 10_000:
        coordinator.advance(10_000, 0)
        turns += 1
    assert turns == 3
    assert coordinator.next_deadline_ms() == 15_000
    assert [len(group.members) for group in coordinator.groups.values()] == [400, 400, 400]


def test_an_append_that_comes_back_twice_is_heard_once() -> None:
    world = World(GroupConfig(), partition_count=1, hold=True)
    world.load()
    assert join(world, "").answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    append = world.held[0]
    world.complete()
    before = len(world.events)
    world.coordinator.appended(append.token, ErrorCode.NONE, 0, 0)
    assert len(world.events) == before


def test_the_law_can_be_broken() -> None:
    offset = CommittedOffset(1, -1, "", 0)
    ours = {"g": GroupFacts(GroupValue(generation=1), True, {("t", 0): offset})}
    assert differences(ours, ours) == []
    assert len(differences(ours, {})) == 2
    assert len(differences({}, ours)) == 2
    other = {"g": GroupFacts(GroupValue(generation=2), True, {("t", 0): offset})}
    assert len(differences(ours, other)) == 1
    unsettled = {"g": GroupFacts(GroupValue(generation=1), False, {("t", 0): offset})}
    assert differences(unsettled, other) == []


def test_encoded_values_of_a_world_are_of_version_3() -> None:
    world = stable_world()
    versions = {record.value[:2] for _, record in world.log if record.value is not None}
    assert versions == {b"\0\3"}
    assert encode_group_value(GroupValue(protocol_type=""))[:2] == b"\0\3"
