"""Coordinators in worlds without sockets: a clock that is moved by hand, a log, and requests with a memory.

Every request and answer passes through its wire form, so what is looked at is what a client would see, and an answer
that cannot be encoded at the version it was asked in fails at once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, ClassVar
from uuid import UUID

from ottla.broker.core.coordination.shard import ShardState
from ottla.broker.core.effects import Append, Reply
from ottla.broker.core.events import Event, EveryEvent
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.schema import Message
from tests.core.durable import differences, durable_state
from tests.support.requests import join_fields, request

WALL_MS = 1_700_000_000_000
"""Unix time at the beginning of every world."""


ENTRIES = {
    ApiKey.JOIN_GROUP: "join",
    ApiKey.SYNC_GROUP: "sync",
    ApiKey.LEAVE_GROUP: "leave",
    ApiKey.OFFSET_COMMIT: "commit_offsets",
    ApiKey.TXN_OFFSET_COMMIT: "commit_transactional_offsets",
    ApiKey.OFFSET_FETCH: "fetch_offsets",
    ApiKey.OFFSET_DELETE: "delete_offsets",
    ApiKey.DELETE_GROUPS: "delete_groups",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "describe_consumer_groups",
    ApiKey.DESCRIBE_GROUPS: "describe_groups",
    ApiKey.LIST_GROUPS: "list_groups",
    ApiKey.INIT_PRODUCER_ID: "init_producer_id",
    ApiKey.ADD_PARTITIONS_TO_TXN: "add_partitions",
    ApiKey.ADD_OFFSETS_TO_TXN: "add_offsets",
    ApiKey.END_TXN: "end",
    ApiKey.DESCRIBE_TRANSACTIONS: "describe",
    ApiKey.LIST_TRANSACTIONS: "list",
}
"""The coordinators' methods."""


@dataclass(frozen=True)
class InTransaction:
    """A record of a transactional batch."""

    record: CoordinatorRecord
    producer_id: int


@dataclass(frozen=True)
class Marker:
    """The end of a producer's transaction."""

    producer_id: int
    commit: bool


Logged = CoordinatorRecord | InTransaction | Marker


@dataclass(eq=False)
class Ctx:
    """A request's context as the coordinator sees it, and what became of it."""

    client: str
    api_version: int
    request: Any
    client_host: str = "/127.0.0.1"
    encoded: bytes = b""
    answer: Any = None
    is_gone: bool = False
    """The client has gone away while it waits."""

    @property
    def client_id(self) -> str:
        return "" if self.client == "nameless" else self.client


@dataclass
class CoordinatorWorld:
    """See the module. What the coordinator asks for succeeds at once unless it is held back."""

    config: Any
    partition_count: int = 50
    now_ms: int = 0
    hold: bool = False
    failing: ErrorCode = ErrorCode.NONE
    log: list[tuple[int, Logged]] = field(default_factory=list)
    held: deque[Append] = field(default_factory=deque)
    appends: list[Append] = field(default_factory=list)
    answered: list[Ctx] = field(default_factory=list)

    leader_epoch: ClassVar[int | None] = None
    """Of every partition."""

    def __post_init__(self) -> None:
        self.coordinator = self.new_coordinator()

    @property
    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms

    def new_coordinator(self) -> Any:
        """One that was started."""
        raise NotImplementedError

    def new_replica(self) -> Any:
        """One that only reads the log."""
        raise NotImplementedError

    def durable_differences(self, replica: Any) -> object:
        """The differences between the durable state and that of a coordinator that has read the log."""
        raise NotImplementedError

    def load(self) -> None:
        """Take every partition over, from what is durable."""
        self.begin_load()
        self.finish_load()

    def begin_load(self) -> None:
        for partition in range(self.partition_count):
            self.coordinator.load_started(partition, self.now_ms, self.leader_epoch)

    def finish_load(self) -> None:
        replay_into(self.coordinator, self.log)
        for partition in range(self.partition_count):
            self.coordinator.loaded(partition, self.now_ms, self.wall_ms)

    def restart(self) -> None:
        """Crash: everything that is not durable is gone, and nobody is answered."""
        self.held.clear()
        self.coordinator = self.new_coordinator()
        self.load()
        self.settle()

    def send(self, client: str, key: ApiKey, version: int, fields: dict[str, Any], *more: Any) -> Ctx:
        """A request with these fields, see `tests.support.requests`; otherwise as `ask`."""
        return self.ask(client, ENTRIES[key], request(key, fields), version, *more)

    def ask(self, client: str, api: str, request: Message, version: int, *more: Any, host: str = "/127.0.0.1") -> Ctx:
        """Send a request; the answer is in ``ctx.answer`` at once or after some later step.

        Args:
            api: the coordinator's method.
            more: what it takes besides the request, its context and the times.
        """
        layout = type(request).layout(version)
        return self.enter(Ctx(client, version, layout.decode(layout.encode(request)), host), api, *more)

    def enter(self, ctx: Ctx, api: str, *more: Any) -> Ctx:
        entry = getattr(self.coordinator, api)
        answer = entry(ctx.request, ctx, self.now_ms, self.wall_ms, *more)
        if answer is not None:
            self.deliver(ctx, answer)
        self.settle()
        return ctx

    def deliver(self, ctx: Ctx, answer: Message) -> None:
        assert ctx.answer is None, "answered twice"
        layout = type(answer).layout(ctx.api_version)
        ctx.answer = layout.decode(layout.encode(answer))
        self.answered.append(ctx)

    def settle(self) -> None:
        """Carry out effects until there are none, and what they ask for unless it is held back."""
        while True:
            effects = self.coordinator.take_effects()
            for effect in effects:
                self.carry_out(effect)
            if not (not self.hold and self.finish_one()) and not effects:
                return

    def carry_out(self, effect: Any) -> None:
        if isinstance(effect, Reply):
            assert isinstance(effect.ctx, Ctx)
            self.deliver(effect.ctx, effect.response)
        else:
            assert isinstance(effect, Append)
            self.appends.append(effect)
            self.held.append(effect)

    def finish_one(self) -> bool:
        """Let the oldest of what is under way come to its end; False if there is nothing."""
        if not self.held:
            return False
        self.complete(self.failing)
        self.failing = ErrorCode.NONE
        return True

    def complete(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Let the oldest held append succeed or fail."""
        append = self.held.popleft()
        if not error:
            for record in append.records:
                logged = record if append.producer_id < 0 else InTransaction(record, append.producer_id)
                self.log.append((append.partition, logged))
        self.coordinator.appended(append.token, error, self.now_ms, self.wall_ms)

    def advance_to(self, when_ms: int) -> None:
        """Move the clock, stopping at every deadline on the way."""
        while (at_ms := self.coordinator.next_deadline_ms()) is not None and at_ms <= when_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self.coordinator.advance(self.now_ms, self.wall_ms)
            self.settle()
        self.now_ms = when_ms

    def check_log(self) -> None:
        """The law: replaying the log gives what is durable of the live coordinator."""
        if any(shard.state is not ShardState.ACTIVE for shard in self.coordinator.shards):
            return
        replica = self.new_replica()
        for partition in range(self.partition_count):
            replica.load_started(partition, 0)
        replay_into(replica, self.log)
        for partition in range(self.partition_count):
            replica.loaded(partition, 0, 0)
        found = self.durable_differences(replica)
        assert not found, found


@dataclass
class World(CoordinatorWorld):
    """The group coordinator's."""

    config: GroupConfig
    events: list[Event] = field(default_factory=list)
    ids: int = 0
    short_beats: int = 0
    """Heartbeats of consumer groups that were answered the short way."""
    topics: dict[str, tuple[UUID, list[list[str]]]] = field(default_factory=dict)
    """Name → id, and the racks of each partition."""
    coordinator: GroupCoordinator = field(init=False)

    def new_coordinator(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(self.config, self.new_id, self.partition_count, EveryEvent(self.look_at))
        coordinator.start()
        for name, (topic_id, racks) in self.topics.items():
            coordinator.topic_changed(name, topic_id, racks, self.wall_ms)
        return coordinator

    def look_at(self, event: Event) -> None:
        self.events.append(event)

    def new_replica(self) -> GroupCoordinator:
        return GroupCoordinator(self.config, self.new_id, self.partition_count)

    def durable_differences(self, replica: GroupCoordinator) -> object:
        return differences(durable_state(self.coordinator), durable_state(replica))

    def new_id(self) -> str:
        self.ids += 1
        return str(self.ids)

    def put_topic(self, name: str, topic_id: UUID, racks: list[list[str]]) -> None:
        """A topic comes, or changes."""
        self.topics[name] = topic_id, racks
        self.coordinator.topic_changed(name, topic_id, racks, self.wall_ms)

    def delete_topic(self, name: str) -> None:
        """A topic goes."""
        topic_id, _ = self.topics.pop(name)
        self.coordinator.topic_deleted(name, self.now_ms, self.wall_ms, topic_id)

    def beat(self, ctx: Ctx) -> None:
        """A ConsumerGroupHeartbeat as its handler passes it on. The short way must come to the same as the long one."""
        short = self.coordinator.beat(ctx.request, ctx, self.now_ms)
        if short is not None:
            numbers, before = self.coordinator.cause, len(self.events)
            session = self.coordinator.groups[ctx.request.group_id].session_of(ctx.request.member_id)
            assert session is not None
            deadline_ms = session.session_deadline_ms
            long = self.coordinator.consumer_heartbeat(ctx.request, ctx, self.now_ms, self.wall_ms)
            assert (long, session.session_deadline_ms) == (short, deadline_ms)
            assert not self.coordinator.effects
            assert (self.coordinator.cause, len(self.events)) == (numbers, before)
            self.short_beats += 1
            self.deliver(ctx, short)
            self.settle()
        else:
            self.enter(ctx, "consumer_heartbeat")

    def end_transaction(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """The marker is durable; everything that was appended before is, too."""
        while self.held:
            self.complete()
        self.log.append((partition, Marker(producer_id, commit)))
        self.coordinator.transaction_ended(partition, producer_id, commit, self.now_ms, self.wall_ms)

    def check_log(self) -> None:
        if not self.held:
            super().check_log()


def replay_into(coordinator: Any, log: list[tuple[int, Logged]]) -> None:
    """Replay a log into a coordinator that is loading."""
    for offset, (partition, logged) in enumerate(log):
        if isinstance(logged, Marker):
            coordinator.transaction_ended(partition, logged.producer_id, logged.commit, 0, 0)
        elif isinstance(logged, InTransaction):
            coordinator.replay(partition, logged.record, offset, logged.producer_id)
        else:
            coordinator.replay(partition, logged, offset)


def join(world: World, member_id: str) -> Ctx:
    """A plain JoinGroup of a consumer of group ``g``."""
    fields = join_fields("g", member_id=member_id, protocols={"range": b""}, session_ms=10_000, rebalance_ms=10_000)
    return world.send("c", ApiKey.JOIN_GROUP, 9, fields)
