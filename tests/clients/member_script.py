"""A group member under test: scripted answers, injected time, effects to look at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from ottla.clients.assignors import make_assignors
from ottla.clients.assignors.sticky import grouped
from ottla.clients.backoff import Backoff
from ottla.clients.errors import KafkaConnectionError, KafkaError
from ottla.clients.group_effects import Complete, CoordinatorLost, Effect, FindCoordinator, Prepare, Send
from ottla.clients.group_member import GroupMember
from ottla.clients.options import ConsumerOptions
from ottla.protocol.consumer_protocol import (
    Assignment,
    Subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.protocol.records import TopicPartition

E = TypeVar("E")
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


class Script:
    """Drives a `GroupMember`; ``now`` is the time in ms. Backoffs are 100 ms, doubling to 400, without jitter."""

    def __init__(self, strategy: Any = "range", **given: Any) -> None:
        defaults = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 3_000, "max_poll_interval_ms": 60_000}
        options = ConsumerOptions(group_id="g", **{"rebalance_timeout_ms": 60_000, **defaults, **given})
        self.member = GroupMember(options, make_assignors(strategy), Backoff(100, 400, lambda: 0.5))
        self.now = 1_000.0
        self.log: list[Effect] = []

    # effects

    def effects(self) -> list[Effect]:
        """The effects since last time."""
        found = self.member.take_effects()
        self.log += found
        return found

    def one(self, kind: type[E]) -> E:
        """The one effect there is, which must be of this kind."""
        found = self.effects()
        assert [type(effect) for effect in found] == [kind], found
        return found[0]  # type: ignore[return-value]

    def sent(self, kind: type[Any]) -> Any:
        """The one request sent, which must be of this kind."""
        send = self.one(Send)
        assert isinstance(send.request, kind), send.request
        self.send = send
        return send.request

    def nothing(self) -> None:
        found = self.effects()
        assert found == []

    # time

    def at(self, now: float) -> None:
        """Time passes until ``now``; whatever is due on the way is done."""
        assert now >= self.now
        for _ in range(100):
            deadline = self.member.next_deadline_ms()
            if deadline is None or deadline > now:
                break
            self.now = max(self.now, deadline)
            self.member.advance(self.now)
            if self.member.has_effects:
                break
        else:
            raise AssertionError(f"the deadline {deadline} does not move")
        if not self.member.has_effects:
            self.now = now

    def wait(self, ms: float) -> None:
        self.at(self.now + ms)

    def quiet(self, ms: float) -> None:
        """So much time passes, and nothing happens."""
        self.wait(ms)
        self.nothing()

    def after(self, ms: float, kind: type[Any]) -> Any:
        """So much time passes, and then a request of this kind is sent."""
        self.wait(ms)
        return self.sent(kind)

    # answers

    def answer(self, answer: Any) -> None:
        self.member.answered(self.send.sent, answer, self.now)

    def no_answer(self, error: KafkaError | None = None) -> None:
        self.member.not_answered(self.send.sent, error or KafkaConnectionError("broke"), self.now)

    def found(self, node_id: int = 1) -> None:
        self.one(FindCoordinator)
        self.member.coordinator_found(node_id, self.now)

    def subscribe(self, *topics: str) -> None:
        self.member.subscribe(topics or ("t",), self.now)

    def prepared(self, owned: Iterable[TopicPartition] = ()) -> None:
        self.one(Prepare)
        self.member.owned = list(owned)
        self.member.prepared(self.now)

    def joined(self, generation: int = 1, *, leader: bool = False, member_id: str = "m1", **more: Any) -> None:
        """JoinGroup is answered; the leader sees itself alone."""
        request = self.send.request
        assert isinstance(request, JoinGroupRequest)
        members = [JoinGroupResponseMember(member_id=member_id, metadata=request.protocols[0].metadata)]
        self.answer(
            JoinGroupResponse(
                generation_id=generation,
                protocol_type="consumer",
                protocol_name=request.protocols[0].name,
                leader=member_id if leader else "other",
                member_id=member_id,
                members=members if leader else [],
                **more,
            )
        )

    def synced(self, *partitions: TopicPartition) -> None:
        self.sent(SyncGroupRequest)
        self.answer(SyncGroupResponse(assignment=assignment(partitions)))

    def completed(self, *, revoked: bool = False) -> Complete:
        complete = self.one(Complete)
        self.member.owned = complete.partitions
        self.member.completed(revoked, self.now)
        return complete

    # longer ways

    def join(self, owned: Iterable[TopicPartition] = ()) -> JoinGroupRequest:
        """Everything is given up that must be, and JoinGroup is sent."""
        self.prepared(owned)
        request: JoinGroupRequest = self.sent(JoinGroupRequest)
        return request

    def joining(self, *topics: str) -> Script:
        """A new member that has sent JoinGroup."""
        self.subscribe(*topics)
        self.found()
        self.join()
        return self

    def syncing(self, generation: int = 1, **more: Any) -> SyncGroupRequest:
        """JoinGroup is answered, and SyncGroup is sent."""
        self.joined(generation, **more)
        request: SyncGroupRequest = self.sent(SyncGroupRequest)
        return request

    def enter(self, generation: int = 1, *partitions: TopicPartition) -> Script:
        """From JoinGroup on into a generation, as a follower."""
        self.joined(generation)
        self.synced(*partitions)
        self.completed()
        return self

    def lead(self, counts: dict[str, int | None], *partitions: TopicPartition) -> Script:
        """From JoinGroup on into generation 1, as the leader, who divided so many partitions."""
        self.joined(1, leader=True)
        self.effects()
        self.member.led({"m1": list(partitions)}, counts, self.now)
        self.synced(*partitions)
        self.completed()
        return self

    def stable(self, *partitions: TopicPartition) -> Script:
        """A follower in generation 1, owning these partitions."""
        self.joining().enter(1, *partitions)
        self.nothing()
        return self

    def rejoins(self, reason: str = "x") -> JoinGroupRequest:
        """Something makes the member join again."""
        self.member.request_rejoin(reason, self.now)
        return self.join()

    def refused(self, at_sync: bool, code: ErrorCode) -> None:
        """JoinGroup, or SyncGroup after it, is refused."""
        if at_sync:
            self.syncing(2)
            self.answer(SyncGroupResponse(error_code=code))
        else:
            self.answer(JoinGroupResponse(error_code=code))

    def looked_for(self) -> CoordinatorLost:
        """The coordinator is given up, and looked up anew."""
        lost, find = self.effects()
        assert isinstance(lost, CoordinatorLost)
        assert isinstance(find, FindCoordinator)
        return lost

    def beats(self) -> HeartbeatRequest:
        """The heartbeat that is due is sent."""
        request: HeartbeatRequest = self.after(3_000, HeartbeatRequest)
        return request

    def heartbeat(self, error_code: int = 0) -> HeartbeatRequest:
        """The same, and it is answered."""
        request = self.beats()
        self.answer(HeartbeatResponse(error_code=error_code))
        return request


def assignment(partitions: Iterable[TopicPartition]) -> bytes:
    return encode_assignment(Assignment(assigned_partitions=grouped(partitions)))


def subscription(*topics: str) -> bytes:
    return encode_subscription(Subscription(topics=list(topics)))


def subscriptions(request: JoinGroupRequest) -> dict[str, Subscription]:
    return {protocol.name: decode_subscription(protocol.metadata) for protocol in request.protocols}
