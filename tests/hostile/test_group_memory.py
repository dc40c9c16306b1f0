"""What members, groups and transactional ids keep for clients that say as much as they may."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.core.invariants import check
from tests.core.transactions.txn_world import World as Transactions
from tests.core.world import Ctx, World
from tests.hostile.victim import Victim
from tests.support.client import Client
from tests.support.waiting import wait_for

MIB = 1 << 20


def world(**config: int) -> World:
    made = World(GroupConfig(group_initial_rebalance_delay_ms=0, **config), 3)
    made.load()
    return made


def join(
    world: World, client: str, size: int, *, group: str = "g", member_id: str = "", instance: str | None = None
) -> Ctx:
    """Join with so much metadata, as a client of version 3 or, with an instance id, 5: a member at once."""
    asked = world.ask(
        client,
        "join",
        JoinGroupRequest(
            group_id=group,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(size))],
        ),
        3 if instance is None else 5,
    )
    check(world.coordinator, world.now_ms)
    return asked


def stable(world: World, group: str, assignment: int) -> ErrorCode:
    """The only member of a group brings its assignment; the error."""
    joined = join(world, "c", 0, group=group)
    world.advance_to(world.now_ms + 1)
    answer = joined.answer
    request = SyncGroupRequest(group_id=group, generation_id=1, member_id=answer.member_id)
    request.assignments = [SyncGroupRequestAssignment(member_id=answer.member_id, assignment=bytes(assignment))]
    told = world.ask("c", "sync", request, 3).answer
    check(world.coordinator, world.now_ms)
    return ErrorCode(told.error_code)


def test_metadata_of_a_group_is_bounded() -> None:
    w = world(group_max_bytes=8 * MIB)
    answers = [join(w, f"c{number}", MIB).answer for number in range(20)]
    refused = [answer for answer in answers if answer is not None]
    assert {answer.error_code for answer in refused} == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert len(refused) == 13
    assert w.coordinator.groups["g"].held_bytes <= 8 * MIB
    assert join(w, "c", MIB, group="other").answer is None, "another group has its own"


def test_a_member_cannot_grow_beyond_it_and_stays_what_it_was() -> None:
    w = world(group_max_bytes=MIB)
    first = join(w, "c", 1_000, instance="i")
    w.advance_to(1)
    member_id = first.answer.member_id
    for again in (join(w, "c", MIB, member_id=member_id), join(w, "c", MIB, instance="i")):
        assert again.answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert w.coordinator.groups["g"].members[member_id].protocols == (("range", bytes(1_000)),)
    assert join(w, "c", 900, instance="i").answer.error_code == ErrorCode.NONE, "less is welcome"


def test_all_groups_are_bounded_together() -> None:
    w = world(groups_max_bytes=8 * MIB)
    answers = [join(w, "c", MIB // 2, group=f"g{number}").answer for number in range(40)]
    assert [answer is None for answer in answers] == [True] * 15 + [False] * 25
    assert {answer.error_code for answer in answers[15:]} == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert w.coordinator.held_bytes <= 8 * MIB
    assert len(w.coordinator.groups) == 15, "a group that nobody could join is not kept"


def test_members_that_go_make_room() -> None:
    w = world(groups_max_bytes=MIB)
    assert join(w, "c", MIB * 3 // 4).answer is None
    assert join(w, "c", MIB // 2, group="other").answer is not None
    w.advance_to(60_000)  # its session is over
    assert join(w, "c", MIB // 2, group="other").answer is None


def test_groups_that_nobody_joins_count_with_their_names() -> None:
    w = world(groups_max_bytes=MIB)
    for number in range(100):
        join(w, "c", 0, group=f"{number}" + "x" * 32_000)
    assert len(w.coordinator.groups) < 40
    assert w.coordinator.held_bytes <= MIB


def test_assignments_count() -> None:
    w = world(groups_max_bytes=4 * MIB)
    errors = [stable(w, f"g{number}", MIB) for number in range(6)]
    assert errors == [ErrorCode.NONE] * 3 + [ErrorCode.GROUP_MAX_SIZE_REACHED] * 3


def test_members_do_not_wait_for_ever_for_assignments_that_were_refused() -> None:
    w = world(group_max_bytes=MIB)
    joined = [join(w, name, 0) for name in ("leader", "other")]
    w.advance_to(1)
    leader, other = (each.answer for each in joined)
    synced = SyncGroupRequest(group_id="g", generation_id=1, member_id=other.member_id)
    waiting = w.ask("other", "sync", synced, 3)
    synced = SyncGroupRequest(group_id="g", generation_id=1, member_id=leader.member_id)
    synced.assignments = [SyncGroupRequestAssignment(member_id=leader.member_id, assignment=bytes(2 * MIB))]
    assert w.ask("leader", "sync", synced, 3).answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    w.advance_to(20_000)
    for member_id in (leader.member_id, other.member_id):
        w.coordinator.heartbeat(HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id), w.now_ms)
    w.advance_to(31_000)  # the rebalance timeout is over; the leader is heard of and has brought nothing
    check(w.coordinator, w.now_ms)
    assert waiting.answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(w.coordinator.groups["g"].members) == {other.member_id}


def test_a_commit_makes_no_group_where_there_is_no_room() -> None:
    w = world(groups_max_bytes=MIB)
    errors = []
    for number in range(60):
        place = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        request = OffsetCommitRequest(group_id=f"{number}" + "x" * 32_000)
        request.topics = [OffsetCommitRequestTopic(name="t", partitions=[place])]
        errors.append(w.ask("c", "commit_offsets", request, 8).answer.topics[0].partitions[0].error_code)
    assert set(errors[:20]) == {ErrorCode.NONE}
    assert set(errors[40:]) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}


def test_what_is_loaded_counts() -> None:
    w = world(groups_max_bytes=4 * MIB)
    assert stable(w, "g", MIB) is ErrorCode.NONE
    before = w.coordinator.held_bytes
    w.restart()
    assert w.coordinator.held_bytes == before
    for partition in range(3):
        w.coordinator.unload(partition, w.now_ms, w.wall_ms)
    assert w.coordinator.held_bytes == 0


def transactions(max_bytes: int) -> Transactions:
    made = Transactions(Settings(ottla_transactional_ids_max_bytes=max_bytes))
    made.load()
    return made


def test_transactional_ids_are_bounded() -> None:
    w = transactions(100_000)
    errors = [w.init(f"{number}" + "x" * 32_000).error_code for number in range(5)]
    assert errors == [ErrorCode.NONE] * 3 + [ErrorCode.POLICY_VIOLATION] * 2
    assert w.init("0" + "x" * 32_000).error_code == ErrorCode.NONE, "whoever is there goes on"
    w.advance_to(8 * 86_400_000)
    assert w.init("y" * 32_000).error_code == ErrorCode.NONE, "ids that expired make room"


def test_partitions_of_transactions_are_bounded() -> None:
    w = transactions(1_100 + 256)
    answer = w.init("x")
    producer = answer.producer_id, answer.producer_epoch
    assert w.add("x", producer, [("t", 0), ("t", 1)]) == [ErrorCode.POLICY_VIOLATION] * 2
    assert w.add("x", producer, [("t", 0)]) == [ErrorCode.NONE]


@pytest.mark.e2e
def test_a_leaders_answer_of_200_mb() -> None:
    """Of 200 members with 1 MB of metadata each; a smaller bound than the default, and as many more than it admits."""
    protocols = [("range", bytes(MIB))]
    with Victim(settings={"ottla.group.max.bytes": 8 * MIB}) as victim, ExitStack() as members:
        honest = members.enter_context(Client(victim.port))
        honest.join("other")
        wait_for(lambda: "Ready" in victim.log_text(), "the first line of the log, with what it is written with")
        victim.forget_peak()
        before = victim.peak_bytes()
        for _ in range(7):
            guest = members.enter_context(Client(victim.port, "guest"))
            guest.describe("g")  # the first request of a connection has to be short
            guest.start_join("g", 3, protocols=protocols)
        deadline = time.monotonic() + 20
        while len(honest.describe("g").members) < 7:
            assert time.monotonic() < deadline
        with Client(victim.port, "guest") as guest:
            guest.describe("g")
            errors = {guest.join("g", 3, protocols=protocols).error_code for _ in range(80)}
        grown = victim.peak_bytes() - before
    assert errors == {ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert grown < 50 * MIB
