"""A broker in the model world: the real coordinator, entered directly, with the model log behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.core.effects import Append
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatResponse
from tests.core.world import ENTRIES
from tests.shell.host import Timer
from tests.sim.calls import Call
from tests.sim.network import Context, Link, ModelEndpoint
from tests.sim.watched import WatchedCoordinator

if TYPE_CHECKING:
    from tests.sim.world import World


class Node:
    """See the module. A crash throws the coordinator away; a restart makes a new one."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.coordinator: WatchedCoordinator | None = None
        self.links: list[Link] = []
        self._rng = world.rng(f"node {name}")
        self._alarm: Timer | None = None
        self._alarm_ms: int | None = None

    @property
    def is_up(self) -> bool:
        return self.coordinator is not None

    def start(self) -> None:
        self.coordinator = WatchedCoordinator(self.world, self.name)
        self.coordinator.start()

    def crash(self) -> None:
        assert self.coordinator is not None
        self.world.watch.died(self.coordinator)
        self.coordinator = None
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = self._alarm_ms = None
        for link in self.links:
            link.broker_died()
        self.links.clear()

    # Connections

    def accept(self, link: Link) -> ModelEndpoint:
        self.links.append(link)
        return ModelEndpoint(self, link)

    def serve(self, ctx: Context, call: Call) -> None:
        if self.coordinator is None:
            return
        response = self._enter(ctx, call)
        if response is not None:
            ctx.end.finish(ctx, response)
        self._settle()

    def _enter(self, ctx: Context, call: Call) -> Any:
        coordinator, request = self.coordinator, call.request
        assert coordinator is not None
        now_ms, wall_ms = self.world.now_ms, self.world.wall_ms
        if call.api is ApiKey.HEARTBEAT:
            return HeartbeatResponse(error_code=coordinator.heartbeat(request, now_ms))
        refused = [self._missing(request)] if call.api in (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_DELETE) else []
        return getattr(coordinator, ENTRIES[call.api])(request, ctx, now_ms, wall_ms, *refused)

    def _missing(self, request: Any) -> dict[tuple[str, int], ErrorCode]:
        """The partitions that do not exist, as the handlers find them."""
        return {
            (topic.name, item.partition_index): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for topic in request.topics
            for item in topic.partitions
            if not 0 <= item.partition_index < self.world.partition_count(topic.name)
        }

    def topic_deleted(self, topic: str) -> None:
        if self.coordinator is not None:
            self.coordinator.topic_deleted(topic, self.world.now_ms, self.world.wall_ms)
            self._settle()

    # Partitions

    def load(self, partition: int, epoch: int) -> None:
        """Take a partition over, in slices between which requests come."""
        coordinator = self.coordinator
        assert coordinator is not None
        coordinator.load_started(partition, self.world.now_ms, epoch)
        self._load_on(coordinator, partition, epoch, list(self.world.logs[partition].records), 0)

    def _load_on(
        self, coordinator: WatchedCoordinator, partition: int, epoch: int, records: list[Any], start: int
    ) -> None:
        if coordinator is not self.coordinator or self.world.epochs[partition] != epoch:
            return
        size = 5 if self.world.fault("slow loading") else len(records)
        for offset in range(start, min(start + size, len(records))):
            coordinator.replay(partition, records[offset], offset)
        if start + size < len(records):
            delay = self._rng.choice((1, 50, 500))
            self.world.after(delay, self._load_on, coordinator, partition, epoch, records, start + size)
            return
        coordinator.loaded(partition, self.world.now_ms, self.world.wall_ms)
        self._settle()

    def unload(self, partition: int, epoch: int) -> None:
        assert self.coordinator is not None
        self.coordinator.unload(partition, self.world.now_ms, self.world.wall_ms, epoch)
        self._settle()

    # Effects and time

    def appended(self, token: object, error: ErrorCode) -> None:
        if self.coordinator is not None:
            self.coordinator.appended(token, error, self.world.now_ms, self.world.wall_ms)
            self._settle()

    def _settle(self) -> None:
        coordinator = self.coordinator
        assert coordinator is not None
        for effect in coordinator.take_effects():
            if isinstance(effect, Append):
                self.world.logs[effect.partition].append(effect.records, effect.token, self)
            else:
                effect.ctx.end.finish(effect.ctx, effect.response)  # type: ignore[attr-defined]
        when_ms = coordinator.next_deadline_ms()
        if when_ms != self._alarm_ms:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_ms = when_ms
            self._alarm = None
            if when_ms is not None:
                self._alarm = self.world.timer(when_ms + self._lateness(), self._ring)

    def _lateness(self) -> int:
        if self.world.fault("late timers") and self._rng.random() < 0.2:
            return self._rng.randint(0, self.world.LATEST_TIMER_MS)
        return 0

    def _ring(self) -> None:
        coordinator = self.coordinator
        assert coordinator is not None
        self._alarm = self._alarm_ms = None
        coordinator.advance(self.world.now_ms, self.world.wall_ms)
        self._settle()
