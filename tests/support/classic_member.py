"""A member of the classic protocol that does as Java's client does, over whatever carries its requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.consumer_protocol import (
    Assignment,
    ConsumerTopicPartitions,
    Subscription,
    assigned_partitions,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.protocol.errors import ErrorCode
from tests.support.requests import by_topic, heartbeat_fields, join_fields, leave_fields, request, sync_fields

Partition = tuple[str, int]

LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID)
"""Errors after which a member has nothing any more, and joins again."""


class ClassicMember:
    """The state of a member, and its requests.

    Args:
        send: takes a JoinGroup or a SyncGroup. Its answer is to be given to `learn`, before the next request.
        beat: takes a Heartbeat and answers it.
        partition_counts: how many partitions each topic has; a leader asks.
        cooperative: it keeps what it has while it joins, as far as it may (KIP-429).

    Attributes:
        owned: what it reads from.
        leads: it was told that it leads: its group is a classic one.
    """

    def __init__(
        self,
        send: Callable[[Any], None],
        beat: Callable[[Any], int],
        partition_counts: Callable[[], Mapping[str, int]],
        group: str,
        *,
        instance: str | None = None,
        cooperative: bool = False,
        session_ms: int = 30_000,
        rebalance_ms: int = 60_000,
    ) -> None:
        self._send = send
        self._beat = beat
        self._partition_counts = partition_counts
        self.group = group
        self.instance = instance
        self.cooperative = cooperative
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.topics = ["t"]
        self.member_id = ""
        self.generation = -1
        self.owned: frozenset[Partition] = frozenset()
        self.has_to_join = True
        self.leads = False
        self._protocol: str | None = None
        self._members: list[Any] = []
        self._has_to_sync = False

    @property
    def has_joined(self) -> bool:
        """Whether it was told what it has, and has nothing to do but heartbeats."""
        return not self.has_to_join and not self._has_to_sync

    def crash(self) -> None:
        """Begin anew, as another process."""
        self.member_id = ""
        self._forget()

    def _forget(self) -> None:
        self.generation = -1
        self.owned = frozenset()
        self.has_to_join, self._has_to_sync = True, False

    # Requests

    def act(self) -> None:
        """Do what is to be done next."""
        if self.has_to_join:
            self._join()
        elif self._has_to_sync:
            self._sync()
        else:
            self._heartbeat()

    def leave(self) -> Any:
        """The LeaveGroup with which it goes; it forgets everything."""
        leaving = request(ApiKey.LEAVE_GROUP, leave_fields(self.group, (self.member_id, self.instance)))
        self.crash()
        return leaving

    def _join(self) -> None:
        if not self.cooperative:
            self.owned = frozenset()
        subscription = Subscription(topics=self.topics, owned_partitions=_rows(self.owned))
        protocols = {"cooperative-sticky": encode_subscription(subscription)}
        fields = join_fields(
            self.group,
            member_id=self.member_id,
            instance=self.instance,
            protocols=protocols,
            session_ms=self.session_ms,
            rebalance_ms=self.rebalance_ms,
        )
        self._send(request(ApiKey.JOIN_GROUP, fields))

    def _sync(self) -> None:
        fields = sync_fields(
            self.group,
            self.generation,
            self.member_id,
            self._assignments() if self.leads else (),
            instance=self.instance,
            protocol_name=self._protocol,
        )
        self._send(request(ApiKey.SYNC_GROUP, fields))

    def _assignments(self) -> list[tuple[str, bytes]]:
        """What a leader gives: nobody gets what another one still has."""
        said = {member.member_id: decode_subscription(member.metadata) for member in self._members}
        owner = {
            (one.topic, number): member_id
            for member_id, subscription in said.items()
            for one in subscription.owned_partitions
            for number in one.partitions
        }
        given: dict[str, list[Partition]] = {member_id: [] for member_id in said}
        for topic, count in self._partition_counts().items():
            takers = sorted(member_id for member_id, subscription in said.items() if topic in subscription.topics)
            for number in range(count if takers else 0):
                taker = takers[number % len(takers)]
                if owner.get((topic, number), taker) == taker:
                    given[taker].append((topic, number))
        return [
            (member_id, encode_assignment(Assignment(assigned_partitions=_rows(partitions))))
            for member_id, partitions in given.items()
        ]

    def _heartbeat(self) -> None:
        fields = heartbeat_fields(self.group, self.generation, self.member_id, self.instance)
        error = self._beat(request(ApiKey.HEARTBEAT, fields))
        if error == ErrorCode.REBALANCE_IN_PROGRESS:
            self.has_to_join = True
        elif error in LOST:
            self._lose(error)

    # Answers

    def learn(self, answer: Any) -> None:
        """Take the answer to a JoinGroup or SyncGroup in."""
        if hasattr(answer, "leader"):
            self._learn_joined(answer)
        elif not answer.error_code:
            self._learn_assignment(answer)
        elif answer.error_code in LOST:
            self._lose(answer.error_code)
        else:
            self.has_to_join, self._has_to_sync = True, False

    def _learn_joined(self, answer: Any) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif answer.error_code in LOST:
            self._lose(answer.error_code)
        elif not answer.error_code:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self._protocol, self._members = answer.protocol_name, answer.members
            self.leads = answer.leader == answer.member_id
            self.has_to_join, self._has_to_sync = False, True

    def _learn_assignment(self, answer: Any) -> None:
        assigned = frozenset(assigned_partitions(answer.assignment) if answer.assignment else ())
        self._has_to_sync = False
        if self.cooperative and self.owned - assigned:
            self.has_to_join = True  # others may have what it lets go
        self.owned = assigned

    def _lose(self, error: int) -> None:
        if error != ErrorCode.ILLEGAL_GENERATION:
            self.member_id = ""
        self._forget()


def _rows(partitions: Any) -> list[ConsumerTopicPartitions]:
    return [
        ConsumerTopicPartitions(topic=topic, partitions=numbers)
        for topic, numbers in by_topic(sorted(partitions)).items()
    ]
