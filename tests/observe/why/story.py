"""Consumers in a world on injected time, and the history of their group.

A consumer knows what a real one does: it comes back with the id that it was given, as leader it assigns partitions,
before an eager rebalance it gives everything up. When it does so is the story's business.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ottla.broker.core.events import BarrierClosed, Event, TopicChanged, TopicDeleted
from ottla.broker.core.groups.config import GroupConfig
from ottla.observe.why.history import History
from ottla.observe.why.model import Episode
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
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.core.world import Ctx, World

GROUP = "billing"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "2147483647",
    "group.min.session.timeout.ms": "6000",
    "group.max.session.timeout.ms": "1800000",
}
BEAT_MS = 3_000


@dataclass
class Consumer:
    """A client of the group."""

    name: str
    topics: tuple[str, ...] = ("orders",)
    assignors: tuple[str, ...] = ("range",)
    instance: str | None = None
    session_ms: int = 45_000
    poll_ms: int = 300_000
    type: str = "consumer"
    version: int = 9
    host: str = ""
    user_data: bytes | None = None
    metadata_version: int = 1
    member_id: str = ""
    generation: int = -1
    chosen: str | None = None
    owned: list[tuple[str, int]] = field(default_factory=list)
    members: list[Any] = field(default_factory=list)
    joining: Ctx | None = None
    syncing: Ctx | None = None

    @property
    def is_cooperative(self) -> bool:
        return self.assignors[0].startswith("cooperative")

    def metadata(self) -> bytes:
        if self.type != "consumer":
            return b"\xff"
        if not self.is_cooperative:
            self.owned = []
        by_topic: dict[str, list[int]] = {}
        for topic, partition in self.owned:
            by_topic.setdefault(topic, []).append(partition)
        held = [ConsumerTopicPartitions(topic=topic, partitions=parts) for topic, parts in by_topic.items()]
        said = Subscription(topics=list(self.topics), owned_partitions=held, user_data=self.user_data)
        return encode_subscription(said, self.metadata_version)


class Story:
    """See the module.

    Args:
        partitions: topic → how many.
        told: further observers of the events.
    """

    def __init__(
        self, partitions: dict[str, int] | None = None, *, history: History | None = None, **config: Any
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
        self.told_from_barrier = False
        self.clients: dict[str, Consumer] = {}
        self.tell()

    def tell(self) -> None:
        """Hand the history what happened since."""
        events = self.world.events[self._told :]
        self._told = len(self.world.events)
        for event in events:
            if self.told_from_barrier and not isinstance(event, BarrierClosed):
                continue
            self.told_from_barrier = False
            self.seen.append(event)
            self.history(event)

    def topic(self, name: str, partitions: int) -> None:
        """A topic has so many partitions from now on: it is created, grows, or is deleted if there are none."""
        before = self.partitions.pop(name, 0)
        about: dict[str, Any] = {"group_id": "", "cause": 0, "topic": name}
        about |= {"at_ms": self.world.now_ms, "wall_ms": self.world.wall_ms}
        if partitions:
            self.partitions[name] = partitions
            self.world.events.append(TopicChanged(**about, partitions=partitions, partitions_before=before))
        else:
            self.world.events.append(TopicDeleted(**about, number=0))
        self.tell()

    def restart(self, **config: Any) -> None:
        """Another coordinator takes over from the log; nobody's connection is known to it."""
        if config:
            self.settings |= {name.replace("_", "."): str(value) for name, value in config.items()}
            self.world.config = dataclasses.replace(self.world.config, **config)
        self.world.restart()
        self.settle()

    # Steps

    def new(self, name: str, **options: Any) -> Consumer:
        """A consumer that has done nothing yet; its client id is the name."""
        self.clients[name] = Consumer(name, **options)
        return self.clients[name]

    def __getitem__(self, name: str) -> Consumer:
        return self.clients.get(name) or self.new(name)

    def ask(self, one: Consumer, api: str, request: Any, version: int) -> Ctx:
        layout = type(request).layout(version)
        ctx = Ctx(
            one.name, version, layout.decode(layout.encode(request)), one.host or f"/10.0.0.{ord(one.name[-1]) % 10}"
        )
        answer = getattr(self.world.coordinator, api)(ctx.request, ctx, self.world.now_ms, self.world.wall_ms)
        if answer is not None:
            self.world.deliver(ctx, answer)
        self.settle()
        return ctx

    def settle(self) -> None:
        self.world.settle()
        self.tell()
        for one in self.clients.values():
            self._learn(one)

    def join(self, *names: str, reason: str | None = None) -> None:
        """JoinGroup, and again with the id if one is issued."""
        for name in names:
            one = self[name]
            for _ in range(2):
                one.joining = self._join(one, reason)
                error = one.joining.answer.error_code if one.joining.answer is not None else 0
                if error != ErrorCode.MEMBER_ID_REQUIRED:
                    break
                one.member_id = one.joining.answer.member_id
                reason = f"need to re-join with the given member-id: {one.member_id}"
            self._learn(one)

    def join_once(self, name: str) -> Ctx:
        """JoinGroup without coming back."""
        return self._join(self[name], None)

    def _join(self, one: Consumer, reason: str | None) -> Ctx:
        data = one.metadata()
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=one.session_ms,
            rebalance_timeout_ms=one.poll_ms,
            member_id=one.member_id,
            group_instance_id=one.instance,
            protocol_type=one.type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name in one.assignors],
            reason=reason,
        )
        return self.ask(one, "join", request, one.version)

    def _learn(self, one: Consumer) -> None:
        if one.joining is not None and (answer := one.joining.answer) is not None:
            one.joining = None
            if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
                one.member_id = ""
            elif not answer.error_code:
                one.member_id, one.generation = answer.member_id, answer.generation_id
                one.chosen, one.members = answer.protocol_name, answer.members
        if one.syncing is not None and (sync := one.syncing.answer) is not None:
            one.syncing = None
            if not sync.error_code and sync.assignment and one.type == "consumer":
                given = decode_assignment(sync.assignment).assigned_partitions
                one.owned = [(it.topic, p) for it in given for p in it.partitions]

    def sync(self, *names: str) -> None:
        """SyncGroup; the leader brings the assignments."""
        for name in names:
            one = self[name]
            request = SyncGroupRequest(
                group_id=GROUP,
                generation_id=one.generation,
                member_id=one.member_id,
                group_instance_id=one.instance,
                protocol_type=one.type,
                protocol_name=one.chosen,
                assignments=self._assign(one) if one.members else [],
            )
            one.syncing = self.ask(one, "sync", request, 5)
            self._learn(one)

    def _assign(self, leader: Consumer) -> list[SyncGroupRequestAssignment]:
        """Round robin; with a cooperative assignor whatever somebody else holds is left out until it is given up."""
        if leader.type != "consumer":
            return [SyncGroupRequestAssignment(member_id=it.member_id, assignment=b"\xff") for it in leader.members]
        ids = sorted(it.member_id for it in leader.members)
        said = {it.member_id: decode_subscription(bytes(it.metadata)) for it in leader.members}
        holder = {(it.topic, p): who for who, sub in said.items() for it in sub.owned_partitions for p in it.partitions}
        given: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in ids}
        for topic, number in self.partitions.items():
            takers = [member_id for member_id in ids if topic in said[member_id].topics]
            for partition in range(number if takers else 0):
                to = takers[partition % len(takers)]
                if holder.get((topic, partition), to) == to:
                    given[to].setdefault(topic, []).append(partition)
        return [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_assignment(
                    Assignment(
                        assigned_partitions=[
                            ConsumerTopicPartitions(topic=topic, partitions=parts) for topic, parts in topics.items()
                        ]
                    ),
                    0,
                ),
            )
            for member_id, topics in given.items()
        ]

    def start(self, *names: str) -> None:
        """All of them join and sync."""
        self.join(*names)
        self.wait(1)
        self.sync(*names)

    def leave(self, name: str, reason: str | None = None, *, by: str = "", version: int = 5) -> None:
        one = self[name]
        entry = MemberIdentity(member_id=one.member_id, reason=reason)
        request = LeaveGroupRequest(group_id=GROUP, member_id=one.member_id, members=[entry])
        self.ask(self[by] if by else one, "leave", request, version)
        one.member_id, one.owned = "", []

    def disconnect(self, name: str) -> None:
        one = self[name]
        host = one.host or f"/10.0.0.{ord(one.name[-1]) % 10}"
        self.world.coordinator.disconnected(GROUP, one.member_id, one.name, host, self.world.now_ms, self.world.wall_ms)
        self.settle()

    def beat(self, *names: str) -> list[int]:
        errors = []
        for name in names:
            one = self[name]
            request = HeartbeatRequest(
                group_id=GROUP,
                generation_id=one.generation,
                member_id=one.member_id,
                group_instance_id=one.instance,
            )
            errors.append(self.world.coordinator.heartbeat(request, self.world.now_ms))
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

    # Asking

    def episodes(self) -> list[Episode]:
        return self.history.episodes(GROUP)

    @property
    def last(self) -> Episode:
        return self.episodes()[-1]

    def culprit(self, episode: Episode | None = None) -> str:
        """The client id of the culprit, empty for nobody."""
        episode = episode or self.last
        return episode.members[episode.culprit].client_id if episode.culprit >= 0 else ""
