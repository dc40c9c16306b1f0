"""A member in its generation: heartbeats, sessions, the poll interval, leaving, and looking for the coordinator."""

from collections.abc import Callable

import pytest

from ottla.clients.errors import CommitFailed, FencedInstance, KafkaConnectionError, KafkaError, RebalanceInProgress
from ottla.clients.group_effects import Fail, FindCoordinator, MemberState, Prepare, Send
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from tests.clients.member_script import T0, T1, Script, subscriptions


@pytest.fixture
def s() -> Script:
    """A follower in generation 1 that owns T0."""
    return Script().stable(T0)


def test_heartbeats_at_their_interval() -> None:
    s = Script().stable()
    for beat in range(1, 5):
        s.quiet(2_999)
        s.after(1, HeartbeatRequest)
        assert s.now == 1_000 + beat * 3_000
        s.answer(HeartbeatResponse())
        s.nothing()


def test_one_heartbeat_at_a_time() -> None:
    s = Script().stable()
    s.beats()
    assert s.send.timeout_ms == pytest.approx(6_666, abs=1), "a second try fits into the session"
    s.quiet(5_000)
    s.answer(HeartbeatResponse())
    s.quiet(2_999)
    s.after(1, HeartbeatRequest)


def test_a_rebalance_is_joined(s: Script) -> None:
    s.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    assert s.member.state is MemberState.STABLE, "until everything is given up"
    assert s.member.identity().generation_id == 1, "so that it can still be committed"
    assert s.join().reason == "group is already rebalancing"


def test_heartbeats_go_on_while_the_listener_runs(s: Script) -> None:
    s.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    s.one(Prepare)
    for _ in range(3):
        s.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
        s.nothing()
    s.member.owned = []
    s.member.prepared(s.now)
    s.sent(JoinGroupRequest)


def test_a_rebalance_while_the_assignment_is_taken_over_is_joined_after_it() -> None:
    s = Script().joining()
    s.joined(1)
    s.synced(T0)
    complete = s.effects()
    s.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    s.nothing()
    s.member.owned = [T0]
    s.member.completed(False, s.now)
    assert len(complete) == 1
    s.one(Prepare)


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m1")]
)
def test_a_heartbeat_tells_that_the_membership_is_over(s: Script, code: ErrorCode, member_id: str) -> None:
    s.heartbeat(code)
    assert (s.member.state, s.member.lost) == (MemberState.UNJOINED, True)
    with pytest.raises(CommitFailed, match="not in the group"):
        s.member.identity()
    assert s.join().member_id == member_id


def test_a_heartbeat_tells_that_the_instance_is_fenced() -> None:
    s = Script(group_instance_id="i").stable(T0)
    s.heartbeat(ErrorCode.FENCED_INSTANCE_ID)
    assert isinstance(s.one(Fail).error, FencedInstance)
    s.quiet(100_000)


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, None])
def test_a_heartbeat_tells_that_the_coordinator_moved(s: Script, code: ErrorCode | None) -> None:
    """Or none is answered."""
    if code is None:
        s.beats()
        s.no_answer()
    else:
        s.heartbeat(code)
    s.looked_for()
    s.quiet(5_000)
    s.member.coordinator_found(2, s.now)
    s.at(s.now)
    s.sent(HeartbeatRequest)
    assert s.member.state is MemberState.STABLE, "the membership goes with the group"
    s.answer(HeartbeatResponse())
    s.nothing()


def test_a_coordinator_that_is_loading_is_asked_again_at_the_next_beat(s: Script) -> None:
    s.heartbeat(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    s.nothing()
    s.heartbeat()


def test_a_silent_coordinator_is_looked_for_elsewhere_when_the_session_is_over(s: Script) -> None:
    s.beats()
    s.at(10_999)
    s.nothing()
    s.at(11_000)
    assert "session_timeout_ms" in s.looked_for().reason
    s.member.coordinator_found(1, s.now)
    s.at(20_999)
    s.nothing()
    s.at(21_000)
    s.looked_for()


def test_the_answer_to_a_heartbeat_of_an_earlier_generation_is_ignored(s: Script) -> None:
    s.beats()
    old = s.send
    s.rejoins()
    s.enter(2, T0)
    s.member.answered(old.sent, HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION), s.now)
    s.nothing()
    assert (s.member.state, s.member.generation_id) == (MemberState.STABLE, 2)


def test_a_commit_tells_that_the_membership_is_over_only_of_its_own_generation(s: Script) -> None:
    old = s.member.identity()
    s.rejoins()
    s.enter(2, T0)
    s.member.membership_refused(ErrorCode.ILLEGAL_GENERATION, old, "commit", s.now)
    assert s.member.state is MemberState.STABLE
    s.member.membership_refused(ErrorCode.UNKNOWN_MEMBER_ID, s.member.identity(), "commit", s.now)
    assert s.member.state is MemberState.UNJOINED
    assert s.join().reason == "commit failed: unknown member id"


def test_nothing_can_be_committed_between_join_and_assignment(s: Script) -> None:
    s.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    s.join()
    for _ in range(2):
        with pytest.raises(RebalanceInProgress):
            s.member.identity()
        if s.member.state is MemberState.PREPARING_REBALANCE:
            s.joined(2)
    s.synced(T0)
    assert s.member.identity().generation_id == 2


def test_without_a_subscription_commits_are_in_nobodys_name() -> None:
    sent = Script().member.identity()
    assert (sent.generation_id, sent.member_id) == (-1, "")


# the poll interval


def test_a_member_that_is_not_polled_leaves_and_comes_back() -> None:
    s = Script(session_timeout_ms=100_000, heartbeat_interval_ms=90_000).stable(T0)
    s.member.entered_poll(s.now)
    s.wait(50_000)
    s.member.left_poll(s.now)
    s.wait(59_999)
    while s.member.state is MemberState.STABLE and s.member.has_effects:
        s.sent(HeartbeatRequest)
        s.answer(HeartbeatResponse())
        s.at(110_999)
    s.nothing()
    s.at(111_000)
    leave = s.sent(LeaveGroupRequest)
    assert (leave.member_id, leave.members[0].member_id) == ("m1", "m1")
    assert leave.members[0].reason == "consumer poll timeout has expired."
    assert (s.member.state, s.member.lost) == (MemberState.UNJOINED, True)
    s.quiet(100_000)
    s.member.entered_poll(s.now)
    join = s.join()
    assert (join.member_id, join.reason) == ("", "the consumer is polled again")


def test_a_call_that_waits_long_is_no_absence(s: Script) -> None:
    s.member.entered_poll(s.now)
    for _ in range(50):
        s.heartbeat()
    assert s.member.state is MemberState.STABLE
    assert s.now > 1_000 + 60_000


def test_a_static_member_that_is_not_polled_goes_silently() -> None:
    s = Script(group_instance_id="i", max_poll_interval_ms=2_000).stable(T0)
    s.quiet(2_000)
    assert s.member.state is MemberState.UNJOINED
    s.quiet(100_000)


def test_a_member_away_during_the_join_leaves_on_a_connection_of_its_own() -> None:
    """The broker holds the JoinGroup back, and with it whatever comes behind on the same connection."""
    s = Script(max_poll_interval_ms=2_000).stable(T0)
    s.rejoins()
    join = s.send
    s.after(2_000, LeaveGroupRequest)
    assert s.send.fresh
    s.member.not_answered(join.sent, KafkaConnectionError("the connection was dropped"), s.now)
    s.effects()
    assert s.member.state is MemberState.UNJOINED
    s.wait(10_000)
    assert not [effect for effect in s.effects() if isinstance(effect, (Prepare, Send))]


# leaving


def test_unsubscribing_leaves(s: Script) -> None:
    s.member.unsubscribe(s.now)
    leave = s.sent(LeaveGroupRequest)
    assert leave.members[0].reason == "the consumer unsubscribed"
    assert (s.member.state, s.member.generation_id, s.member.member_id) == (MemberState.UNJOINED, -1, "")
    s.quiet(100_000)
    s.subscribe("t")
    assert s.join().member_id == ""


def test_closing_leaves_and_ends_everything(s: Script) -> None:
    s.member.close("the consumer is being closed")
    assert s.sent(LeaveGroupRequest).members[0].reason == "the consumer is being closed"
    assert s.member.next_deadline_ms() is None
    s.member.advance(s.now + 100_000)
    s.nothing()


def test_a_member_that_has_an_id_but_no_generation_leaves_too() -> None:
    """KIP-394: the broker remembers the id that it gave."""
    s = Script().joining()
    s.member.member_id = "m7"
    s.member.close("bye")
    s.sent(LeaveGroupRequest)
    assert s.send.fresh


def never_joined() -> Script:
    s = Script()
    s.subscribe()
    s.found()
    s.one(Prepare)
    return s


def without_coordinator() -> Script:
    s = Script().stable(T0)
    s.member.coordinator_lost(1, "moved", s.now)
    s.effects()
    return s


def without_generation() -> Script:
    s = Script().stable(T0)
    s.heartbeat(ErrorCode.ILLEGAL_GENERATION)
    s.one(Prepare)
    assert s.member.member_id == "m1"
    return s


def static() -> Script:
    """KIP-345: it may come back within its session, and nobody rebalances meanwhile."""
    return Script(group_instance_id="i").stable(T0)


@pytest.mark.parametrize("member", [never_joined, without_coordinator, without_generation, static])
def test_who_does_not_say_goodbye(member: Callable[[], Script]) -> None:
    s = member()
    s.member.close("bye")
    s.nothing()


# the coordinator


def test_a_lookup_that_fails_is_tried_again_ever_more_slowly() -> None:
    s = Script()
    s.subscribe()
    for pause in (100, 200, 400, 400):
        s.one(FindCoordinator)
        s.member.coordinator_not_found(KafkaError("no", ErrorCode.COORDINATOR_NOT_AVAILABLE), s.now)
        s.quiet(pause - 1)
        s.wait(1)
    s.found()
    s.one(Prepare)


def test_a_group_without_access_is_told() -> None:
    s = Script()
    s.subscribe()
    s.one(FindCoordinator)
    s.member.coordinator_not_found(KafkaError("no", ErrorCode.GROUP_AUTHORIZATION_FAILED), s.now)
    assert s.one(Fail).error.code is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_commits_alone_want_a_coordinator_too() -> None:
    s = Script()
    s.member.want_coordinator(s.now)
    s.found(3)
    s.nothing()
    s.member.coordinator_lost(3, "moved", s.now)
    s.looked_for()


def test_losing_another_broker_than_the_coordinator_means_nothing(s: Script) -> None:
    s.member.coordinator_lost(5, "old news", s.now)
    s.nothing()


# partitions


@pytest.mark.parametrize(("before", "after"), [(1, 2), (None, 1)], ids=["it grows", "it appears"])
def test_the_leader_watches_the_partitions_of_a_topic(before: int | None, after: int) -> None:
    s = Script().joining()
    s.lead({"t": before}, *([T0] if before else []))
    s.member.partition_counts_changed({"t": before}, s.now)
    s.nothing()
    s.member.partition_counts_changed({"t": after}, s.now)
    assert s.join().reason == "the number of partitions of t changed"


def test_a_follower_leaves_watching_to_the_leader(s: Script) -> None:
    s.member.partition_counts_changed({"t": 9}, s.now)
    s.nothing()
    assert s.member.watched_topics == set()


def test_the_first_reason_is_the_one_told(s: Script) -> None:
    s.member.request_rejoin("first", s.now)
    assert s.rejoins("second").reason == "first"


def test_the_rebalance_protocol_is_the_best_that_all_assignors_have() -> None:
    names = {
        ("range", "cooperative-sticky"): "EAGER",
        ("cooperative-sticky",): "COOPERATIVE",
        ("sticky",): "EAGER",
    }
    for strategy, expected in names.items():
        assert Script(list(strategy)).member.rebalance_protocol.name == expected


def test_several_assignors_all_tell_what_is_held() -> None:
    s = Script(["range", "cooperative-sticky"]).stable(T0)
    s.member.request_rejoin("x", s.now)
    s.prepared([T0, T1])
    for one in subscriptions(s.sent(JoinGroupRequest)).values():
        assert [(o.topic, o.partitions) for o in one.owned_partitions] == [("t", [0, 1])]
    s.syncing(2)


# more ways to leave


def test_a_rejoin_that_was_wanted_is_forgotten_by_unsubscribing(s: Script) -> None:
    s.heartbeat(ErrorCode.REBALANCE_IN_PROGRESS)
    s.one(Prepare)
    s.member.unsubscribe(s.now)
    s.sent(LeaveGroupRequest)
    s.member.prepared(s.now)
    s.nothing()
    s.subscribe("t")
    assert s.sent(JoinGroupRequest).reason == "the consumer subscribes"


def test_a_refusal_after_unsubscribing_means_nothing(s: Script) -> None:
    old = s.member.identity()
    s.member.unsubscribe(s.now)
    s.effects()
    s.member.membership_refused(ErrorCode.UNKNOWN_MEMBER_ID, old, "commit", s.now)
    s.member.membership_refused(ErrorCode.UNKNOWN_MEMBER_ID, s.member.identity(), "commit", s.now)
    s.nothing()


def test_the_poll_interval_counts_from_the_subscription() -> None:
    s = Script(max_poll_interval_ms=2_000)
    s.now = 1_000_000.0
    s.stable(T0)
    s.quiet(1_999)
    s.after(1, LeaveGroupRequest)
