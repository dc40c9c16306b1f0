"""A group on injected time, and sentinels that watch it: coordinator and view are real, topics are only numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from ottla.broker.core.events import Event, EveryEvent
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.topics.partition import Standing
from ottla.broker.settings import Settings
from ottla.observe.observers import Observers
from ottla.observe.sentinels.model import Alarm
from ottla.observe.sentinels.watch import Sentinels
from ottla.observe.view import Identity, View
from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_protocol import Subscription, encode_subscription
from ottla.protocol.primitives import ZERO_UUID
from tests.core.consumer_groups.modern_rendering import topic_id
from tests.core.world import ENTRIES, Ctx, World
from tests.observe.http.fakes import Lines
from tests.observe.why.story import assigned
from tests.support.group_member import GroupMember
from tests.support.modern_member import ModernMember
from tests.support.requests import commit_fields, request

GROUP = "g"
Assigned = Mapping[str, Mapping[str, list[int]]]
"""The partitions of each topic by member."""
SESSION_MS = 1_800_000


@dataclass
class Partition:
    high_watermark: int = 0
    log_start_offset: int = 0
    standing: Standing = Standing.LEADING

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


@dataclass(eq=False, kw_only=True)
class WatchedWorld(World):
    """A world whose coordinator tells observers, those that come later, too."""

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
        config = GroupConfig(
            group_initial_rebalance_delay_ms=0,
            group_max_session_timeout_ms=SESSION_MS,
            group_consumer_session_timeout_ms=SESSION_MS,
            group_consumer_assignment_interval_ms=0,
        )
        self.world = WatchedWorld(config, observers=Observers([EveryEvent(self.told.append)], self.log))
        self.logs = Topics(**self.topics)
        self.callbacks: list[tuple[int, Any]] = []
        self._watch()
        self.members: dict[str, GroupMember] = {}
        self.modern: dict[str, ModernMember] = {}
        self.joining: dict[str, Ctx] = {}
        self.world.load()
        for name, count in self.topics.items():
            self.world.put_topic(name, topic_id(name), [[]] * count)

    def _watch(self) -> None:
        self.view = View(
            Identity(1, "c", "0", "h:1", 0),
            self.world.coordinator,
            self.logs,  # type: ignore[arg-type]
            self,
            server=None,  # type: ignore[arg-type]
            software_of=lambda group_id, member_id: "",
        )
        settings = Settings(ottla_sentinel_interval_ms=1_000, **self.settings)
        self.sentinels = Sentinels(self.view, settings, self.log, self, self.emitted.append)
        self.world.observers.add(self.sentinels)
        self.sentinels.start()

    def restart(self) -> None:
        """Another coordinator takes over from the log, and other sentinels look at it."""
        self.sentinels.stop()
        self.world.restart()
        self._watch()

    # -- the clock

    @property
    def real(self) -> Stage:
        return self

    def monotonic_ms(self) -> int:
        return self.world.now_ms

    def wall_ms(self) -> int:
        return self.world.wall_ms

    def call_at(self, when_ms: int, callback: Any) -> Any:
        self.callbacks.append((when_ms, callback))
        self.callbacks.sort(key=itemgetter(0))
        return SimpleNamespace(cancel=self.callbacks.clear)

    def wait(self, ms: int) -> None:
        """Let time pass: timers of the coordinator fire, and the sentinels look."""
        end_ms = self.world.now_ms + ms
        while self.callbacks and self.callbacks[0][0] <= end_ms:
            when_ms, callback = self.callbacks.pop(0)
            self.world.advance_to(when_ms)
            callback()
        self.world.advance_to(end_ms)
        self.learn()

    # -- members

    def __getitem__(self, name: str) -> GroupMember:
        if name not in self.members:
            send = partial(self.ask, name)
            self.members[name] = GroupMember(send, GROUP, session_ms=SESSION_MS, rebalance_ms=SESSION_MS)
        return self.members[name]

    @property
    def ids(self) -> dict[str, str]:
        return {name: one.member_id for name, one in self.members.items()}

    @property
    def generation(self) -> int:
        """The newest that a member knows of."""
        return max(one.generation for one in self.members.values())

    def ask(self, name: str, key: ApiKey, version: int, message: Any) -> Any:
        """Hand the coordinator a request; its answer, if there is one yet, is with what this gives."""
        return self.world.ask(name, ENTRIES[key], message, version)

    def join(self, name: str, topics: Iterable[str] = ("orders",)) -> Ctx:
        """Ask to be in the next generation."""
        self[name].protocols = {"range": encode_subscription(Subscription(topics=list(topics)))}
        self.joining[name] = ctx = self[name].join(3)
        return ctx

    def learn(self) -> None:
        """Members hear the answers that have come."""
        for name, ctx in list(self.joining.items()):
            if ctx.answer is not None:
                assert self[name].learn(self.joining.pop(name).answer), (name, ctx.answer)

    def form(self, shares: Assigned, **topics: Iterable[str]) -> None:
        """A generation of these members, with these assignments; ``topics`` are what they subscribe to."""
        asked = {name: self.join(name, topics.get(name, ("orders",))) for name in shares}
        self.wait(0)
        leader = next(name for name in shares if self.ids[name] == asked[name].answer.leader)
        for name in [*(one for one in shares if one != leader), leader]:
            self.sync(name, shares if name == leader else {})

    def sync(self, name: str, shares: Assigned) -> Ctx:
        """Ask for one's assignment, or bring everybody's."""
        self.learn()
        ctx: Ctx = self[name].sync({self.ids[one]: assigned(topics) for one, topics in shares.items()}, 3)
        return ctx

    def beat(self, name: str, *, regex: str | None = None) -> ModernMember:
        """A member of the consumer protocol joins, or heartbeats and goes on with what it has to give up."""
        if name not in self.modern:
            send = partial(self._hand_over, name)
            one = self.modern[name] = ModernMember(send, GROUP, f"{name}-1", rebalance_ms=SESSION_MS)
            one.subscribe(["orders"] if regex is None else None, regex)
        self.modern[name].heartbeat()
        return self.modern[name]

    def _hand_over(self, name: str, heartbeat: Any) -> None:
        layout = type(heartbeat).layout(1)
        ctx = Ctx(name, 1, layout.decode(layout.encode(heartbeat)))
        self.world.beat(ctx)
        self.world.settle()
        self.modern[name].learn(ctx.answer)

    def commit(self, name: str, offsets: Mapping[int, int], *, generation: int | None = None) -> int:
        """Commit offsets of orders by partition; the error of the first."""
        options = {} if generation is None else {"generation": generation}
        if (modern := self.modern.get(name)) is not None:
            places = [("orders", one, at) for one, at in offsets.items()]
            fields = commit_fields(GROUP, places, generation=modern.epoch, member_id=modern.member_id)
            answer = self.ask(name, ApiKey.OFFSET_COMMIT, 9, request(ApiKey.OFFSET_COMMIT, fields)).answer
            return int(answer.topics[0].partitions[0].error_code)
        answer = self[name].commit([("orders", one, at) for one, at in offsets.items()], 6, **options).answer
        return int(answer.topics[0].partitions[0].error_code)

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
