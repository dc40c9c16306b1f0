"""AlterPartitionReassignments (key 45): move the replicas of partitions. KIP-455, KIP-860."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Boolean, Int16, Int32, Message, String, Words, message, struct, wire


@struct
class ReassignablePartition:
    """The brokers that shall hold a partition; null gives up a move that is under way."""

    partition_index: int = wire(Int32)
    replicas: list[int] | None = wire(ArrayOf(Int32), nullable_since=0, default=None)


@struct
class ReassignableTopic:
    """The partitions of one topic."""

    name: str = wire(String)
    partitions: list[ReassignablePartition] = wire(ArrayOf(ReassignablePartition))


@message(versions=range(2), flexible_from=0)
class AlterPartitionReassignmentsRequest(Message):
    """Move partitions to other brokers, or give such moves up."""

    timeout_ms: int = wire(Int32, default=60000)
    allow_replication_factor_change: bool = wire(Boolean, since=1, default=True)
    topics: list[ReassignableTopic] = wire(ArrayOf(ReassignableTopic))


@struct
class ReassignablePartitionResponse:
    """The outcome for one partition."""

    partition_index: int = wire(Int32)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)


@struct
class ReassignableTopicResponse:
    """The partitions of one topic."""

    name: str = wire(String)
    partitions: list[ReassignablePartitionResponse] = wire(ArrayOf(ReassignablePartitionResponse))


@message(versions=range(2), flexible_from=0)
class AlterPartitionReassignmentsResponse(Message):
    """The outcome for each partition."""

    throttle_time_ms: int = wire(Int32)
    allow_replication_factor_change: bool = wire(Boolean, since=1, default=True)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)
    responses: list[ReassignableTopicResponse] = wire(ArrayOf(ReassignableTopicResponse))
