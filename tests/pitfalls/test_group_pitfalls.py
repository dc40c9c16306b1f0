"""Pitfalls 20 to 36: groups."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ottla.broker.settings import Settings
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.testing import Broker
from tests.pitfalls.conftest import Connect
from tests.support.client import Client, batch, fresh
from tests.wire.requests import SUBSCRIBED, TOPIC

SETTINGS = {"group.min.session.timeout.ms": 6000}
BY_NAME = [version for version in OffsetFetchRequest.versions if version <= 9]
OLD_JOINS, NEW_JOINS = range(4), range(4, 10)


def enter_together(group: str, *members: tuple[Client, str, dict[str, bytes]]) -> list[Any]:
    """All of these, who have their ids and nothing else, in one generation; their answers to the join.

    Without an initial delay the first is a generation of its own at once, however quickly the others follow. Ids that
    were given out and have not joined then hold the next one up until all are in.
    """
    (first, first_id, liked), *others = members
    first.start_join(group, member_id=first_id, protocols=liked)
    alone = first.answer()
    for client, member_id, protocols in others:
        client.start_join(group, member_id=member_id, protocols=protocols)
    first.await_rebalance(group, alone)
    first.start_join(group, member_id=first_id, protocols=liked)
    return [client.answer() for client, _, _ in members]


def two(connect: Connect, group: str) -> tuple[tuple[Client, Any], tuple[Client, Any]]:
    """A group of two that have joined and not yet synced; the first leads."""
    leader, other = connect(), connect()
    joined = leader.stable(group)
    other.start_enter(group)
    again, followed = leader.let_in(group, joined, other)
    return (leader, again), (other, followed)


@pytest.mark.parametrize("version", BY_NAME)
def test_pitfall_20_an_unknown_group_has_no_offsets_and_no_error(client: Client, version: int) -> None:
    told = client.committed(fresh("nobody"), client.topic(), version)
    assert (told.committed_offset, told.committed_leader_epoch, told.metadata, told.error_code) == (-1, -1, "", 0)


def test_pitfall_21_who_commits_without_a_member_id_makes_a_group_unless_it_has_members(
    client: Client, group: str
) -> None:
    topic = client.topic()
    assert client.commit(group, topic, 5, generation_id_or_member_epoch=-1, member_id="") == 0
    assert client.describe(group).group_state == "Empty"
    joined = client.stable(group)
    assert client.commit(group, topic, 6) == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.committed(group, topic).committed_offset == 5
    client.leave(group, joined.member_id)
    assert client.commit(group, topic, 6) == 0


def test_pitfall_22_a_newcomer_is_told_its_id_first_unless_it_is_old_or_static(client: Client) -> None:
    for version in NEW_JOINS:
        group = fresh("group")
        told = client.join(group, version)
        assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert told.member_id.startswith(f"{client.client_id}-")
        assert client.join(group, version, member_id=told.member_id).member_id == told.member_id
    for version in OLD_JOINS:
        assert client.join(fresh("group"), version).error_code == 0
    for version in range(5, 10):
        assert client.join(fresh("group"), version, instance="static").error_code == 0


def test_pitfall_23_the_leader_alone_is_told_who_is_in_with_bytes_as_they_came(connect: Connect, group: str) -> None:
    odd = {connect(): bytes(range(256)), connect(): b"", connect(): b"\xff\0\xff"}
    ids = {client: client.join(group, protocols={"range": data}).member_id for client, data in odd.items()}
    answers = enter_together(group, *[(client, ids[client], {"range": data}) for client, data in odd.items()])
    assert {answer.leader for answer in answers} == {answers[0].leader}
    assert answers[0].leader in ids.values()
    for client, answer in zip(odd, answers, strict=True):
        leads = answer.leader == ids[client]
        told = {member.member_id: member.metadata for member in answer.members}
        assert told == ({ids[each]: odd[each] for each in odd} if leads else {})


def test_pitfall_24_a_join_is_held_until_everybody_is_in_or_time_is_up(connect: Connect, group: str) -> None:
    assert Settings().group_initial_rebalance_delay_ms == 3000
    stays, comes = connect(), connect()
    joined = stays.stable(group, rebalance_ms=300)
    member_id = comes.start_enter(group, rebalance_ms=300)
    assert comes.is_silent(0.1), "the other one has not joined again"
    alone = comes.answer()
    assert [member.member_id for member in alone.members] == [member_id]
    assert stays.heartbeat(group, joined) == ErrorCode.UNKNOWN_MEMBER_ID
    delayed = Broker({"group.initial.rebalance.delay.ms": 400})
    with delayed as broker, Client(broker.port) as first, Client(broker.port) as second:
        first.start_enter(group)
        assert first.is_silent(0.05), "somebody else may come"
        second.start_enter(group)
        assert first.answer().generation_id == second.answer().generation_id == 1


@pytest.mark.parametrize(("session_ms", "is_fine"), [(5_999, False), (6_000, True), (1_800_000, True),
                                                     (1_800_001, False), (-1, False)])  # fmt: skip
def test_pitfall_25_sessions_have_bounds(client: Client, group: str, session_ms: int, is_fine: bool) -> None:
    told = client.enter(group, session_ms=session_ms).error_code
    assert told == (ErrorCode.NONE if is_fine else ErrorCode.INVALID_SESSION_TIMEOUT)
    defaults = Settings()
    assert defaults.group_min_session_timeout_ms == 6_000
    assert defaults.group_max_session_timeout_ms == 1_800_000


def test_pitfall_26_heartbeats_are_told_of_a_join_phase_and_not_of_a_sync_phase(connect: Connect, group: str) -> None:
    (leader, joined), (other, followed) = two(connect, group)
    assert leader.heartbeat(group, joined) == other.heartbeat(group, followed) == ErrorCode.NONE, "completing"
    other.start_sync(group, followed, {})
    leader.sync(group, joined, {})
    other.answer()
    assert leader.heartbeat(group, joined) == ErrorCode.NONE
    assert leader.heartbeat(group, joined, generation_id=1) == ErrorCode.ILLEGAL_GENERATION
    assert leader.heartbeat(group, joined, member_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert leader.heartbeat(fresh("nobody"), joined) == ErrorCode.UNKNOWN_MEMBER_ID
    connect().start_enter(group)
    leader.await_rebalance(group, joined)


def test_pitfall_27_a_storm_of_joins_loses_no_member(connect: Connect, group: str) -> None:
    troubles: list[Any] = []

    def churn(client: Client) -> None:
        member_id = client.join(group).member_id
        for _ in range(15):
            joined = client.join(group, member_id=member_id)
            members = {member.member_id: b"x" for member in joined.members}
            synced = client.sync(group, joined, members)
            if joined.error_code or synced.error_code not in (0, ErrorCode.REBALANCE_IN_PROGRESS):
                troubles.append((joined, synced))
        client.leave(group, member_id)

    threads = [threading.Thread(target=churn, args=(connect(),), daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert troubles == []


def test_pitfall_28_a_commit_during_a_rebalance(connect: Connect, group: str) -> None:
    client, comes = connect(), connect()
    topic = client.topic()
    joined = client.stable(group)
    mine = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
    comes.start_enter(group)
    client.await_rebalance(group, joined)
    assert client.commit(group, topic, 5, **mine) == 0, "preparing: what was read so far is committed"
    client.start_join(group, member_id=joined.member_id)
    again = client.answer()
    assert comes.answer().generation_id == again.generation_id == 2
    assert client.commit(group, topic, 6, **mine) == ErrorCode.ILLEGAL_GENERATION
    mine["generation_id_or_member_epoch"] = 2
    assert client.commit(group, topic, 6, **mine) == ErrorCode.REBALANCE_IN_PROGRESS, "completing"
    client.leave(group, joined.member_id)
    assert client.commit(group, topic, 6, **mine) == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.committed(group, topic).committed_offset == 5


def test_pitfall_29_a_static_member_that_comes_back_takes_its_place(connect: Connect, group: str) -> None:
    before, after = connect(), connect()
    joined = before.join(group, instance="one")
    assert before.sync(group, joined, {joined.member_id: b"mine"}).error_code == 0
    again = after.join(group, instance="one")
    assert (again.error_code, again.generation_id) == (0, joined.generation_id), "nobody rebalances"
    assert again.member_id != joined.member_id
    assert after.sync(group, again).assignment == b"mine"
    assert before.heartbeat(group, joined, group_instance_id="one") == ErrorCode.FENCED_INSTANCE_ID
    assert after.heartbeat(group, again, group_instance_id="one") == 0
    assert [member.member_id for member in after.describe(group).members] == [again.member_id]


def test_pitfall_30_a_member_that_gave_partitions_up_starts_another_generation(connect: Connect, group: str) -> None:
    (leader, joined), (other, followed) = two(connect, group)
    ids = joined.member_id, followed.member_id
    for generation, owned in enumerate((b"\0\2 owns 0 and 1", b"\0\2 owns 0"), 3):
        other.start_sync(group, followed, {})
        leader.sync(group, joined, dict.fromkeys(ids, b"x"))
        other.answer()
        changed = {"cooperative-sticky": owned}
        other.start_join(group, member_id=ids[1], protocols={"range": owned} | changed)
        joined, followed = leader.let_in(group, joined, other)
        assert joined.generation_id == followed.generation_id == generation
        assert {member.member_id: member.metadata for member in joined.members}[ids[1]] == owned


def test_pitfall_31_members_vote_for_what_all_of_them_can(connect: Connect, group: str) -> None:
    first, second, third = connect(), connect(), connect()
    likes = [("a", b"1"), ("b", b"1"), ("c", b"1")], [("c", b"2"), ("b", b"2")], [("b", b"3"), ("c", b"3")]
    ids = [client.join(group, protocols=dict(liked)).member_id
           for client, liked in zip((first, second, third), likes, strict=True)]  # fmt: skip
    rows = zip((first, second, third), ids, [dict(liked) for liked in likes], strict=True)
    joined, *_ = answers = enter_together(group, *rows)
    assert {answer.protocol_name for answer in answers} == {"b"}, "a is not everybody's, and c has one vote"
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    stranger = connect()
    assert stranger.enter(group, protocols={"z": b""}).error_code == inconsistent
    assert stranger.enter(group, protocols={}).error_code == inconsistent
    assert stranger.enter(group, protocol_type="connect", protocols={"b": b""}).error_code == inconsistent
    assert stranger.enter(fresh("group"), protocols={}).error_code == inconsistent
    named = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
    for wrong in (
        {"protocol_type": "connect", "protocol_name": "b"},
        {"protocol_type": "consumer", "protocol_name": "c"},
        {"protocol_type": None, "protocol_name": None},
    ):
        assert first.call(ApiKey.SYNC_GROUP, 5, **named, **wrong).error_code == inconsistent
    leader = next(client for client, answer in zip((first, second, third), answers, strict=True) if answer.members)
    mine = next(answer for answer in answers if answer.members)
    told = leader.sync(group, mine, dict.fromkeys(ids, b""))
    assert (told.error_code, told.protocol_type, told.protocol_name) == (0, "consumer", "b")


def test_pitfall_32_leaving_is_a_batch_from_version_3_on(connect: Connect, group: str) -> None:
    (client, joined), (_, followed) = two(connect, group)
    told = client.leave(group, followed.member_id, "nobody", version=3)
    assert told.error_code == 0
    assert [(member.member_id, member.error_code) for member in told.members] == [
        (followed.member_id, 0),
        ("nobody", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    for version in (0, 1, 2):
        told = client.leave(group, "nobody", version=version)
        assert (told.error_code, told.members) == (ErrorCode.UNKNOWN_MEMBER_ID, [])
    assert client.leave(group, joined.member_id, version=0).error_code == 0
    assert client.describe(group).group_state == "Empty"


def test_pitfall_33_groups_are_listed_by_state_and_type(connect: Connect) -> None:
    stable, empty, completing, preparing = groups = [fresh("listed") for _ in range(4)]
    client = connect()
    client.stable(stable)
    client.leave(empty, client.stable(empty).member_id)
    client.enter(completing)
    joined = client.stable(preparing)
    connect().start_enter(preparing)
    client.await_rebalance(preparing, joined)

    def listed(version: int = 5, **filters: list[str]) -> dict[str, str]:
        rows = client.call(ApiKey.LIST_GROUPS, version, **filters).groups
        assert {row.group_type for row in rows} <= {"classic" if version >= 5 else ""}
        return {row.group_id: row.group_state for row in rows if row.group_id in groups}

    states = ["Stable", "Empty", "CompletingRebalance", "PreparingRebalance"]
    everything = dict(zip(groups, states, strict=True))
    assert listed() == listed(types_filter=["classic"]) == everything
    assert listed(version=3) == dict.fromkeys(groups, "")
    for group, state in everything.items():
        assert listed(version=4, states_filter=[state]) == listed(states_filter=[state]) == {group: state}
    assert listed(types_filter=["consumer"]) == listed(states_filter=["Dead"]) == {}
    nobody = fresh("nobody")
    for version in range(6):
        told = client.describe(nobody, version)
        assert (told.group_state, told.error_code, told.members) == ("Dead", 0, [])
    told = client.describe(nobody, 6)
    assert (told.group_state, told.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert told.error_message


def test_pitfall_34_groups_in_use_are_not_deleted_nor_are_offsets_in_use(client: Client, group: str) -> None:
    client.create(TOPIC, 2)
    joined = client.stable(group, protocols={"range": SUBSCRIBED})

    def deleted(*names: str) -> list[int]:
        rows = client.call(ApiKey.DELETE_GROUPS, 2, groups_names=list(names)).results
        return [row.error_code for row in rows]

    def offsets_deleted() -> tuple[int, list[int]]:
        topics = [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
        told = client.call(ApiKey.OFFSET_DELETE, 0, group_id=group, topics=topics)
        return told.error_code, [place.error_code for row in told.topics for place in row.partitions]

    client.commit(group, TOPIC, 5, generation_id_or_member_epoch=1, member_id=joined.member_id)
    assert deleted(group) == [ErrorCode.NON_EMPTY_GROUP]
    assert deleted(fresh("nobody")) == [ErrorCode.GROUP_ID_NOT_FOUND]
    assert offsets_deleted() == (0, [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC])
    assert client.committed(group, TOPIC).committed_offset == 5
    client.leave(group, joined.member_id)
    assert offsets_deleted() == (0, [0])
    assert client.committed(group, TOPIC).committed_offset == -1
    assert deleted(group) == [0]


@pytest.mark.parametrize("version", range(7))
def test_pitfall_35_the_coordinator_is_the_broker_that_metadata_names(client: Client, version: int) -> None:
    assert client.join("").error_code == ErrorCode.INVALID_GROUP_ID
    (node,) = client.metadata().brokers
    for key_type in (0, 1) if version else (0,):
        keys = ["one", "two"]
        told = client.call(ApiKey.FIND_COORDINATOR, version, key="one", key_type=key_type, coordinator_keys=keys)
        found = told.coordinators if version >= 4 else [told]
        assert [row.key for row in told.coordinators] == (keys if version >= 4 else [])
        for row in found:
            assert (row.error_code, row.node_id, row.host, row.port) == (0, node.node_id, node.host, node.port)


def test_pitfall_36_the_topic_of_offsets_is_shown_as_internal_and_cannot_be_written(client: Client) -> None:
    plain = client.topic()
    told = {topic.name: topic for topic in client.metadata().topics}
    internal = told["__consumer_offsets"]
    assert (internal.is_internal, internal.error_code, len(internal.partitions)) == (True, 0, 50)
    assert not told[plain].is_internal
    before = client.offset("__consumer_offsets").offset
    for acks in (1, -1):
        refused = client.produce("__consumer_offsets", batch(b"x"), acks=acks)
        assert refused.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert client.offset("__consumer_offsets").offset == before
