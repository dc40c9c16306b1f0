"""Consumers in a world with injected time: they join, sync and heartbeat as real ones do, and do wrong when told to.

What the coordinator tells of it goes into a `History`, as it does in a broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ottla.broker.core.groups.config import GroupConfig
from ottla.observe.why.history import History
from ottla.observe.why.model import Episode
from ottla.protocol.consumer_protocol import (
    Assignment,
    ConsumerTopicPartitions,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.core.world import Ctx, World

PARTITIONS = 6
GROUP = "billing"
INITIAL_DELAY_MS = 3_000
BUDGET_BYTES = 1 << 20


@dataclass
class Consumer:
    """What a client knows, and what it was told to be."""

    name: str
    assignors: tuple[str, ...] = ("range",)
    topics: tuple[str, ...] = ("orders",)
    instance: str | None = None
    session_ms: int = 6_000
    rebalance_ms: int = 6_000
    member_id: str = ""
    generation: int = -1
    join: Ctx | None = None


@dataclass
class Crowd:
    """See the module."""

    settings: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world = World(GroupConfig(group_initial_rebalance_delay_ms=INITIAL_DELAY_MS, **self.settings))
        self.world.load()
        self.history = History(lambda: self.facts, BUDGET_BYTES)
        self.consumers: dict[str, Consumer] = {}

    # -- what one consumer does

    def join(self, name: str, reason: str = "", **options: Any) -> int:
        """JoinGroup, twice if an id is issued first; gives the error, -1 while it waits."""
        consumer = self.consumers.setdefault(name, Consumer(name))
        for option, value in options.items():
            setattr(consumer, option, value)
        self._ask_join(consumer, reason)
        if self.error(name) == ErrorCode.MEMBER_ID_REQUIRED:
            assert consumer.join is not None
            consumer.member_id = consumer.join.answer.member_id
            self._ask_join(consumer, reason)
        return self.error(name)

    def restarted(self, name: str, **options: Any) -> int:
        """The same application in a new process: it remembers nothing."""
        self.consumers[name].member_id = ""
        return self.join(name, **options)

    def error(self, name: str) -> int:
        """Of its last JoinGroup; -1 while it waits."""
        join = self.consumers[name].join
        assert join is not None
        return -1 if join.answer is None else int(join.answer.error_code)

    def sync(self, name: str) -> Ctx:
        """SyncGroup; the leader's has partitions for everybody."""
        consumer = self.consumers[name]
        assert consumer.join is not None and consumer.join.answer is not None, f"{name} is in no generation"
        answer = consumer.join.answer
        assert answer.error_code == ErrorCode.NONE, answer
        consumer.member_id, consumer.generation = answer.member_id, answer.generation_id
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=consumer.generation,
            member_id=consumer.member_id,
            group_instance_id=consumer.instance,
            protocol_type="consumer",
            protocol_name=answer.protocol_name,
            assignments=_shares([member.member_id for member in answer.members]),
        )
        ctx = self.world.ask(name, "sync", request, 5)
        self.hear()
        return ctx

    def heartbeat(self, name: str) -> int:
        consumer = self.consumers[name]
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=consumer.generation,
            member_id=consumer.member_id,
            group_instance_id=consumer.instance,
        )
        error = self.world.coordinator.heartbeat(request, self.world.now_ms)
        self.hear()
        return int(error)

    def commit(self, name: str) -> None:
        """OffsetCommit of one partition: a sign that its application polls."""
        consumer = self.consumers[name]
        place = OffsetCommitRequestPartition(partition_index=0, committed_offset=self.world.now_ms)
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=consumer.generation,
            member_id=consumer.member_id,
            group_instance_id=consumer.instance,
            topics=[OffsetCommitRequestTopic(name="orders", partitions=[place])],
        )
        self.world.ask(name, "commit_offsets", request, 8)
        self.hear()

    def leave(self, name: str, reason: str | None = None) -> None:
        """LeaveGroup. The connection stays; see `disconnect`."""
        identity = MemberIdentity(member_id=self.consumers[name].member_id, reason=reason)
        self.world.ask(name, "leave", LeaveGroupRequest(group_id=GROUP, members=[identity]), 5)
        self.hear()

    def disconnect(self, name: str) -> None:
        """Its connection is lost."""
        member_id = self.consumers[name].member_id
        now_ms, wall_ms = self.world.now_ms, self.world.wall_ms
        self.world.coordinator.disconnected(GROUP, member_id, name, "/127.0.0.1", now_ms, wall_ms)
        self.hear()

    def close(self, name: str, reason: str | None = "the consumer is being closed") -> None:
        """A clean end."""
        self.leave(name, reason)
        self.advance(0.005)
        self.disconnect(name)

    # -- what all do

    def form(self, names: Iterable[str], **options: Any) -> None:
        """A Stable group of these, out of an empty one."""
        names = tuple(names)
        for name in names:
            self.join(
                name, **{key: value[name] if isinstance(value, dict) else value for key, value in options.items()}
            )
        self.advance(2 * INITIAL_DELAY_MS / 1000)
        self.finish(names)

    def finish(self, names: Iterable[str]) -> None:
        """All have been answered their JoinGroup; they sync."""
        synced = {name: self.sync(name) for name in names}
        assert all(ctx.answer.error_code == ErrorCode.NONE for ctx in synced.values()), synced

    def rebalance(self, names: Iterable[str]) -> None:
        """All of these that do not wait already see the rebalance by a heartbeat, rejoin and sync."""
        names = tuple(names)
        for name in [name for name in names if self.error(name) != -1]:
            assert self.heartbeat(name) == ErrorCode.REBALANCE_IN_PROGRESS, name
            self.join(name)
            self.advance(0.02)
        self.finish(names)

    def live(self, names: Iterable[str], seconds: int, busy: str = "") -> None:
        """These heartbeat and commit once a second; who is busy heartbeats only."""
        names = tuple(names)
        for _ in range(seconds):
            self.advance(1)
            for name in names:
                if self.heartbeat(name) == ErrorCode.NONE and name != busy:
                    self.commit(name)

    def advance(self, seconds: float) -> None:
        self.world.advance_to(self.world.now_ms + int(seconds * 1000))
        self.hear()

    # -- what is told

    def hear(self) -> None:
        """Let the history have what has happened since last time."""
        for event in self.world.events:
            self.history(event)
        self.world.events.clear()

    @property
    def episodes(self) -> list[Episode]:
        return self.history.episodes(GROUP)

    @property
    def now(self) -> int:
        """Unix time in milliseconds."""
        return self.world.wall_ms

    def _ask_join(self, consumer: Consumer, reason: str) -> None:
        metadata = encode_subscription(Subscription(topics=list(consumer.topics)), 0)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=consumer.session_ms,
            rebalance_timeout_ms=consumer.rebalance_ms,
            member_id=consumer.member_id,
            group_instance_id=consumer.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in consumer.assignors],
            reason=reason or None,
        )
        consumer.join = self.world.ask(consumer.name, "join", request, 9)
        self.hear()


def _shares(member_ids: list[str]) -> list[SyncGroupRequestAssignment]:
    """The partitions dealt out in turn; nothing from who does not lead, who is told of no members."""
    shares = []
    for at, member_id in enumerate(member_ids):
        mine = ConsumerTopicPartitions(topic="orders", partitions=list(range(at, PARTITIONS, len(member_ids))))
        assignment = encode_assignment(Assignment(assigned_partitions=[mine]))
        shares.append(SyncGroupRequestAssignment(member_id=member_id, assignment=assignment))
    return shares


def told(episode: Episode) -> tuple[str, str | None]:
    """Cause and culprit. The cause is what the culprit did, if somebody else began it."""
    if episode.culprit < 0:
        return episode.cause, None
    began = [trigger for trigger in episode.triggers if trigger.cause == episode.cause]
    own = [trigger.cause for trigger in episode.triggers if trigger.member == episode.culprit]
    is_own = any(trigger.member == episode.culprit for trigger in began)
    cause = episode.cause if is_own or not own else own[0]
    return cause, episode.members[episode.culprit].client_id
