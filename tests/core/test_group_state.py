"""The table of states, and what a group does when it is used as it must not be."""

from __future__ import annotations

import itertools

import pytest

from ottla.broker.core.coordination.shard import Shard
from ottla.broker.core.groups.classic.group import Group
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
from ottla.broker.core.groups.committed import CommittedOffsets
from ottla.broker.core.groups.config import GroupConfig
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest
from tests.core.world import World, join

LEGAL = {
    (EMPTY, PREPARING_REBALANCE),
    (COMPLETING_REBALANCE, PREPARING_REBALANCE),
    (STABLE, PREPARING_REBALANCE),
    (PREPARING_REBALANCE, COMPLETING_REBALANCE),
    (PREPARING_REBALANCE, EMPTY),
    (COMPLETING_REBALANCE, STABLE),
    *((state, DEAD) for state in GroupState),
}


def group_in(state: GroupState) -> Group:
    group = Group("g", Shard(0), CommittedOffsets(), 0)
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
    sync = SyncGroupRequest(group_id="g", member_id="m", protocol_type="consumer", protocol_name="range")
    assert dead.ask("c", "sync", sync, 5).answer.error_code == unavailable
    heartbeat = HeartbeatRequest(group_id="g", member_id="m")
    assert dead.coordinator.heartbeat(heartbeat, 0) == unavailable
    leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")])
    assert dead.ask("c", "leave", leave, 5).answer.error_code == unavailable
    topic = OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition()])
    commit = OffsetCommitRequest(group_id="g", topics=[topic])
    answer = dead.ask("c", "commit_offsets", commit, 8).answer
    assert answer.topics[0].partitions[0].error_code == unavailable
    delete = OffsetDeleteRequest(group_id="g")
    assert dead.ask("c", "delete_offsets", delete, 0).answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    described = dead.ask("c", "describe_groups", DescribeGroupsRequest(groups=["g"]), 5).answer
    assert (described.groups[0].error_code, described.groups[0].group_state) == (0, "Dead")
