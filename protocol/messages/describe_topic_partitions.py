"""DescribeTopicPartitions (key 75): topics in pages. KIP-966."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol.schema import ArrayOf, Boolean, Int16, Int32, Message, String, Uuid, message, struct, wire


@struct
class TopicRequest:
    """A topic by name."""

    name: str = wire(String)


@struct
class Cursor:
    """The end of a page: the first partition to describe on the next."""

    topic_name: str = wire(String)
    partition_index: int = wire(Int32)


@message(versions=range(1), flexible_from=0)
class DescribeTopicPartitionsRequest(Message):
    """Ask for topics, at most so many partitions at a time; an empty list asks for all."""

    topics: list[TopicRequest] = wire(ArrayOf(TopicRequest))
    response_partition_limit: int = wire(Int32, default=2000)
    cursor: Cursor | None = wire(Cursor, nullable_since=0, default=None)


@struct
class DescribeTopicPartitionsResponsePartition:
    """A partition: its leader, replicas, and who else could lead (KIP-966)."""

    error_code: int = wire(Int16)
    partition_index: int = wire(Int32)
    leader_id: int = wire(Int32)
    leader_epoch: int = wire(Int32, default=-1)
    replica_nodes: list[int] = wire(ArrayOf(Int32))
    isr_nodes: list[int] = wire(ArrayOf(Int32))
    eligible_leader_replicas: list[int] | None = wire(ArrayOf(Int32), nullable_since=0, default=None)
    last_known_elr: list[int] | None = wire(ArrayOf(Int32), nullable_since=0, default=None)
    offline_replicas: list[int] = wire(ArrayOf(Int32))


@struct
class DescribeTopicPartitionsResponseTopic:
    """A topic with those of its partitions that are on this page."""

    error_code: int = wire(Int16)
    name: str | None = wire(String, nullable_since=0)
    topic_id: UUID = wire(Uuid)
    is_internal: bool = wire(Boolean)
    partitions: list[DescribeTopicPartitionsResponsePartition] = wire(ArrayOf(DescribeTopicPartitionsResponsePartition))
    topic_authorized_operations: int = wire(Int32, default=-2147483648)


@message(versions=range(1), flexible_from=0)
class DescribeTopicPartitionsResponse(Message):
    """A page of topics in order of their names, and where the next begins; null after the last."""

    throttle_time_ms: int = wire(Int32)
    topics: list[DescribeTopicPartitionsResponseTopic] = wire(ArrayOf(DescribeTopicPartitionsResponseTopic))
    next_cursor: Cursor | None = wire(Cursor, nullable_since=0, default=None)
