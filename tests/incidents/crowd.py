"""Consumers in a world with injected time: they join, sync and heartbeat as real ones do, and do wrong when told to.

What the coordinator tells of it goes into a `History`, as it does in a broker.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.broker.core.groups.config import GroupConfig
from ottla.observe.why.history import History
from ottla.observe.why.model import Episode
from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_protocol import (
    Assignment,
    ConsumerTopicPartitions,
    Subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.errors import ErrorCode
from tests.core.world import Ctx, World
from tests.support.group_member import GroupMember, Send

PARTITIONS = 6
GROUP = "billing"
INITIAL_DELAY_MS = 3_000
BUDGET_BYTES = 1 << 20
ENTRIES = {
    ApiKey.JOIN_GROUP: "join",
    ApiKey.SYNC_GROUP: "sync",
    ApiKey.OFFSET_COMMIT: "commit_offsets",
    ApiKey.LEAVE_GROUP: "leave",
}


class Consumer(GroupMember):
    """The state of a client, and the role it was given.

    Attributes:
        joining: its last JoinGroup.
    """

    def __init__(self, send: Send) -> None:
        super().__init__(send, GROUP, session_ms=6_000, rebalance_ms=6_000)
        self.joining: Ctx | None = None
        self.be()

    def be(self, *, assignors: Iterable[str] = ("range",), topics: Iterable[str] = ("orders",), **options: Any) -> None:
        """Options of the client, as others than those it has."""
        metadata = encode_subscription(Subscription(topics=list(topics)), 0)
        self.protocols = dict.fromkeys(assignors, metadata)
        for option, value in options.items():
            setattr(self, option, value)


class Crowd:
    """See the module."""

    def __init__(self, settings: dict[str, Any] | None = None) -> None:
        self.world = World(GroupConfig(group_initial_rebalance_delay_ms=INITIAL_DELAY_MS, **settings or {}))
        self.world.load()
        self.history = History(dict, BUDGET_BYTES)
        self.consumers: dict[str, Consumer] = {}

    # -- what one consumer does

    def _carrier(self, name: str) -> Send:
        def send(key: ApiKey, version: int, message: Any) -> Any:
            if key is ApiKey.HEARTBEAT:
                answer: Any = self.world.coordinator.heartbeat(message, self.world.now_ms)
            else:
                answer = self.world.ask(name, ENTRIES[key], message, version)
            self.hear()
            return answer

        return send

    def join(self, name: str, reason: str = "", **options: Any) -> int:
        """JoinGroup, twice if an id is issued first; gives the error, -1 while it waits."""
        consumer = self.consumers.setdefault(name, Consumer(self._carrier(name)))
        if options:
            consumer.be(**options)
        for _ in range(2):
            consumer.joining = consumer.join(reason=reason or None)
            if self.error(name) != ErrorCode.MEMBER_ID_REQUIRED:
                break
            consumer.learn(consumer.joining.answer)
        return self.error(name)

    def restarted(self, name: str, **options: Any) -> int:
        """The same application in a new process: it remembers nothing."""
        self.consumers[name].member_id = ""
        return self.join(name, **options)

    def error(self, name: str) -> int:
        """Of its last JoinGroup; -1 while it waits."""
        joining = self.consumers[name].joining
        assert joining is not None
        return -1 if joining.answer is None else int(joining.answer.error_code)

    def sync(self, name: str) -> Ctx:
        """SyncGroup; the leader's has partitions for everybody."""
        consumer = self.consumers[name]
        assert consumer.joining is not None and consumer.joining.answer is not None, f"{name} is in no generation"
        answer = consumer.joining.answer
        assert consumer.learn(answer), answer
        ctx: Ctx = consumer.sync(_shares([member.member_id for member in answer.members]))
        return ctx

    def heartbeat(self, name: str) -> int:
        return int(self.consumers[name].heartbeat())

    def commit(self, name: str) -> None:
        """OffsetCommit of one partition: a sign that its application polls."""
        self.consumers[name].commit([("orders", 0, self.world.now_ms)], metadata=None)

    def leave(self, name: str, reason: str | None = None) -> None:
        """LeaveGroup. The connection stays; see `disconnect`."""
        self.consumers[name].leave(reason=reason)

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


def _shares(member_ids: list[str]) -> dict[str, bytes]:
    """The partitions dealt out in turn; nothing from who does not lead, who is told of no members."""
    shares = {}
    for at, member_id in enumerate(member_ids):
        mine = ConsumerTopicPartitions(topic="orders", partitions=list(range(at, PARTITIONS, len(member_ids))))
        shares[member_id] = encode_assignment(Assignment(assigned_partitions=[mine]))
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
