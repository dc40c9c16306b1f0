"""A coordinator in a world without sockets: a clock that is moved by hand, a log, and clients with a memory.

Every request and answer passes through its wire form, so what is looked at is what a client would see, and an answer
that cannot be encoded at the version it was asked in fails at once.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from ottla.broker.core.coordination.shard import ShardState
from ottla.broker.core.effects import Append, Reply
from ottla.broker.core.events import Event, EveryEvent
from ottla.broker.core.groups.config import GroupConfig
from ottla.broker.core.groups.coordinator import GroupCoordinator
from ottla.broker.core.groups.replay import differences
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.offsets_topic import CoordinatorRecord
from ottla.protocol.schema import Message

WALL_MS = 1_700_000_000_000
"""Unix time at the beginning of every world."""


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
class World:
    """See the module. Appends succeed at once unless they are held back."""

    config: GroupConfig
    partition_count: int = 50
    now_ms: int = 0
    hold: bool = False
    failing: ErrorCode = ErrorCode.NONE
    log: list[tuple[int, Logged]] = field(default_factory=list)
    held: deque[Append] = field(default_factory=deque)
    events: list[Event] = field(default_factory=list)
    appends: list[Append] = field(default_factory=list)
    answered: list[Ctx] = field(default_factory=list)
    ids: int = 0

    def __post_init__(self) -> None:
        self.coordinator = self.new_coordinator()

    @property
    def wall_ms(self) -> int:
        return WALL_MS + self.now_ms

    def new_coordinator(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(self.config, self.new_id, self.partition_count, EveryEvent(self.events.append))
        coordinator.start()
        return coordinator

    def new_id(self) -> str:
        self.ids += 1
        return str(self.ids)

    def load(self) -> None:
        """Take every partition over, from what is durable."""
        self.begin_load()
        self.finish_load()

    def begin_load(self) -> None:
        for partition in range(self.partition_count):
            self.coordinator.load_started(partition, self.now_ms)

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

    def ask(self, client: str, api: str, request: Message, version: int, host: str = "/127.0.0.1") -> Ctx:
        """Send a request; the answer is in ``ctx.answer`` at once or after some later step."""
        layout = type(request).layout(version)
        ctx = Ctx(client, version, layout.decode(layout.encode(request)), host)
        entry = getattr(self.coordinator, api)
        answer = entry(ctx.request, ctx, self.now_ms, self.wall_ms)
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
        """Carry out effects until there are none, and appends unless they are held back."""
        while True:
            effects = self.coordinator.take_effects()
            for effect in effects:
                if isinstance(effect, Reply):
                    assert isinstance(effect.ctx, Ctx)
                    self.deliver(effect.ctx, effect.response)
                else:
                    assert isinstance(effect, Append)
                    self.appends.append(effect)
                    self.held.append(effect)
            if self.held and not self.hold:
                self.complete(self.failing)
                self.failing = ErrorCode.NONE
            elif not effects:
                return

    def complete(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Let the oldest held append succeed or fail."""
        append = self.held.popleft()
        if not error:
            for record in append.records:
                logged = record if append.producer_id < 0 else InTransaction(record, append.producer_id)
                self.log.append((append.partition, logged))
        self.coordinator.appended(append.token, error, self.now_ms, self.wall_ms)

    def end_transaction(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """The marker is durable; everything that was appended before is, too."""
        while self.held:
            self.complete()
        self.log.append((partition, Marker(producer_id, commit)))
        self.coordinator.transaction_ended(partition, producer_id, commit, self.now_ms, self.wall_ms)

    def advance_to(self, when_ms: int) -> None:
        """Move the clock, stopping at every deadline on the way."""
        while (at_ms := self.coordinator.next_deadline_ms()) is not None and at_ms <= when_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self.coordinator.advance(self.now_ms, self.wall_ms)
            self.settle()
        self.now_ms = when_ms

    def check_log(self) -> None:
        """The law: replaying the log gives what is durable of the live coordinator."""
        shards = self.coordinator.shards
        if self.held or any(shard.state is not ShardState.ACTIVE for shard in shards):
            return
        replayed = GroupCoordinator(self.config, self.new_id, self.partition_count)
        for partition in range(self.partition_count):
            replayed.load_started(partition, 0)
        replay_into(replayed, self.log)
        for partition in range(self.partition_count):
            replayed.loaded(partition, 0, 0)
        found = differences(self.coordinator.durable_state(), replayed.durable_state())
        assert not found, found


def replay_into(coordinator: GroupCoordinator, log: list[tuple[int, Logged]]) -> None:
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
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return world.ask("c", "join", request, 9)
