"""ListPartitionReassignments (key 46): moves of replicas that are under way. KIP-455."""

from __future__ import annotations

from ottla.protocol.message_parts import TopicWithIndexes
from ottla.protocol.schema import ArrayOf, Int16, Int32, Message, String, Words, message, struct, wire


@message(versions=range(1), flexible_from=0)
class ListPartitionReassignmentsRequest(Message):
    """Ask which of these partitions are being moved; null for all."""

    timeout_ms: int = wire(Int32, default=60000)
    topics: list[TopicWithIndexes] | None = wire(ArrayOf(TopicWithIndexes), nullable_since=0, default=None)


@struct
class OngoingPartitionReassignment:
    """A partition on its way: the brokers that hold it, those that will, and those that will not."""

    partition_index: int = wire(Int32)
    replicas: list[int] = wire(ArrayOf(Int32))
    adding_replicas: list[int] = wire(ArrayOf(Int32))
    removing_replicas: list[int] = wire(ArrayOf(Int32))


@struct
class OngoingTopicReassignment:
    """The partitions of one topic."""

    name: str = wire(String)
    partitions: list[OngoingPartitionReassignment] = wire(ArrayOf(OngoingPartitionReassignment))


@message(versions=range(1), flexible_from=0)
class ListPartitionReassignmentsResponse(Message):
    """The moves that are under way."""

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16)
    error_message: str | None = wire(Words, nullable_since=0)
    topics: list[OngoingTopicReassignment] = wire(ArrayOf(OngoingTopicReassignment))
