"""The table of states, and what a group does when it is used as it must not be."""

from __future__ import annotations

import itertools

import pytest

from ottla.broker.core.coordination.shard import Shard
from ottla.broker.core.groups.classic.group import ClassicGroup
from ottla.broker.core.groups.classic.state import (
    COMPLETING_REBALANCE,
    DEAD,
    EMPTY,
    HEARTBEAT_ANSWER,
    PREDECESSORS,
    PREPARING_REBALANCE,
    STABLE,
    GroupState,
    IllegalTransition,
    can_move,
    can_rebalance,
)
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.offsets.committed import CommittedOffsets
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from tests.core.world import World, join
from tests.support.requests import commit_fields, heartbeat_fields, leave_fields, request, sync_fields

LEGAL = {
    (EMPTY, PREPARING_REBALANCE),
    (COMPLETING_REBALANCE, PREPARING_REBALANCE),
    (STABLE, PREPARING_REBALANCE),
    (PREPARING_REBALANCE, COMPLETING_REBALANCE),
    (PREPARING_REBALANCE, EMPTY),
    (COMPLETING_REBALANCE, STABLE),
    *((state, DEAD) for state in GroupState),
}


def group_in(state: GroupState) -> ClassicGroup:
    group = ClassicGroup("g", Shard(0), CommittedOffsets(), 0)
    group.state = state
    return group


def test_wire_names() -> None:
    names = [state.value for state in GroupState]
    assert names == ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]


@pytest.mark.parametrize(("before", "after"), list(itertools.product(GroupState, GroupState)))
def test_every_transition(before: GroupState, after: GroupState) -> None:
    assert can_move(before, after) == ((before, after) in LEGAL)
    group = group_in(before)
    if (before, after) in LEGAL:
        group.move(after, 123)
        assert (group.previous_state, group.state, group.state_timestamp_ms) == (before, after, 123)
        assert group.heartbeat_answer == HEARTBEAT_ANSWER[after]
    else:
        with pytest.raises(IllegalTransition):
            group.move(after, 123)
        assert group.state is before


def test_the_tables_are_complete() -> None:
    assert set(PREDECESSORS) == set(HEARTBEAT_ANSWER) == set(GroupState)
    assert [state for state in GroupState if can_rebalance(state)] == [EMPTY, COMPLETING_REBALANCE, STABLE]


@pytest.fixture
def dead() -> World:
    """A world in which a group is Dead and known all the same, which cannot happen: the guards hold anyway."""
    world = World(GroupConfig())
    world.load()
    join(world, "")
    world.coordinator.groups["g"].move(DEAD, 0)
    return world


def test_a_dead_group_is_not_available(dead: World) -> None:
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    for member_id in ("", "m"):
        answer = join(dead, member_id).answer
        assert (answer.error_code, answer.member_id) == (unavailable, member_id)
    assert dead.send("c", ApiKey.SYNC_GROUP, 5, sync_fields("g", -1, "m")).answer.error_code == unavailable
    heartbeat = request(ApiKey.HEARTBEAT, heartbeat_fields("g", -1, "m"))
    assert dead.coordinator.heartbeat(heartbeat, 0) == unavailable
    assert dead.send("c", ApiKey.LEAVE_GROUP, 5, leave_fields("g", ("m", None))).answer.error_code == unavailable
    answer = dead.send("c", ApiKey.OFFSET_COMMIT, 8, commit_fields("g", [("t", 0, 0)])).answer
    assert answer.topics[0].partitions[0].error_code == unavailable
    answer = dead.send("c", ApiKey.OFFSET_DELETE, 0, {"group_id": "g"}).answer
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    described = dead.send("c", ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["g"]}).answer
    assert (described.groups[0].error_code, described.groups[0].group_state) == (0, "Dead")
