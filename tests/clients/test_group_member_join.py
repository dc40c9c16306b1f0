"""A member's way into a generation, by scripted answers; and what crosses it: pauses, late answers, changes of mind."""

from typing import Any

import pytest

from ottla.clients.errors import FencedInstance, KafkaConnectionError, KafkaError, KafkaTimeout, UnsupportedByBroker
from ottla.clients.group_effects import Fail, FindCoordinator, Lead, MemberState, Prepare, Send
from ottla.protocol.consumer_protocol import decode_assignment
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.protocol.records import TopicPartition
from tests.clients.member_script import T0, T1, Script, subscription, subscriptions


@pytest.fixture
def s() -> Script:
    """A new member that has sent JoinGroup."""
    return Script().joining()


def test_a_follower_from_nothing_to_stable() -> None:
    s = Script(strategy=["range", "roundrobin"], client_rack="r1")
    s.subscribe("t", "a")
    assert s.member.state is MemberState.UNJOINED
    s.found(7)
    join = s.join()
    assert s.member.state is MemberState.PREPARING_REBALANCE
    assert (join.group_id, join.member_id, join.protocol_type) == ("g", "", "consumer")
    assert (join.session_timeout_ms, join.rebalance_timeout_ms) == (10_000, 60_000)
    assert s.send.timeout_ms == 65_000, "the broker may hold it back for the rebalance timeout"
    assert join.reason == "the consumer subscribes"
    assert list(subscriptions(join)) == ["range", "roundrobin"]
    for one in subscriptions(join).values():
        assert (one.topics, one.owned_partitions, one.generation_id, one.rack_id) == (["a", "t"], [], -1, "r1")

    s.joined(4, member_id="m1")
    assert s.member.state is MemberState.COMPLETING_REBALANCE
    sync = s.sent(SyncGroupRequest)
    assert (sync.group_id, sync.generation_id, sync.member_id, sync.assignments) == ("g", 4, "m1", [])
    assert (sync.protocol_type, sync.protocol_name) == ("consumer", "range")

    s.answer(SyncGroupResponse(assignment=b""))
    assert s.member.state is MemberState.STABLE
    complete = s.completed()
    assert (complete.partitions, complete.generation_id, complete.protocol_name) == ([], 4, "range")
    s.nothing()
    assert s.member.identity().generation_id == 4


def test_the_id_that_is_required_is_used_at_once(s: Script) -> None:
    """KIP-394: no pause, no second preparation."""
    s.answer(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m9"))
    join = s.sent(JoinGroupRequest)
    assert join.member_id == "m9"
    assert join.reason == "need to re-join with the given member-id: m9"
    s.joined(1, member_id="m9")
    s.synced(T0)
    assert s.completed().partitions == [T0]


def test_a_leader_divides() -> None:
    s = Script().joining("t")
    s.answer(
        JoinGroupResponse(
            generation_id=2,
            protocol_name="range",
            leader="m1",
            member_id="m1",
            members=[
                JoinGroupResponseMember(member_id="m1", metadata=subscription("t")),
                JoinGroupResponseMember(member_id="m2", metadata=subscription("u"), group_instance_id="i"),
            ],
        )
    )
    lead = s.one(Lead)
    assert (lead.protocol_name, lead.topics) == ("range", {"t", "u"})
    assert {m: (list(one.topics), one.group_instance_id) for m, one in lead.members.items()} == {
        "m1": (["t"], None),
        "m2": (["u"], "i"),
    }
    assert s.member.watched_topics == {"t", "u"}
    s.member.led({"m1": [T0, T1], "m2": []}, {"t": 2, "u": None}, s.now)
    sync = s.sent(SyncGroupRequest)
    sent = {
        one.member_id: [(t.topic, t.partitions) for t in decode_assignment(one.assignment).assigned_partitions]
        for one in sync.assignments
    }
    assert sent == {"m1": [("t", [0, 1])], "m2": []}
    assert all(one.assignment[:2] == b"\x00\x00" for one in sync.assignments), "version 0 is read by everybody"


def test_heartbeats_go_on_while_the_leader_divides(s: Script) -> None:
    s.joined(1, leader=True)
    s.one(Lead)
    assert s.after(3_000, HeartbeatRequest).generation_id == 1


def test_a_static_leader_that_came_back_need_not_divide() -> None:
    """KIP-814: the assignment stands, but the partitions are watched."""
    s = Script(group_instance_id="i").joining()
    s.joined(3, leader=True, skip_assignment=True)
    assert s.sent(SyncGroupRequest).assignments == []
    s.answer(SyncGroupResponse())
    s.completed()
    s.member.partition_counts_changed({"t": 2}, s.now)
    s.nothing()
    s.member.partition_counts_changed({"t": 3}, s.now)
    s.one(Prepare)


def test_no_heartbeats_before_a_generation_nor_behind_a_sync(s: Script) -> None:
    s.quiet(30_000)
    s.syncing()
    s.quiet(20_000)
    assert s.member.coordinator == 1, "no session ends while the broker holds the answer back"


def test_sticky_members_tell_what_they_hold() -> None:
    s = Script("cooperative-sticky").stable(T0, T1)
    s.member.request_rejoin("why not", s.now)
    told = subscriptions(s.join([T0, T1]))["cooperative-sticky"]
    assert [(o.topic, o.partitions) for o in told.owned_partitions] == [("t", [0, 1])]
    assert told.generation_id == 1


def test_something_revoked_means_joining_again() -> None:
    """The second rebalance of a cooperative change: what was given up is free only then."""
    s = Script("cooperative-sticky").stable(T0, T1)
    s.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    s.join([T0, T1])
    s.joined(2)
    s.synced(T0)
    assert s.completed(revoked=True).partitions == [T0]
    join = s.join([T0])
    assert join.reason == "need to revoke partitions and re-join"
    assert [(o.topic, o.partitions) for o in subscriptions(join)["cooperative-sticky"].owned_partitions] == [("t", [0])]


# errors of JoinGroup and SyncGroup


@pytest.mark.parametrize("at_sync", [False, True], ids=["join", "sync"])
@pytest.mark.parametrize(
    ("code", "member_id"),
    [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m1")],
    ids=["unknown", "illegal"],
)
def test_a_lost_membership_is_begun_anew(at_sync: bool, code: ErrorCode, member_id: str) -> None:
    s = Script().stable(T0)
    s.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    s.join()
    s.refused(at_sync, code)
    join = s.sent(JoinGroupRequest)
    assert join.member_id == member_id
    assert subscriptions(join)["range"].generation_id == -1
    assert s.member.lost


def test_another_rebalance_during_sync_means_joining_at_once() -> None:
    s = Script().stable()
    s.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    s.join()
    s.refused(True, ErrorCode.REBALANCE_IN_PROGRESS)
    join = s.sent(JoinGroupRequest)
    assert (join.member_id, subscriptions(join)["range"].generation_id) == ("m1", 2)


@pytest.mark.parametrize("at_sync", [False, True], ids=["join", "sync"])
@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT])
def test_what_passes_is_tried_again_after_a_pause(s: Script, at_sync: bool, code: ErrorCode) -> None:
    for pause in (100, 200, 400, 400):
        s.refused(at_sync, code)
        s.nothing()
        s.quiet(pause - 1)
        s.after(1, JoinGroupRequest)


@pytest.mark.parametrize("at_sync", [False, True], ids=["join", "sync"])
@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_looked_up(s: Script, at_sync: bool, code: ErrorCode) -> None:
    s.refused(at_sync, code)
    assert s.looked_for().node_id == 1
    s.member.coordinator_found(2, s.now)
    s.nothing()
    assert s.after(100, JoinGroupRequest).member_id == ("m1" if at_sync else "")


@pytest.mark.parametrize("at_sync", [False, True], ids=["join", "sync"])
@pytest.mark.parametrize("error", [KafkaConnectionError("broke"), KafkaTimeout("late")], ids=["broken", "late"])
def test_a_broken_connection_is_a_lost_coordinator(s: Script, at_sync: bool, error: KafkaError) -> None:
    if at_sync:
        s.syncing()
    s.no_answer(error)
    s.looked_for()
    s.member.coordinator_found(1, s.now)
    s.after(100, JoinGroupRequest)


@pytest.mark.parametrize("at_sync", [False, True], ids=["join", "sync"])
@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_the_user_must_know_is_raised_and_tried_again_when_it_comes_back(
    s: Script, at_sync: bool, code: ErrorCode
) -> None:
    s.refused(at_sync, code)
    assert s.one(Fail).error.code is code
    assert s.member.state is MemberState.UNJOINED
    s.quiet(100_000)
    s.member.resume(s.now)
    s.sent(JoinGroupRequest)


@pytest.mark.parametrize("at_sync", [False, True], ids=["join", "sync"])
def test_a_fenced_instance_is_fenced_for_good(at_sync: bool) -> None:
    s = Script(group_instance_id="i").joining()
    s.refused(at_sync, ErrorCode.FENCED_INSTANCE_ID)
    assert isinstance(s.one(Fail).error, FencedInstance)
    s.member.resume(s.now)
    s.quiet(100_000)
    with pytest.raises(FencedInstance):
        s.member.identity()


@pytest.mark.parametrize(
    "answer",
    [{"protocol_name": "best", "leader": "o"}, {"protocol_type": "connect", "protocol_name": "range"}],
    ids=["an assignor that the member does not have", "a group of another kind"],
)
def test_a_group_that_does_not_fit_is_refused(answer: dict[str, str]) -> None:
    s = Script("range").joining()
    s.answer(JoinGroupResponse(generation_id=1, member_id="m1", **answer))
    assert s.one(Fail).error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("where", ["metadata", "assignment"])
def test_unreadable_bytes_of_others_are_told(s: Script, where: str) -> None:
    if where == "metadata":
        bad = [JoinGroupResponseMember(member_id="m1", metadata=b"\x00\x01\x00\x00\x00\x09")]
        s.answer(JoinGroupResponse(protocol_name="range", generation_id=1, leader="m1", member_id="m1", members=bad))
        assert "subscription of 'm1'" in str(s.one(Fail).error)
    else:
        s.syncing()
        s.answer(SyncGroupResponse(assignment=b"\x00\x00\x00\x00\x00\x09"))
        assert "assignment" in str(s.one(Fail).error)


def test_a_failing_assignor_is_told(s: Script) -> None:
    s.joined(1, leader=True)
    s.one(Lead)
    s.member.lead_failed(KafkaError("the assignor failed"), s.now)
    assert "assignor" in str(s.one(Fail).error)


def test_an_assignment_of_topics_not_subscribed_to_is_not_taken() -> None:
    s = Script().joining("t")
    s.joined(1)
    s.synced(TopicPartition("u", 0))
    assert "assigned u without a subscription" in s.sent(JoinGroupRequest).reason


# what is late counts no more


def test_an_answer_to_an_abandoned_join_is_ignored(s: Script) -> None:
    old = s.send
    s.no_answer()
    s.effects()
    s.member.coordinator_found(1, s.now)
    s.after(100, JoinGroupRequest)
    answer: Any = JoinGroupResponse(generation_id=9, protocol_name="range", leader="o", member_id="old")
    s.member.answered(old.sent, answer, s.now)
    s.nothing()
    assert (s.member.generation_id, s.member.state) == (-1, MemberState.PREPARING_REBALANCE)


def test_a_subscription_that_changes_while_joining_is_joined_with_next() -> None:
    s = Script().joining("t")
    s.subscribe("t", "u")
    s.nothing()
    s.enter(1, T0)
    join = s.join()
    assert (subscriptions(join)["range"].topics, join.reason) == (["t", "u"], "the subscription changed")


def test_a_long_reason_is_cut() -> None:
    s = Script().stable()
    assert len(s.rejoins("x" * 300).reason) == 255


def test_subscribing_to_the_same_again_changes_nothing() -> None:
    s = Script().stable()
    s.subscribe("t")
    s.nothing()


def test_requests_go_out_in_the_name_of_the_member() -> None:
    s = Script(group_instance_id="i").stable()
    beat = s.beats()
    assert (beat.group_id, beat.generation_id, beat.member_id, beat.group_instance_id) == ("g", 1, "m1", "i")
    sent = [effect.request for effect in s.log if isinstance(effect, Send)]
    assert all(getattr(request, "group_instance_id", "i") == "i" for request in sent)


# pauses


def test_a_pause_before_a_lookup_is_kept_whatever_happens() -> None:
    s = Script()
    s.subscribe()
    s.effects()
    s.member.coordinator_not_found(KafkaError("no", ErrorCode.COORDINATOR_NOT_AVAILABLE), s.now)
    s.member.entered_poll(s.now)
    s.subscribe("t", "u")
    s.nothing()
    s.wait(100)
    s.one(FindCoordinator)


def test_pauses_begin_small_again_after_a_success(s: Script) -> None:
    for pause in (100, 200):
        s.answer(JoinGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
        s.after(pause, JoinGroupRequest)
    s.enter(1)
    s.rejoins()
    s.answer(JoinGroupResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    s.after(100, JoinGroupRequest)


def test_a_join_during_another_rebalance_is_tried_again_after_a_pause(s: Script) -> None:
    s.answer(JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert s.member.state is MemberState.UNJOINED
    s.nothing()
    s.after(100, JoinGroupRequest)


def test_a_user_that_comes_back_at_once_after_an_error_waits_for_the_pause(s: Script) -> None:
    s.answer(JoinGroupResponse(error_code=ErrorCode.GROUP_MAX_SIZE_REACHED))
    s.one(Fail)
    s.member.resume(s.now)
    s.nothing()
    s.after(100, JoinGroupRequest)


def test_the_session_counts_from_the_assignment(s: Script) -> None:
    s.syncing()
    s.wait(9_000)
    s.answer(SyncGroupResponse())
    s.completed()
    s.at(s.now)
    s.sent(HeartbeatRequest)
    s.quiet(9_999)
    assert s.member.coordinator == 1


# crossings


def test_a_commit_that_ends_the_membership_while_joining_begins_anew() -> None:
    s = Script().stable(T0)
    committed_as = s.member.identity()
    s.rejoins()
    old = s.send
    s.member.membership_refused(ErrorCode.UNKNOWN_MEMBER_ID, committed_as, "commit", s.now)
    join = s.sent(JoinGroupRequest)
    assert (join.member_id, join.reason) == ("", "commit failed: unknown member id")
    s.member.answered(old.sent, JoinGroupResponse(generation_id=2, protocol_name="range", member_id="m1"), s.now)
    s.nothing()
    s.joined(3, member_id="m2")
    assert s.member.member_id == "m2"


def test_the_end_of_an_old_connection_does_not_disturb_the_new_one(s: Script) -> None:
    old = s.send
    s.no_answer()
    s.effects()
    s.member.coordinator_found(2, s.now)
    s.after(100, JoinGroupRequest)
    s.member.not_answered(old.sent, KafkaConnectionError("the old one"), s.now)
    s.nothing()
    assert s.member.coordinator == 2
    s.joined(1)
    old = s.send
    s.sent(SyncGroupRequest)
    s.member.answered(old.sent, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), s.now)
    s.nothing()


@pytest.mark.parametrize("at_sync", [False, True], ids=["join", "sync"])
def test_a_broker_that_cannot_is_told(s: Script, at_sync: bool) -> None:
    if at_sync:
        s.syncing()
    s.no_answer(UnsupportedByBroker("no version in common"))
    assert s.one(Fail).error.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_leader_that_becomes_a_follower_watches_no_more(s: Script) -> None:
    s.lead({"t": 1})
    s.rejoins()
    s.member.partition_counts_changed({"t": 2}, s.now)
    assert not s.member.rejoin_needed
    s.enter(2)
    s.member.partition_counts_changed({"t": 3}, s.now)
    s.nothing()
