"""A group on injected time, and sentinels that watch it: coordinator and view are real, topics are only numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from ottla.broker.core.events import Event, EveryEvent
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.settings import Settings
from ottla.observe.observers import Observers
from ottla.observe.sentinels import Alarm, Sentinels
from ottla.observe.view import Identity, View
from ottla.protocol.consumer_protocol import (
    Assignment,
    ConsumerTopicPartitions,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.protocol.primitives import ZERO_UUID
from tests.core.world import Ctx, World

GROUP = "g"
SESSION_MS = 1_800_000


@dataclass
class Person(Ctx):
    """A client that may go away while it waits."""

    is_gone: bool = False


@dataclass
class Partition:
    high_watermark: int = 0
    log_start_offset: int = 0
    offline: bool = False

    @property
    def log(self) -> Partition:
        return self


class Topic:
    topic_id: UUID = ZERO_UUID

    def __init__(self, partitions: int) -> None:
        self.partitions = [Partition() for _ in range(partitions)]

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if index < len(self.partitions) else None


class Topics:
    def __init__(self, **topics: int) -> None:
        self.topics = {name: Topic(count) for name, count in topics.items()}

    def partition_count(self, name: str) -> int:
        return len(self.topics[name].partitions) if name in self.topics else 0


class Lines:
    """A log that keeps what it is told."""

    def __init__(self) -> None:
        self.warnings: list[tuple[str, dict[str, Any]]] = []
        self.infos: list[tuple[str, dict[str, Any]]] = []
        self.errors: list[tuple[str, dict[str, Any]]] = []

    def warning(self, event: str, **fields: Any) -> None:
        self.warnings.append((event, fields))

    def info(self, event: str, **fields: Any) -> None:
        self.infos.append((event, fields))

    def error(self, event: str, **fields: Any) -> None:
        self.errors.append((event, fields))


class WatchedWorld(World):
    """A world whose coordinator tells observers that come later, too."""

    observers: Observers

    def new_coordinator(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(self.config, self.new_id, self.partition_count, self.observers)
        coordinator.start()
        return coordinator


@dataclass
class Stage:
    """See the module. ``topics`` are name → partitions; ``settings`` are by attribute."""

    topics: Mapping[str, int] = field(default_factory=lambda: {"orders": 4})
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log = Lines()
        self.emitted: list[Event] = []
        self.told: list[Event] = []
        WatchedWorld.observers = Observers([EveryEvent(self.told.append)], self.log)
        self.world = WatchedWorld(
            GroupConfig(group_initial_rebalance_delay_ms=0, group_max_session_timeout_ms=SESSION_MS)
        )
        self.logs = Topics(**self.topics)
        self.view = View(
            Identity(1, "c", "0", "h:1", 0),
            self.world.coordinator,
            self.logs,  # type: ignore[arg-type]
            self,
            listener=None,  # type: ignore[arg-type]
            software_of=lambda group_id, member_id: "",
        )
        settings = Settings(ottla_sentinel_interval_ms=1_000, **self.settings)
        self.sentinels = Sentinels(self.view, settings, self.log, self.emitted.append)
        WatchedWorld.observers.add(self.sentinels)
        self.callbacks: list[tuple[int, Any]] = []
        self.sentinels.start(self)
        self.members: dict[str, Person] = {}
        self.ids: dict[str, str] = {}
        self.generation = 0
        self.world.load()

    # -- the clock

    def monotonic_ms(self) -> int:
        return self.world.now_ms

    def wall_ms(self) -> int:
        return self.world.wall_ms

    def call_at(self, when_ms: int, callback: Any) -> Any:
        self.callbacks.append((when_ms, callback))
        return SimpleNamespace(cancel=self.callbacks.clear)

    def wait(self, ms: int) -> None:
        """Let time pass: timers of the coordinator fire, and the sentinels look."""
        end_ms = self.world.now_ms + ms
        while self.callbacks and self.callbacks[0][0] <= end_ms:
            when_ms, callback = self.callbacks.pop(0)
            self.world.advance_to(when_ms)
            callback()
        self.world.advance_to(end_ms)

    # -- members

    def join(self, name: str, topics: Iterable[str] = ("orders",)) -> Person:
        """Ask to be in the next generation."""
        metadata = encode_subscription(Subscription(topics=list(topics)))
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self.ids.get(name, ""),
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        self.members[name] = person = self.ask(name, "join", request, 3)
        return person

    def form(self, assigned: Mapping[str, Mapping[str, list[int]]], **topics: Iterable[str]) -> None:
        """A generation of these members, with these assignments; ``topics`` are what they subscribe to."""
        for name in assigned:
            self.join(name, topics.get(name, ("orders",)))
        self.world.advance_to(self.world.now_ms)
        for name in assigned:
            answer = self.members[name].answer
            assert answer is not None and not answer.error_code, (name, answer)
            self.ids[name], self.generation = answer.member_id, answer.generation_id
        leader = next(name for name in assigned if self.ids[name] == self.members[name].answer.leader)
        for name in [*(one for one in assigned if one != leader), leader]:
            self.sync(name, assigned if name == leader else {})

    def sync(self, name: str, assigned: Mapping[str, Mapping[str, list[int]]]) -> Person:
        """Ask for one's assignment, or bring everybody's."""
        assignments = [
            SyncGroupRequestAssignment(member_id=self.ids[one], assignment=_encoded(topics))
            for one, topics in assigned.items()
        ]
        request = SyncGroupRequest(
            group_id=GROUP, generation_id=self.generation, member_id=self.ids[name], assignments=assignments
        )
        return self.ask(name, "sync", request, 3)

    def commit(
        self, name: str, offsets: Mapping[int, int], *, topic: str = "orders", generation: int | None = None
    ) -> int:
        """Commit offsets by partition; the error of the first."""
        rows = [OffsetCommitRequestPartition(partition_index=one, committed_offset=at) for one, at in offsets.items()]
        request = OffsetCommitRequest(
            group_id=GROUP,
            member_id=self.ids.get(name, ""),
            generation_id_or_member_epoch=self.generation if generation is None else generation,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=rows)],
        )
        answer = self.ask(name, "commit_offsets", request, 6).answer
        return int(answer.topics[0].partitions[0].error_code)

    def heartbeat(self, name: str) -> int:
        """The error that a heartbeat hears."""
        request = HeartbeatRequest(group_id=GROUP, member_id=self.ids[name], generation_id=self.generation)
        return int(self.world.coordinator.heartbeat(request, self.world.now_ms))

    def ask(self, name: str, api: str, request: Any, version: int) -> Person:
        """Hand the coordinator a request; the answer, if there is one yet, is with the person."""
        layout = type(request).layout(version)
        ctx = Person(name, version, layout.decode(layout.encode(request)))
        answer = getattr(self.world.coordinator, api)(ctx.request, ctx, self.world.now_ms, self.world.wall_ms)
        if answer is not None:
            self.world.deliver(ctx, answer)
        self.world.settle()
        return ctx

    # -- logs and alarms

    def write(self, partition: int, count: int, topic: str = "orders") -> None:
        """Append records."""
        self.logs.topics[topic].partitions[partition].high_watermark += count

    @property
    def active(self) -> list[str]:
        """The sentinels whose alarms stand."""
        return sorted(alarm.sentinel for alarm in self.sentinels.board.active())

    def alarm(self, sentinel: str) -> Alarm:
        """The only alarm of a sentinel that stands."""
        (alarm,) = [one for one in self.sentinels.board.active() if one.sentinel == sentinel]
        return alarm


def _encoded(topics: Mapping[str, list[int]]) -> bytes:
    parts = [ConsumerTopicPartitions(topic=topic, partitions=list(which)) for topic, which in topics.items()]
    return encode_assignment(Assignment(assigned_partitions=parts))
