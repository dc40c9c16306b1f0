"""DescribeProducers (key 61): who writes to a partition, and since when. KIP-664."""

from __future__ import annotations

from ottla.protocol.message_parts import TopicWithIndexes
from ottla.protocol.schema import ArrayOf, Int16, Int32, Int64, Message, String, Words, message, struct, wire


@message(versions=range(1), flexible_from=0)
class DescribeProducersRequest(Message):
    """Ask for the producers of partitions."""

    topics: list[TopicWithIndexes] = wire(ArrayOf(TopicWithIndexes))


@struct
class ProducerState:
    """A producer's last batch, and the first offset of its open transaction; -1 if it has none."""

    producer_id: int = wire(Int64)
    producer_epoch: int = wire(Int32)
    last_sequence: int = wire(Int32, default=-1)
    last_timestamp: int = wire(Int64, default=-1)
    coordinator_epoch: int = wire(Int32)
    current_txn_start_offset: int = wire(Int64, default=-1)


@struct
class PartitionResponse:
    """The producers that a partition remembers."""

    partition_index: int = wire(Int32)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0, default=None)
    active_producers: list[ProducerState] = wire(ArrayOf(ProducerState))


@struct
class TopicResponse:
    """The partitions of one topic."""

    name: str = wire(String)
    partitions: list[PartitionResponse] = wire(ArrayOf(PartitionResponse, repeats=True))


@message(versions=range(1), flexible_from=0)
class DescribeProducersResponse(Message):
    """The producers of each partition."""

    max_items = 1 << 20  # all that a cluster has may be asked for

    throttle_time_ms: int = wire(Int32)
    topics: list[TopicResponse] = wire(ArrayOf(TopicResponse))
