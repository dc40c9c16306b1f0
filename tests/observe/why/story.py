"""Consumers in a world on injected time, and the history of their group.

A consumer knows what a real one does: it comes back with the id that it was given, as leader it assigns partitions,
before an eager rebalance it gives everything up. When it does so is the story's business.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ottla.broker.core.events import BarrierClosed, Event, FaultFired, TopicChanged
from ottla.broker.core.groups.config import GroupConfig
from ottla.observe.why.history import History
from ottla.observe.why.model import Episode
from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_protocol import (
    Assignment,
    ConsumerTopicPartitions,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.errors import ErrorCode
from tests.core.consumer_groups.modern_rendering import topic_id
from tests.core.world import ENTRIES, Ctx, World
from tests.support.group_member import GroupMember, Send
from tests.support.modern_member import ModernMember
from tests.support.requests import by_topic, leave_fields, request

GROUP = "billing"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "2147483647",
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
}
BEAT_MS = 3_000


def held(parts: Mapping[Any, Iterable[int]]) -> list[ConsumerTopicPartitions]:
    """Partitions by topic, as the consumer protocol has them."""
    return [ConsumerTopicPartitions(topic=topic, partitions=list(which)) for topic, which in parts.items()]


def assigned(parts: Mapping[Any, Iterable[int]]) -> bytes:
    """An assignment."""
    return encode_assignment(Assignment(assigned_partitions=held(parts)), 0)


class Consumer(GroupMember):
    """A client of the group.

    Attributes:
        left_id: the member id with which it left.
        joining, syncing: the requests that wait for their answers.
    """

    def __init__(
        self,
        send: Send,
        name: str,
        *,
        topics: tuple[str, ...] = ("orders",),
        assignors: tuple[str, ...] = ("range",),
        instance: str | None = None,
        session_ms: int = 45_000,
        poll_ms: int = 300_000,
        type: str = "consumer",
        host: str = "",
    ) -> None:
        super().__init__(
            send, GROUP, instance=instance, protocol_type=type, session_ms=session_ms, rebalance_ms=poll_ms
        )
        self.name = name
        self.topics = topics
        self.assignors = assignors
        self.host = host or f"/10.0.0.{ord(name[-1]) % 10}"
        self.user_data: bytes | None = None
        self.metadata_version = 1
        self.left_id = ""
        self.owned: list[tuple[str, int]] = []
        self.members: list[Any] = []
        self.joining: Ctx | None = None
        self.syncing: Ctx | None = None

    def ask_to_join(self, reason: str | None) -> Ctx:
        """JoinGroup; before an eager rebalance everything is given up."""
        if not self.assignors[0].startswith("cooperative"):
            self.owned = []
        owned = held(by_topic(self.owned))
        said = Subscription(topics=list(self.topics), owned_partitions=owned, user_data=self.user_data)
        is_consumer = self.protocol_type == "consumer"
        data = encode_subscription(said, self.metadata_version) if is_consumer else b"\xff"
        self.protocols = dict.fromkeys(self.assignors, data)
        ctx: Ctx = self.join(reason=reason)
        return ctx

    def hear(self) -> None:
        """Learn from the answers that have come."""
        if self.joining is not None and (answer := self.joining.answer) is not None:
            self.joining = None
            if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                self.member_id = ""
            elif self.learn(answer):
                self.members = answer.members
        if self.syncing is not None and (sync := self.syncing.answer) is not None:
            self.syncing = None
            if not sync.error_code and sync.assignment and self.protocol_type == "consumer":
                given = decode_assignment(sync.assignment).assigned_partitions
                self.owned = [(it.topic, partition) for it in given for partition in it.partitions]


class ConsumerGroupMember(ModernMember):
    """A member of the consumer protocol. It gives up what it has to when it is told so by the story."""

    def __init__(self, story: Story, name: str, **options: Any) -> None:
        self.story, self.name, self.host = story, name, f"/10.0.0.{ord(name[-1]) % 10}"
        super().__init__(self._hand_over, GROUP, f"{name}-id", **options)
        self.names = ["orders"]

    def _hand_over(self, heartbeat: Any) -> Any:
        layout = type(heartbeat).layout(1)
        ctx = Ctx(self.name, 1, layout.decode(layout.encode(heartbeat)), self.host)
        self.story.world.beat(ctx)
        self.story.settle()
        if ctx.answer is not None:
            self.learn(ctx.answer)
        return ctx.answer


class Story:
    """See the module.

    Args:
        partitions: topic → how many.
        from_barrier: all that comes before the end of the first barrier is not seen.
    """

    def __init__(
        self,
        partitions: dict[str, int] | None = None,
        *,
        history: History | None = None,
        from_barrier: bool = False,
        **config: Any,
    ) -> None:
        self.partitions = partitions or {"orders": 6}
        self.settings = dict(SETTINGS)
        for name, value in config.items():
            self.settings[name.replace("_", ".")] = str(value)
        self.world = World(GroupConfig(**({"group_initial_rebalance_delay_ms": 0} | config)), 1)
        self.history = history or History(lambda: self.settings)
        self.seen: list[Event] = []
        self.ended: list[Episode] = []
        self.history.on_episode.append(self.ended.append)
        self.world.load()
        self._told = 0
        self.from_barrier = False
        self.clients: dict[str, Consumer] = {}
        self.modern: dict[str, ConsumerGroupMember] = {}
        for name, count in self.partitions.items():
            self._put(name, count)
        self.tell()
        self.from_barrier = from_barrier

    def tell(self) -> None:
        """Hand the history what happened since."""
        events = self.world.events[self._told :]
        self._told = len(self.world.events)
        for event in events:
            if self.from_barrier and not isinstance(event, BarrierClosed):
                continue
            self.from_barrier = False
            self.seen.append(event)
            self.history(event)

    def topic(self, name: str, partitions: int) -> None:
        """A topic has so many partitions from now on: it is created, grows, or is deleted if there are none."""
        before = self.partitions.pop(name, 0)
        about: dict[str, Any] = {"group_id": "", "cause": 0, "topic": name}
        about |= {"at_ms": self.world.now_ms, "wall_ms": self.world.wall_ms}
        if partitions:
            self._put(name, partitions)
            self.partitions[name] = partitions
            self.world.events.append(TopicChanged(**about, partitions=partitions, partitions_before=before))
        else:
            self.world.delete_topic(name)
        self.tell()

    def _put(self, name: str, partitions: int, rack: str = "") -> None:
        self.world.put_topic(name, topic_id(name), [[rack] if rack else []] * partitions)

    def rack(self, topic: str, rack: str) -> None:
        """The replicas of a topic move."""
        self._put(topic, self.partitions[topic], rack)

    # Members of the consumer protocol

    def modern_join(
        self,
        *names: str,
        instance: str | None = None,
        rebalance_ms: int = 60_000,
        regex: str | None = None,
        topics: tuple[str, ...] = ("orders",),
        assignor: str | None = None,
    ) -> None:
        """They join."""
        for name in names:
            one = self.modern[name] = ConsumerGroupMember(self, name, instance=instance, rebalance_ms=rebalance_ms)
            one.subscribe(list(topics))
            if regex is not None:
                one.subscribe(None, regex)
            one.assignor = assignor
            one.heartbeat()

    def clock(self) -> None:
        """Whoever asks knows what time it is."""
        self.history.now_ms = lambda: self.world.wall_ms

    def hb(self, *names: str) -> None:
        """They heartbeat, and go on with what they have to give up."""
        for name in names:
            self.modern[name].heartbeat()

    def release(self, *names: str) -> None:
        """They give up what they have to, and heartbeat."""
        for name in names:
            self.modern[name].let_go()
            self.modern[name].heartbeat()

    def say(self, name: str) -> None:
        """It says all that it says when it has lost its connection."""
        self.modern[name].reconnect()
        self.modern[name].heartbeat()

    def subscribe(self, name: str, topics: str = "", regex: str | None = None) -> None:
        self.modern[name].subscribe(topics.split("+") if topics else None, regex)
        self.modern[name].heartbeat()

    def go(self, *names: str) -> None:
        for name in names:
            self.modern[name].leave()

    def away(self, *names: str) -> None:
        for name in names:
            self.modern[name].leave(for_a_while=True)

    def at_epoch(self, name: str, epoch: str) -> None:
        """It heartbeats at another epoch than its own."""
        self.modern[name].epoch = int(epoch)
        self.modern[name].heartbeat()

    def live8(self, ms: int, *names: str) -> None:
        """Time passes; some heartbeat every five seconds, and give up at once what they have to."""
        until_ms = self.world.now_ms + ms
        while self.world.now_ms < until_ms:
            self.world.advance_to(min(self.world.now_ms + 5_000, until_ms))
            self.settle()
            self.release(*names)
        self.settle()

    def interfere(self, name: str, api: str, done: str, fault: str = "deaf") -> None:
        """A fault takes hold of a request of a consumer, or of its answer; what it does is the story's business."""
        one = self[name]
        about: dict[str, Any] = {"group_id": GROUP, "cause": 0, "client_id": one.name, "member_id": one.member_id}
        about |= {"at_ms": self.world.now_ms, "wall_ms": self.world.wall_ms}
        self.world.events.append(FaultFired(**about, fault=fault, api=api, done=done))
        self.tell()

    def pause(self) -> None:
        """No deadline of the group runs."""
        self.world.coordinator.hold(GROUP, self.world.now_ms, self.world.wall_ms)
        self.settle()

    def stall(self, ms: str) -> None:
        """The broker's process stands still for so long: no deadline is looked at before it goes on."""
        self.world.now_ms += int(ms)
        self.world.advance_to(self.world.now_ms)
        self.settle()

    def resume(self) -> None:
        self.world.coordinator.let_go(GROUP, self.world.now_ms, self.world.wall_ms)
        self.settle()

    def restart(self, **config: Any) -> None:
        """Another coordinator takes over from the log; nobody's connection is known to it."""
        if config:
            self.settings |= {name.replace("_", "."): str(value) for name, value in config.items()}
            self.world.config = dataclasses.replace(self.world.config, **config)
        self.world.restart()
        self.settle()

    def unload(self) -> None:
        """The broker gives the group up."""
        self.world.coordinator.unload(0, self.world.now_ms, self.world.wall_ms)
        self.settle()

    def at_node(self, node: str) -> None:
        """The broker is one of several nodes."""
        self.history.node = node

    # Steps

    def new(self, name: str, **options: Any) -> Consumer:
        """A consumer that has done nothing yet; its client id is the name."""
        one = Consumer(lambda *asked: self.ask(one, *asked), name, **options)
        self.clients[name] = one
        return one

    def __getitem__(self, name: str) -> Consumer:
        return self.clients.get(name) or self.new(name)

    def called(self, one: Consumer) -> tuple[str, str]:
        """Client id and host, as the broker sees them."""
        return one.name, one.host

    def ask(self, one: Consumer, key: ApiKey, version: int, message: Any) -> Any:
        """The request with its answer, as soon as there is one; of a heartbeat the error."""
        if key is ApiKey.HEARTBEAT:
            return self.world.coordinator.heartbeat(message, self.world.now_ms)
        name, host = self.called(one)
        ctx = self.world.ask(name, ENTRIES[key], message, version, host=host)
        self.settle()
        return ctx

    def settle(self) -> None:
        self.world.settle()
        self.tell()
        for one in self.clients.values():
            one.hear()

    def join(self, *names: str, reason: str | None = None) -> None:
        """JoinGroup, and again with the id if one is issued."""
        for name in names:
            joining = self.join_once(name, reason)
            if joining.answer is not None and joining.answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.join_once(name, f"need to re-join with the given member-id: {self[name].member_id}")

    def join_once(self, name: str, reason: str | None = None) -> Ctx:
        """JoinGroup without coming back."""
        one = self[name]
        one.joining = joining = one.ask_to_join(reason)
        one.hear()
        return joining

    def sync(self, *names: str) -> None:
        """SyncGroup; the leader brings the assignments."""
        for name in names:
            one = self[name]
            one.syncing = one.sync(self._assignments(one) if one.members else ())
            one.hear()

    def _assignments(self, leader: Consumer) -> dict[str, bytes]:
        """Round robin; with a cooperative assignor whatever somebody else holds is left out until it is given up."""
        ids = [it.member_id for it in leader.members]
        if leader.protocol_type != "consumer":
            return dict.fromkeys(ids, b"\xff")
        said = {it.member_id: decode_subscription(bytes(it.metadata)) for it in leader.members}
        holder = {(it.topic, p): who for who, sub in said.items() for it in sub.owned_partitions for p in it.partitions}
        given: dict[str, list[tuple[str, int]]] = {member_id: [] for member_id in sorted(ids)}
        for topic, number in self.partitions.items():
            takers = [member_id for member_id in given if topic in said[member_id].topics]
            for partition in range(number if takers else 0):
                to = takers[partition % len(takers)]
                if holder.get((topic, partition), to) == to:
                    given[to].append((topic, partition))
        return {member_id: assigned(by_topic(places)) for member_id, places in given.items()}

    def start(self, *names: str, after_ms: int = 1) -> None:
        """All of them join and sync."""
        self.join(*names)
        self.wait(after_ms)
        self.sync(*names)

    def leave(self, *names: str, reason: str | None = None, by: str = "", version: int = 5) -> None:
        """LeaveGroup, of all in one request."""
        ids = [self[name].member_id for name in names]
        fields = leave_fields(GROUP, *((member_id, None) for member_id in ids), reason=reason)
        self.ask(self[by or names[0]], ApiKey.LEAVE_GROUP, version, request(ApiKey.LEAVE_GROUP, fields))
        for name, member_id in zip(names, ids, strict=True):
            self[name].left_id, self[name].member_id, self[name].owned = member_id, "", []

    def forget(self, name: str) -> None:
        """It starts anew: the member id is gone."""
        self[name].member_id = ""

    def disconnect(self, name: str) -> None:
        """Its connection is lost; it may have left before."""
        one = self[name]
        member_id, (client_id, host) = one.member_id or one.left_id, self.called(one)
        self.world.coordinator.disconnected(GROUP, member_id, client_id, host, self.world.now_ms, self.world.wall_ms)
        self.settle()

    def beat(self, *names: str) -> list[int]:
        errors = [int(self[name].heartbeat()) for name in names]
        self.settle()
        return errors

    def wait(self, ms: int, *, beating: Iterable[str] = ()) -> None:
        """Time passes; some send heartbeats every three seconds."""
        names = list(beating)
        until_ms = self.world.now_ms + ms
        while self.world.now_ms < until_ms:
            self.world.advance_to(min(self.world.now_ms + BEAT_MS, until_ms))
            self.settle()
            if names:
                self.beat(*names)
        self.settle()

    def live(self, *names: str, for_ms: int, busy: str = "") -> None:
        """They heartbeat and commit once a second; who is busy heartbeats only."""
        for _ in range(for_ms // 1000):
            self.wait(1000)
            for name in names:
                if self.beat(name) == [ErrorCode.NONE] and name != busy:
                    self[name].commit([("orders", 0, self.world.now_ms)], metadata=None)

    def stable(self, *names: str) -> None:
        """A group of these that has been Stable for a minute."""
        self.start(*names)
        self.wait(60_000, beating=names)

    def again(self, *names: str, after_ms: int = 2_000) -> None:
        """They learn from their next heartbeat that the group rebalances, rejoin and sync."""
        self.wait(after_ms, beating=names)
        self.join(*names)
        self.wait(20)
        everybody = [one.name for one in self.clients.values() if one.members and one.member_id]
        self.sync(*dict.fromkeys([*everybody, *names]))
        self.wait(10)

    # Asking

    def outcome(self) -> list[str]:
        """What is told after each step of a text, of those who tell."""
        return []

    def episodes(self) -> list[Episode]:
        return self.history.episodes(GROUP)

    @property
    def last(self) -> Episode:
        return self.episodes()[-1]

    def culprit(self, episode: Episode | None = None) -> str:
        """The client id of the culprit, empty for nobody."""
        episode = episode or self.last
        return episode.members[episode.culprit].client_id if episode.culprit >= 0 else ""


def stable(*names: str, story: Story | None = None, **config: Any) -> Story:
    """A group that has been Stable for a minute, of w1 and w2 unless others are named."""
    story = story or Story(**config)
    story.stable(*(names or ("w1", "w2")))
    return story
