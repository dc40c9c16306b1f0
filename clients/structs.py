"""Small values that the clients take and return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

from ottla.protocol.records import TimestampType as TimestampType
from ottla.protocol.records import TopicPartition as TopicPartition

EARLIEST = -2
LATEST = -1
"""Times that stand for the beginning and the end of a log (ListOffsets)."""
K = TypeVar("K")
V = TypeVar("V")


class ConsumerRecord(NamedTuple, Generic[K, V]):
    """A record as a consumer gets it; ``timestamp`` in Unix ms."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: K
    value: V
    headers: Sequence[tuple[str, bytes | None]] = ()
    leader_epoch: int = -1

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


Records = dict[TopicPartition, list[ConsumerRecord[Any, Any]]]


class RecordMetadata(NamedTuple):
    """The place of a produced record. ``offset`` is -1 if the broker was not asked (acks=0), or did not say."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class OffsetAndMetadata(NamedTuple):
    """An offset to commit, or a committed one: the next record to read, and a note of at most 4,096 bytes."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class ConsumerGroupMetadata(NamedTuple):
    """A consumer as a member of its group, for `Producer.send_offsets_to_transaction`: the coordinator then refuses
    offsets of a member that the group has left behind (KIP-447).
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class AutoCommitting(ConsumerGroupMetadata):
    """A member whose consumer also commits by itself, and so does not wait for the transaction."""

    __slots__ = ()


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time; ``timestamp`` in Unix ms."""

    offset: int
    timestamp: int
    leader_epoch: int = -1


class BrokerInfo(NamedTuple):
    """A broker and the address at which it is reached."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionInfo(NamedTuple):
    """A partition as cluster metadata has it. ``leader_id`` is -1 while there is none."""

    topic: str
    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


class TopicInfo(NamedTuple):
    """A topic as cluster metadata has it."""

    topic: str
    topic_id: UUID
    is_internal: bool
    partitions: dict[int, PartitionInfo]
