"""A member of the ``consumer`` protocol: what it says and when, scripted without a broker (KIP-848)."""

from typing import Any
from uuid import UUID

import pytest

from ottla.clients.backoff import Backoff
from ottla.clients.cluster import ClusterMetadata
from ottla.clients.consumer_member import ConsumerMember
from ottla.clients.errors import CommitFailed, UnsupportedByBroker
from ottla.clients.group_effects import (
    Complete,
    CoordinatorLost,
    Fail,
    FindCoordinator,
    LookUp,
    MemberState,
    Prepare,
    Send,
)
from ottla.clients.options import ConsumerOptions
from ottla.clients.structs import TopicInfo
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatAssignment,
    HeartbeatTopicPartitions,
)
from ottla.protocol.records import TopicPartition
from tests.clients.member_script import T0, T1, Script

ID = UUID(int=7)
OTHER_ID = UUID(int=8)
NOTHING = {
    "rack_id": None,
    "rebalance_timeout_ms": -1,
    "subscribed_topic_names": None,
    "subscribed_topic_regex": None,
    "server_assignor": None,
    "topic_partitions": None,
}
"""The fields of a heartbeat that says only that the member is there."""


class Told(Script):
    """Drives a `ConsumerMember`; the topic ``t`` has the id `ID`."""

    member: Any

    def __init__(self, **given: Any) -> None:
        super().__init__()
        options = ConsumerOptions(group_id="g", group_protocol="consumer", rebalance_timeout_ms=60_000, **given)
        self.member = ConsumerMember(options, "me", Backoff(100, 400, lambda: 0.5))
        self.cluster = ClusterMetadata()
        self.exists("t", ID)

    def exists(self, name: str, topic_id: UUID) -> None:
        self.cluster.topics[name] = TopicInfo(name, topic_id, False, {})

    def beat(self) -> ConsumerGroupHeartbeatRequest:
        request: ConsumerGroupHeartbeatRequest = self.sent(ConsumerGroupHeartbeatRequest)
        return request

    def says(self, epoch: int = 2, assigned: dict[UUID, list[int]] | None = None, interval: int = 5_000) -> None:
        given = None
        if assigned is not None:
            given = HeartbeatAssignment(
                topic_partitions=[HeartbeatTopicPartitions(topic_id=i, partitions=p) for i, p in assigned.items()]
            )
        self.answer(
            ConsumerGroupHeartbeatResponse(
                error_code=0, member_id="me", member_epoch=epoch, heartbeat_interval_ms=interval, assignment=given
            )
        )

    def refuses(self, code: ErrorCode) -> None:
        self.answer(ConsumerGroupHeartbeatResponse(error_code=code, member_epoch=0, heartbeat_interval_ms=0))

    def looked_up(self) -> None:
        self.one(LookUp)
        self.member.looked_up(self.cluster, self.now)

    def take(self, *expected: TopicPartition) -> None:
        """The shell does what `Complete` asks for."""
        effect = self.one(Complete)
        assert sorted(effect.partitions) == sorted(expected)
        self.member.owned = self.member.take(effect)
        self.member.completed(False, self.now)

    def join(self, *partitions: int, epoch: int = 2) -> None:
        """Into the group, with partitions of ``t`` that are taken and told."""
        self.subscribe()
        self.found()
        self.beat()
        self.says(epoch, {ID: list(partitions)} if partitions else {})
        if partitions:
            self.looked_up()
        self.take(*(TopicPartition("t", number) for number in partitions))
        if partitions:
            self.beat()
            self.says(epoch)


def fields(request: ConsumerGroupHeartbeatRequest, *names: str) -> dict[str, Any]:
    return {name: getattr(request, name) for name in names or NOTHING}


def owned(request: ConsumerGroupHeartbeatRequest) -> dict[UUID, list[int]] | None:
    told = request.topic_partitions
    return None if told is None else {one.topic_id: one.partitions for one in told}


def test_joining_says_everything_and_then_only_what_is_new() -> None:
    told = Told(client_rack="r1", group_remote_assignor="range")
    told.subscribe()
    told.found()
    first = told.beat()
    assert (first.member_id, first.member_epoch, first.instance_id) == ("me", 0, None)
    assert fields(first) == {
        "rack_id": "r1",
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["t"],
        "subscribed_topic_regex": "",
        "server_assignor": "range",
        "topic_partitions": [],
    }
    assert told.send.low == 1, "version 0 has no regular expressions"
    assert told.member.state is MemberState.JOINING
    told.says(2, {ID: [0, 1]}, interval=700)
    told.looked_up()
    assert told.member.state is MemberState.RECONCILING
    told.take(T0, T1)
    second = told.beat()
    assert (second.member_epoch, owned(second)) == (2, {ID: [0, 1]}), "told at once, R12.6"
    assert fields(second) == {**NOTHING, "topic_partitions": second.topic_partitions}
    told.says(2, interval=700)
    assert told.member.state is MemberState.STABLE
    told.quiet(690)
    assert fields(told.after(10, ConsumerGroupHeartbeatRequest)) == NOTHING


def test_what_is_revoked_is_given_up_then_told_at_once() -> None:
    told = Told()
    told.join(0, 1)
    told.after(5_000, ConsumerGroupHeartbeatRequest)
    told.says(2, {ID: [0]})
    effect = told.one(Complete)
    assert effect.partitions == [T0]
    told.wait(5_000)
    assert owned(told.beat()) is None, "nothing is given up yet, and heartbeats go on"
    told.says(2)
    told.member.owned = told.member.take(effect)
    told.member.completed(True, told.now)
    assert owned(told.beat()) == {ID: [0]}
    told.says(3)
    assert told.member.generation_id == 3
    told.quiet(4_990)


def test_a_later_answer_takes_partitions_away_before_they_are_taken_over() -> None:
    """The broker may count what is not reported as given up, so it must not be taken over from then on."""
    told = Told()
    told.join(0)
    told.after(5_000, ConsumerGroupHeartbeatRequest)
    told.says(3, {ID: [0, 1]})
    slow = told.one(Complete)
    told.after(5_000, ConsumerGroupHeartbeatRequest)
    told.says(4, {ID: [0]})
    assert told.member.take(slow) == [T0]


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_who_lost_its_epoch_gives_everything_up_as_lost_and_joins_again(code: ErrorCode) -> None:
    told = Told()
    told.join(0)
    told.after(5_000, ConsumerGroupHeartbeatRequest)
    told.refuses(code)
    assert told.member.lost
    with pytest.raises(CommitFailed):
        told.member.identity()
    told.prepared()
    again = told.beat()
    assert (again.member_id, again.member_epoch, owned(again)) == ("me", 0, {})
    told.says(5, {ID: [1]})
    told.looked_up()
    told.take(T1)


def test_the_epoch_lost_while_partitions_change_hands() -> None:
    """What the shell is busy with ends first; nothing is taken over for a membership that is over."""
    told = Told()
    told.join(0)
    told.after(5_000, ConsumerGroupHeartbeatRequest)
    told.says(3, {ID: [0, 1]})
    slow = told.one(Complete)
    told.after(5_000, ConsumerGroupHeartbeatRequest)
    told.refuses(ErrorCode.FENCED_MEMBER_EPOCH)
    told.nothing()
    assert told.member.take(slow) is None
    told.member.completed(False, told.now)
    told.prepared()
    assert told.beat().member_epoch == 0


def test_a_lost_answer_is_followed_by_everything() -> None:
    """R2.9: who owns what it was given is let through with the epoch before; R12.5."""
    told = Told()
    told.join(0)
    told.after(5_000, ConsumerGroupHeartbeatRequest)
    told.no_answer()
    assert {type(effect) for effect in told.effects()} == {CoordinatorLost, FindCoordinator}
    told.member.coordinator_found(1, told.now)
    request = told.after(100, ConsumerGroupHeartbeatRequest)
    assert (request.member_epoch, owned(request)) == (2, {ID: [0]})
    assert (request.subscribed_topic_names, request.rebalance_timeout_ms) == (["t"], 60_000)


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_another_coordinator_is_told_everything(code: ErrorCode) -> None:
    told = Told()
    told.join(0)
    told.after(5_000, ConsumerGroupHeartbeatRequest)
    told.refuses(code)
    assert {type(effect) for effect in told.effects()} == {CoordinatorLost, FindCoordinator}
    told.member.coordinator_found(2, told.now)
    assert told.after(100, ConsumerGroupHeartbeatRequest).rebalance_timeout_ms == 60_000
    assert not told.member.lost


def test_a_coordinator_that_loads_is_asked_again() -> None:
    told = Told()
    told.join(0)
    told.after(5_000, ConsumerGroupHeartbeatRequest)
    told.refuses(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    told.quiet(90)
    assert owned(told.after(10, ConsumerGroupHeartbeatRequest)) == {ID: [0]}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_refusals_are_raised_and_the_next_call_tries_again(code: ErrorCode) -> None:
    told = Told()
    told.join(0)
    told.after(5_000, ConsumerGroupHeartbeatRequest)
    told.refuses(code)
    assert told.one(Fail).error.code is code
    told.quiet(10_000)
    told.member.resume(told.now)
    told.prepared()
    assert told.beat().member_epoch == 0


def test_who_was_replaced_stays_out() -> None:
    told = Told(group_instance_id="i")
    told.join(0)
    told.after(5_000, ConsumerGroupHeartbeatRequest)
    told.refuses(ErrorCode.FENCED_INSTANCE_ID)
    told.one(Fail)
    told.member.resume(told.now)
    told.nothing()
    assert told.member.fenced is not None


def test_a_broker_without_the_protocol_is_named() -> None:
    told = Told()
    told.subscribe()
    told.found()
    told.beat()
    told.no_answer(UnsupportedByBroker("the broker does not serve CONSUMER_GROUP_HEARTBEAT"))
    assert "group_protocol='classic'" in str(told.one(Fail).error)


def test_topics_that_may_not_be_seen_are_told_and_asked_for_again() -> None:
    told = Told()
    told.join()
    told.after(5_000, ConsumerGroupHeartbeatRequest)
    told.refuses(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    told.one(Fail)
    assert told.after(100, ConsumerGroupHeartbeatRequest).member_epoch == 2


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_goodbyes(instance: str | None, epoch: int) -> None:
    told = Told(group_instance_id=instance)
    told.join(0)
    told.member.close("done")
    goodbye = told.beat()
    assert (goodbye.member_epoch, goodbye.instance_id) == (epoch, instance)
    assert fields(goodbye) == NOTHING
    assert told.member.next_deadline_ms() is None


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_a_user_who_stays_away(instance: str | None, epoch: int) -> None:
    told = Told(group_instance_id=instance, max_poll_interval_ms=7_000)
    told.subscribe()
    told.found()
    told.beat()
    told.says(2, {ID: [0]}, interval=60_000)
    told.looked_up()
    told.take(T0)
    told.beat()
    told.says(2, interval=60_000)
    assert told.after(7_000, ConsumerGroupHeartbeatRequest).member_epoch == epoch
    told.quiet(100_000)
    told.member.entered_poll(told.now)
    told.prepared()
    assert told.beat().member_epoch == 0


def test_an_unsubscribed_member_comes_back_with_its_id() -> None:
    told = Told()
    told.join(0)
    told.member.owned = []
    told.member.unsubscribe(told.now)
    assert told.beat().member_epoch == -1
    told.exists("t", OTHER_ID)
    told.subscribe()
    again = told.beat()
    assert (again.member_id, again.member_epoch) == ("me", 0)
    told.says(2, {OTHER_ID: [0]})
    told.looked_up()
    told.take(T0)


def test_a_new_subscription_is_told_at_once() -> None:
    told = Told()
    told.join(0)
    told.member.subscribe(["t", "u"], told.now)
    request = told.beat()
    assert fields(request) == {**NOTHING, "subscribed_topic_names": ["t", "u"]}
    told.says(3)
    told.member.subscribe([], told.now, "t.*")
    request = told.beat()
    assert fields(request) == {**NOTHING, "subscribed_topic_names": [], "subscribed_topic_regex": "t.*"}


def test_topics_without_names_are_looked_up_until_they_are_known() -> None:
    told = Told()
    told.subscribe()
    told.found()
    told.beat()
    told.says(2, {ID: [0], OTHER_ID: [3]})
    told.looked_up()
    told.take(T0)
    assert owned(told.beat()) == {ID: [0]}
    told.says(2)
    told.wait(100)
    told.one(LookUp)
    told.exists("u", OTHER_ID)
    told.member.looked_up(told.cluster, told.now)
    told.take(T0, TopicPartition("u", 3))


def test_a_topic_that_was_made_anew_is_given_up_before_it_is_taken() -> None:
    told = Told()
    told.join(0)
    told.after(5_000, ConsumerGroupHeartbeatRequest)
    told.says(3, {OTHER_ID: [0]})
    told.exists("t", OTHER_ID)
    told.looked_up()
    told.take()
    complete, send = told.effects()
    assert isinstance(complete, Complete) and complete.partitions == [T0]
    assert isinstance(send, Send) and owned(send.request) == {}, "the old one is given up"
    told.member.owned = told.member.take(complete)
    told.member.completed(False, told.now)
    told.send = send
    told.says(3)
    assert owned(told.beat()) == {OTHER_ID: [0]}


def test_it_commits_and_reads_with_its_newest_epoch() -> None:
    told = Told()
    with pytest.raises(CommitFailed):
        told.subscribe()
        told.member.identity()
    assert told.member.reader is None
    told.found()
    told.beat()
    told.says(4, {})
    assert told.member.identity() == told.member.reader
    assert (told.member.identity().generation_id, told.member.identity().member_id) == (4, "me")


def test_stale_answers_count_for_nothing() -> None:
    told = Told()
    told.join(0)
    told.after(5_000, ConsumerGroupHeartbeatRequest)
    stale = told.send
    told.member.membership_refused(ErrorCode.UNKNOWN_MEMBER_ID, told.member.identity(), "commit", told.now)
    told.one(Prepare)
    told.member.answered(stale.sent, ConsumerGroupHeartbeatResponse(error_code=0, member_epoch=9), told.now)
    assert told.member.lost
