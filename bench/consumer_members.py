"""Members of consumer groups, of the protocol of KIP-848, as the benchmarks need them: many, and each with a socket."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence
from uuid import UUID, uuid4

from servers import ANSWER_SECONDS, BenchError, Load, Server, ask, framed

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

VERSION, CREATE_TOPICS_VERSION = 1, 5
REBALANCE_TIMEOUT_MS = 300_000
NOT_READY = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE})
STEP_SECONDS, RETRY_SECONDS = 0.01, 0.2
BODY_AT = 5
"""In a response behind its length: correlation id, header tags."""
ERROR_AT = 13
"""In a response with its length."""


def create(server: Server, topic: str, partitions: int) -> None:
    """Make a topic."""
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    ask(server, CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), CREATE_TOPICS_VERSION)


class ConsumerMember:
    """One member, that has at once what it is given and lets go at once of what it has to.

    Attributes:
        owned: the partitions, by topic.
        due: when it has to heartbeat again; None while an answer is on its way.
    """

    def __init__(self, server: Server, group_id: str, topic: str) -> None:
        self.group_id, self.member_id, self.epoch = group_id, str(uuid4()), 0
        self.owned: dict[UUID, list[int]] = {}
        self.due: float | None = 0.0
        self._topic = topic
        self._has_news = False
        self._address = server.host, server.port
        self._held = b""
        self.connect()

    def connect(self) -> None:
        """Connect, or connect again after `close`."""
        self._socket = socket.create_connection(self._address, timeout=ANSWER_SECONDS)

    def close(self) -> None:
        """Close the connection; the member stays in its group."""
        self._socket.close()

    def fileno(self) -> int:
        """Of its connection, so that it can be waited for."""
        return self._socket.fileno()

    def nothing_new(self) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat of a member to which nothing happens."""
        return ConsumerGroupHeartbeatRequest(group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch)

    def heartbeat(self) -> None:
        """Join, or say what it owns if that has changed, or only that it is there."""
        request = self.nothing_new()
        if not self.epoch:
            request.rebalance_timeout_ms, request.subscribed_topic_names = REBALANCE_TIMEOUT_MS, [self._topic]
            request.topic_partitions = []
        elif self._has_news:
            request.topic_partitions = [
                HeartbeatTopicPartitions(topic_id=topic, partitions=owned) for topic, owned in self.owned.items()
            ]
        self._has_news = False
        self.due = None
        self._socket.sendall(framed(request, VERSION))

    def receive(self, interval_s: float | None) -> None:
        """Take what has come, and note when the next heartbeat is due: at once if there is something to say, else after
        the interval; None is the one that the server tells.
        """
        self._held += (more := self._socket.recv(1 << 20))
        if not more:
            raise BenchError("the server closed the connection of a member")
        size = int.from_bytes(self._held[:4], "big")
        if len(self._held) < 4 + size:
            return
        answer: ConsumerGroupHeartbeatResponse = ConsumerGroupHeartbeatResponse.layout(VERSION).decode(
            self._held[4 : 4 + size], BODY_AT
        )
        self._held = b""
        told_s = answer.heartbeat_interval_ms / 1000 or RETRY_SECONDS
        self.due = time.monotonic() + (told_s if interval_s is None else interval_s)
        if answer.error_code in NOT_READY:
            return
        if answer.error_code:
            raise BenchError(f"ConsumerGroupHeartbeat of {self.group_id} answered error {answer.error_code}")
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {one.topic_id: one.partitions for one in answer.assignment.topic_partitions}
            self._has_news = True
            self.due = 0.0

    @property
    def is_settled(self) -> bool:
        """Whether it has nothing to say, and hears nothing."""
        return self.due != 0.0 and self.due is not None and not self._has_news


def balance(
    members: Sequence[ConsumerMember], partitions: int, interval_s: float | None = None, patience_s: float = 300.0
) -> float:
    """Have the members of one group join and heartbeat until all have the last epoch and each partition one owner.

    Returns how long it took, in seconds.

    Raises:
        BenchError: they did not get that far in time, or the server refused one.
    """
    began = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for member in members:
            selector.register(member, selectors.EVENT_READ, member)
        while not is_balanced(members, partitions):
            now = time.monotonic()
            if now > began + patience_s:
                owned = sum(len(one) for member in members for one in member.owned.values())
                raise BenchError(f"{owned} of {partitions} partitions have an owner after {patience_s:g} s")
            for member in members:
                if member.due is not None and member.due <= now:
                    member.heartbeat()
            for key, _ in selector.select(STEP_SECONDS):
                key.data.receive(interval_s)
    return time.monotonic() - began


def is_balanced(members: Sequence[ConsumerMember], partitions: int) -> bool:
    """Whether the group has come to rest."""
    if not all(member.is_settled for member in members) or len({member.epoch for member in members}) > 1:
        return False
    counts = [sum(map(len, member.owned.values())) for member in members]
    if max(counts) - min(counts) > 1:  # the first members have more than their share, as yet
        return False
    owned = [(topic, one) for member in members for topic, ones in member.owned.items() for one in ones]
    return len(owned) == len(set(owned)) == partitions


def heartbeats(server: Server, members: Sequence[ConsumerMember]) -> Load:
    """Heartbeats of members to whom nothing happens."""
    answers = [ask(server, member.nothing_new(), VERSION) for member in members]
    frames = [framed(member.nothing_new(), VERSION)[4:] for member in members]
    lengths = {len(answer) for answer in answers}
    if len(lengths) != 1:
        raise BenchError(f"{server.name}: members of a settled group are answered {sorted(lengths)} bytes")
    return Load(frames, 4 + 4 + lengths.pop(), ERROR_AT)
