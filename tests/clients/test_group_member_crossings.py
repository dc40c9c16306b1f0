"""Events that cross a member's way into a generation: pauses, late answers, changes of mind."""

from typing import Any

import pytest

from ottla.clients.errors import KafkaConnectionError, KafkaError, UnsupportedByBroker
from ottla.clients.group_effects import Fail, FindCoordinator, MemberState, Send
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.clients.member_script import T0, Script, subscriptions


@pytest.fixture
def s() -> Script:
    """A new member that has sent JoinGroup."""
    return Script().joining()


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
