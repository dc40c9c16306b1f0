"""OffsetDelete (key 47). KIP-496."""

from __future__ import annotations

from ottla.protocol.message_parts import TopicOutcome
from ottla.protocol.schema import ArrayOf, Int16, Int32, Message, String, message, struct, wire


@struct
class OffsetDeleteRequestPartition:
    """A partition whose committed offset is to go."""

    partition_index: int = wire(Int32)


@struct
class OffsetDeleteRequestTopic:
    """The partitions of one topic."""

    name: str = wire(String)
    partitions: list[OffsetDeleteRequestPartition] = wire(ArrayOf(OffsetDeleteRequestPartition))


@message(versions=range(1))
class OffsetDeleteRequest(Message):
    """Delete committed offsets of topics that the group does not subscribe to."""

    group_id: str = wire(String)
    topics: list[OffsetDeleteRequestTopic] = wire(ArrayOf(OffsetDeleteRequestTopic))


@message(versions=range(1))
class OffsetDeleteResponse(Message):
    """The outcome; never flexible."""

    error_code: int = wire(Int16)
    throttle_time_ms: int = wire(Int32)
    topics: list[TopicOutcome] = wire(ArrayOf(TopicOutcome))
