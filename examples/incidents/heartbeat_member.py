"""A member of the consumer protocol that only heartbeats (KIP-848), so that nothing happens but the incident.

It does as consumers do with what it is told to have: it gives up first what is not its own any more, and says so.
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from uuid import UUID

from examples.incidents.member import Member
from ottla.protocol.apis import ApiKey, api
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import frame_request
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)

VERSION = 1
EVERY_S = 1.0
LEAVES, IS_AWAY = -1, -2
HEADER = struct.calcsize(">i") + 1
"""Bytes before the body of an answer: the correlation id, and no tags."""


class Heartbeats:
    """See the module.

    Attributes:
        epoch, first: its epoch, and the first one that it had.
        owned: what it has; assigned: what it was told last to have.
        busy_until: until then it gives nothing up.
    """

    def __init__(self, member: Member) -> None:
        self._member = member
        host, _, port = member.bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._numbers = itertools.count(1)
        self._row = api(ApiKey.CONSUMER_GROUP_HEARTBEAT)
        self.member_id = f"{member.name}-{time.time_ns():x}"
        self.epoch = self.first = 0
        self.owned: set[tuple[UUID, int]] = set()
        self.assigned: set[tuple[UUID, int]] = set()
        self.busy_until = 0.0

    def beat(self, *, epoch: int | None = None) -> None:
        """Heartbeat, with all that there is to say."""
        is_busy = time.monotonic() < self.busy_until  # its application does not let go
        if not (is_busy and self.owned - self.assigned):
            self.owned = set(self.assigned)
        topics: dict[UUID, list[int]] = {}
        for topic_id, partition in sorted(self.owned, key=str):
            topics.setdefault(topic_id, []).append(partition)
        member, is_regex = self._member, self._member.topics[0].startswith("^")
        answer = self._ask(
            ConsumerGroupHeartbeatRequest(
                group_id=member.group,
                member_id=self.member_id,
                member_epoch=self.epoch if epoch is None else epoch,
                instance_id=member.instance_id,
                rebalance_timeout_ms=member.max_poll_interval_ms,
                subscribed_topic_names=None if is_regex else member.topics,
                subscribed_topic_regex=member.topics[0].removeprefix("^") if is_regex else None,
                topic_partitions=[
                    HeartbeatTopicPartitions(topic_id=topic_id, partitions=numbers)
                    for topic_id, numbers in topics.items()
                ],
            )
        )
        self._take(answer)

    def say_goodbye(self, epoch: int = LEAVES) -> None:
        """Leave for good, or for a while."""
        member = self._member
        self._ask(
            ConsumerGroupHeartbeatRequest(
                group_id=member.group, member_id=self.member_id, member_epoch=epoch, instance_id=member.instance_id
            )
        )

    def _take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        if answer.error_code:
            self._member.trouble(ErrorCode(answer.error_code).name)
            self.epoch, self.owned, self.assigned = 0, set(), set()  # it gives up all that it has, and joins again
            return
        self.epoch = answer.member_epoch
        self.first = self.first or self.epoch
        if answer.assignment is not None:
            self.assigned = {
                (topic.topic_id, partition)
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            }
            self._member.report.event("assigned", partitions=len(self.assigned), epoch=self.epoch)

    def _ask(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        body = ConsumerGroupHeartbeatRequest.layout(VERSION).encode(request)
        number = next(self._numbers)
        key = ApiKey.CONSUMER_GROUP_HEARTBEAT
        self._socket.sendall(frame_request(key, VERSION, number, self._member.name, body, flexible=True))
        (size,) = struct.unpack(">i", self._read(4))
        answer: ConsumerGroupHeartbeatResponse = ConsumerGroupHeartbeatResponse.layout(VERSION).decode(
            self._read(size)[HEADER:]
        )
        return answer

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            data += piece
        return data


def run(member: Member) -> None:
    """Heartbeat every second until told to stop, then leave; a static member goes for a while."""
    one = Heartbeats(member)
    while not member.stopping:
        epoch = None
        if command := member.command():
            match command:
                case "flush", seconds:
                    one.busy_until = time.monotonic() + float(seconds)
                case "restore", _:
                    epoch = one.first
        one.beat(epoch=epoch)
        time.sleep(EVERY_S)
    one.say_goodbye(LEAVES if member.instance_id is None else IS_AWAY)
