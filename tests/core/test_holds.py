"""Groups that are held: none of their deadlines takes effect, and what was left of each is left afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.broker.core.consumer_groups.group import ConsumerGroup
from ottla.broker.core.events import DeadlinesHeld, DeadlinesMoved, SessionExpired
from ottla.broker.core.groups.classic.state import COMPLETING_REBALANCE, EMPTY, PREPARING_REBALANCE, STABLE
from ottla.broker.core.groups.config import GroupConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.core import invariants
from tests.core.test_coordinator_api import stable_world
from tests.core.world import Ctx, World, join
from tests.support.requests import (
    commit_fields,
    consumer_heartbeat_fields,
    heartbeat_fields,
    join_fields,
    request,
    subscribed,
    sync_fields,
)

DAY_MS = 86_400_000
SESSION_MS = 10_000  # of the members of `join`; their rebalance timeout is as long


def hold(world: World, group_id: str = "g") -> None:
    world.coordinator.hold(group_id, world.now_ms, world.wall_ms)
    world.settle()


def let_go(world: World, group_id: str = "g") -> None:
    world.coordinator.let_go(group_id, world.now_ms, world.wall_ms)
    world.settle()
    invariants.check(world.coordinator, world.now_ms)


def after(world: World, ms: int) -> None:
    world.advance_to(world.now_ms + ms)


def heartbeat(world: World, member_id: str) -> int:
    fields = heartbeat_fields("g", 1, member_id)
    return world.coordinator.heartbeat(request(ApiKey.HEARTBEAT, fields), world.now_ms)


def members(world: World) -> list[str]:
    group = world.coordinator.groups.get("g")
    return [] if group is None else list(group.members)


def test_a_session_has_as_much_time_left_as_it_had() -> None:
    world = stable_world()
    after(world, 4_000)
    hold(world)
    after(world, 7 * DAY_MS)
    let_go(world)
    after(world, SESSION_MS - 4_001)
    assert len(members(world)) == 1
    after(world, 1)
    assert not members(world)


def test_others_are_not_held() -> None:
    world = stable_world()
    hold(world, "another")
    after(world, SESSION_MS)
    assert not members(world)


def test_who_was_heard_of_in_a_hold_has_one_session_left() -> None:
    world = stable_world()
    (member_id,) = members(world)
    hold(world)
    after(world, DAY_MS)
    assert heartbeat(world, member_id) == ErrorCode.NONE
    after(world, DAY_MS)
    let_go(world)
    after(world, SESSION_MS - 1)
    assert members(world)
    after(world, 1)
    assert not members(world)
    (expired,) = [event for event in world.events if isinstance(event, SessionExpired)]
    assert expired.at_ms - expired.last_heard_ms == SESSION_MS


def test_a_heartbeat_after_a_hold_counts_from_when_it_came() -> None:
    world = stable_world()
    (member_id,) = members(world)
    hold(world)
    after(world, DAY_MS)
    let_go(world)
    after(world, 9_000)
    heartbeat(world, member_id)
    after(world, SESSION_MS - 1)
    assert members(world)
    after(world, 1)
    assert not members(world)


def test_the_initial_delay_waits() -> None:
    world = World(replace(GroupConfig(), group_initial_rebalance_delay_ms=3_000), partition_count=1)
    world.load()
    joining = join(world, join(world, "").answer.member_id)
    after(world, 1_000)
    hold(world)
    after(world, DAY_MS)
    assert joining.answer is None
    let_go(world)
    after(world, 1_999)
    assert joining.answer is None
    after(world, 1)
    assert joining.answer.generation_id == 1


def test_phases_that_begin_in_a_hold_have_all_their_time_left() -> None:
    world = stable_world(2)
    first, second = members(world)
    hold(world)
    after(world, DAY_MS)
    rejoined = join(world, first)
    group = world.coordinator.groups["g"]
    assert group.state is PREPARING_REBALANCE
    after(world, DAY_MS)
    heartbeat(world, second)
    let_go(world)
    after(world, SESSION_MS - 1)
    assert rejoined.answer is None
    after(world, 1)
    assert rejoined.answer.generation_id == 2
    assert members(world) == [first]
    hold(world)
    after(world, DAY_MS)
    assert group.state is COMPLETING_REBALANCE
    let_go(world)
    after(world, SESSION_MS)
    assert group.state is EMPTY


def test_a_group_goes_on_while_it_is_held() -> None:
    world = stable_world(2)
    hold(world)
    after(world, DAY_MS)
    rejoined = [join(world, member_id) for member_id in members(world)]
    assert [one.answer.generation_id for one in rejoined] == [2, 2]
    for member_id in members(world):
        world.send("c", ApiKey.SYNC_GROUP, 5, sync_fields("g", 2, member_id))
    assert world.coordinator.groups["g"].state is STABLE
    let_go(world)
    assert len(members(world)) == 2


def test_ids_that_were_issued_stay() -> None:
    world = stable_world()
    join(world, "")
    group = world.coordinator.groups["g"]
    hold(world)
    after(world, DAY_MS)
    assert len(group.pending_members) == 1
    let_go(world)
    after(world, SESSION_MS)
    assert not group.pending_members


def test_a_group_may_be_held_before_there_is_one() -> None:
    world = World(GroupConfig(group_initial_rebalance_delay_ms=0), partition_count=1)
    world.load()
    hold(world)
    joining = join(world, join(world, "").answer.member_id)
    after(world, DAY_MS)
    assert joining.answer is None
    let_go(world)
    after(world, 0)
    assert joining.answer.generation_id == 1


def test_a_group_that_is_removed_leaves_nothing() -> None:
    world = stable_world()
    (member_id,) = members(world)
    hold(world)
    world.ask("c", "leave", request(ApiKey.LEAVE_GROUP, {"group_id": "g", "members": [{"member_id": member_id}]}), 5)
    world.send("c", ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g"]})
    assert "g" not in world.coordinator.groups
    assert not world.coordinator.holds["g"].left_ms
    let_go(world)
    assert not world.coordinator.holds
    assert {key.timer for key in world.coordinator.deadlines._due} == {"retention"}


def test_a_fail_over_holds_on() -> None:
    world = stable_world()
    hold(world)
    world.coordinator.unload(0, world.now_ms, world.wall_ms)
    world.settle()
    world.load()
    after(world, DAY_MS)
    assert len(members(world)) == 1
    let_go(world)
    after(world, SESSION_MS)
    assert not members(world)


def test_holds_are_counted() -> None:
    world = stable_world()
    hold(world)
    hold(world)
    after(world, DAY_MS)
    let_go(world)
    after(world, DAY_MS)
    assert members(world)
    let_go(world)
    kinds = [event for event in world.events if isinstance(event, DeadlinesHeld | DeadlinesMoved)]
    assert [type(event) for event in kinds] == [DeadlinesHeld, DeadlinesMoved]
    assert kinds[1].by_ms == 2 * DAY_MS  # type: ignore[union-attr]
    with pytest.raises(KeyError):
        let_go(world)


def test_offsets_age_all_the_same() -> None:
    world = World(GroupConfig(), partition_count=1)
    world.load()
    world.send("c", ApiKey.OFFSET_COMMIT, 8, commit_fields("simple", [("t", 0, 1)]))
    assert "simple" in world.coordinator.groups
    hold(world, "simple")
    after(world, 8 * DAY_MS)
    assert "simple" not in world.coordinator.groups


def mixed_world() -> World:
    """A member of each protocol in a consumer group; the one of the classic protocol has joined and not synced."""
    config = GroupConfig(group_consumer_session_timeout_ms=DAY_MS, group_consumer_assignment_interval_ms=0)
    world = World(config, partition_count=1)
    world.load()
    heartbeat = consumer_heartbeat_fields("g", "A", names=["t"])
    world.beat(Ctx("A", 1, request(ApiKey.CONSUMER_GROUP_HEARTBEAT, heartbeat)))
    fields = join_fields("g", member_id="c", protocols={"range": subscribed("t")}, rebalance_ms=20_000)
    assert world.send("c", ApiKey.JOIN_GROUP, 9, fields).answer.generation_id == 3
    return world


def has_classic_member(world: World) -> bool:
    group = world.coordinator.groups["g"]
    assert isinstance(group, ConsumerGroup)
    return "c" in group.state.members


def test_who_has_to_sync_in_a_consumer_group_waits() -> None:
    world = mixed_world()
    after(world, 5_000)
    world.coordinator.hold("g", world.now_ms, world.wall_ms)
    after(world, 7 * DAY_MS)
    world.coordinator.let_go("g", world.now_ms, world.wall_ms)
    after(world, 14_999)
    assert has_classic_member(world)
    after(world, 1)
    assert not has_classic_member(world)


def test_who_is_told_to_join_again_in_a_hold_has_all_its_time_left() -> None:
    world = mixed_world()
    world.send("c", ApiKey.SYNC_GROUP, 5, sync_fields("g", 3, "c"))
    world.coordinator.hold("g", world.now_ms, world.wall_ms)
    join_again = consumer_heartbeat_fields("g", "B", names=["t"])
    world.beat(Ctx("B", 1, request(ApiKey.CONSUMER_GROUP_HEARTBEAT, join_again)))
    told = request(ApiKey.HEARTBEAT, heartbeat_fields("g", 3, "c"))
    assert world.coordinator.heartbeat(told, world.now_ms) == ErrorCode.REBALANCE_IN_PROGRESS
    after(world, DAY_MS)
    assert world.coordinator.heartbeat(told, world.now_ms) == ErrorCode.REBALANCE_IN_PROGRESS
    world.coordinator.let_go("g", world.now_ms, world.wall_ms)
    after(world, 19_999)
    assert has_classic_member(world)
    after(world, 1)
    assert not has_classic_member(world)
