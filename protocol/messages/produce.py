"""Produce (key 0): append record batches. KIP-98, KIP-467, KIP-951."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol.message_parts import LeaderIdAndEpoch, NodeEndpoint
from ottla.protocol.schema import (
    ArrayOf,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    String,
    Uuid,
    Words,
    message,
    struct,
    wire,
)


@struct
class PartitionProduceData:
    """Record batches for one partition."""

    index: int = wire(Int32)
    records: bytes | memoryview | None = wire(Records, nullable_since=0)


@struct
class TopicProduceData:
    """The partitions of one topic."""

    name: str = wire(String, until=12)
    topic_id: UUID = wire(Uuid, since=13)
    partition_data: list[PartitionProduceData] = wire(ArrayOf(PartitionProduceData))


@message(versions=range(3, 14), flexible_from=9)
class ProduceRequest(Message):
    """Append record batches. acks=0 is never answered."""

    transactional_id: str | None = wire(String, nullable_since=3, default=None)
    acks: int = wire(Int16)
    timeout_ms: int = wire(Int32)
    topic_data: list[TopicProduceData] = wire(ArrayOf(TopicProduceData))


@struct
class BatchIndexAndErrorMessage:
    """A record that was refused, and why (KIP-467)."""

    batch_index: int = wire(Int32, since=8)
    batch_index_error_message: str | None = wire(Words, since=8, nullable_since=8, default=None)


@struct
class PartitionProduceResponse:
    """The base offset given to the batch, or why it was refused."""

    index: int = wire(Int32)
    error_code: int = wire(Int16)
    base_offset: int = wire(Int64)
    log_append_time_ms: int = wire(Int64, default=-1)
    log_start_offset: int = wire(Int64, since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = wire(ArrayOf(BatchIndexAndErrorMessage), since=8)
    error_message: str | None = wire(Words, since=8, nullable_since=8, default=None)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch, since=10, tag=0)


@struct
class TopicProduceResponse:
    """The partitions of one topic."""

    name: str = wire(String, until=12)
    topic_id: UUID = wire(Uuid, since=13)
    partition_responses: list[PartitionProduceResponse] = wire(ArrayOf(PartitionProduceResponse))


@message(versions=range(3, 14), flexible_from=9)
class ProduceResponse(Message):
    """The outcome for each partition. throttle_time_ms stands last here."""

    responses: list[TopicProduceResponse] = wire(ArrayOf(TopicProduceResponse))
    throttle_time_ms: int = wire(Int32)
    node_endpoints: list[NodeEndpoint] = wire(ArrayOf(NodeEndpoint), since=10, tag=0)
