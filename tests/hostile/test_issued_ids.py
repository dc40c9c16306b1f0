"""Joins that never come back with the member id that they were issued (KIP-394)."""

from __future__ import annotations

import pytest

from ottla.broker.core.groups.config import GroupConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.sync_group import SyncGroupRequest
from tests.core.invariants import check
from tests.core.world import Ctx, World
from tests.hostile.victim import Victim
from tests.support.client import Client
from tests.support.requests import join_fields, request

JOINS = 2_500
LONGEST_ID = "x" * 32_700


def world(**config: int) -> World:
    made = World(GroupConfig(group_initial_rebalance_delay_ms=0, **config), 3)
    made.load()
    return made


def join(world: World, client: str, group: str = "g", member_id: str = "", session_ms: int = 1_800_000) -> Ctx:
    asked = world.ask(
        client,
        "join",
        JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        5,
    )
    check(world.coordinator, world.now_ms)
    return asked


def issued(world: World, client: str, group: str = "g") -> str:
    answer = join(world, client, group).answer
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return str(answer.member_id)


def test_of_too_many_the_oldest_is_void() -> None:
    w = world(group_max_issued_ids=3)
    ids = [issued(w, f"c{number}") for number in range(5)]
    assert list(w.coordinator.groups["g"].pending_members) == ids[2:]
    assert join(w, "c0", member_id=ids[0]).answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert join(w, "c2", member_id=ids[2]).answer is None, "one that is kept joins"
    assert ids[2] in w.coordinator.groups["g"].members


def test_bytes_of_all_groups_count_and_each_pays_for_itself() -> None:
    w = world(groups_max_issued_bytes=100_000)
    honest = issued(w, "honest", "other")
    for _ in range(200):
        issued(w, LONGEST_ID)
    m = w.coordinator
    assert m.issued_bytes <= 100_000
    assert len(m.groups["g"].pending_members) == 2
    assert join(w, "honest", "other", honest).answer is None, "another group has lost nothing"


def test_many_groups_are_bounded_together() -> None:
    w = world(groups_max_issued_bytes=100_000)
    for number in range(50):
        issued(w, LONGEST_ID, f"g{number}")
    m = w.coordinator
    assert m.issued_bytes <= 100_000
    assert [group.group_id for group in m.groups.values() if group.pending_members] == ["g47", "g48", "g49"]


def test_a_barrier_does_not_wait_for_an_id_that_was_given_up() -> None:
    w = world(groups_max_issued_bytes=100_000)
    member_id = issued(w, "honest", "other")
    waits = join(w, "honest", "other", member_id)
    w.advance_to(1)
    leader = SyncGroupRequest(group_id="other", generation_id=1, member_id=member_id, protocol_type="consumer")
    leader.protocol_name = "range"
    assert waits.answer is not None and w.ask("honest", "sync", leader, 5).answer.error_code == ErrorCode.NONE
    issued(w, LONGEST_ID, "other")
    again = join(w, "honest", "other", member_id)
    assert again.answer is None, "the leader rejoins, and an id is outstanding"
    for number in range(3):
        issued(w, LONGEST_ID, f"g{number}")
    assert again.answer is not None and again.answer.error_code == ErrorCode.NONE
    assert again.answer.generation_id == 2


def test_time_and_use_make_room() -> None:
    w = world()
    for number in range(3):
        joined = join(w, "c", member_id=issued(w, "c"))
        issued(w, "c", f"other{number}")
        assert joined.answer is None
    w.advance_to(2_000_000)
    assert w.coordinator.issued_bytes == 0 == len(w.coordinator.issued)


@pytest.mark.e2e
def test_what_ten_thousand_joins_cost() -> None:
    """A quarter of them: the rest would cost nothing more."""
    with Victim(settings={"ottla.recorder.memory.bytes": 0}) as victim, Client(victim.port, LONGEST_ID) as guest:
        frame = guest.frame(ApiKey.JOIN_GROUP, 7, request(ApiKey.JOIN_GROUP, join_fields("g", session_ms=1_800_000)))
        guest.join("g")
        victim.forget_peak()
        before = victim.peak_bytes()
        with victim.calm() as felt:
            for _ in range(JOINS):
                guest.raw(frame)
                guest.next_frame()
        assert victim.peak_bytes() - before < 60 << 20
    assert felt.p99_ms < 250
