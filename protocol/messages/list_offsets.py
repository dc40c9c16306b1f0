"""ListOffsets (key 2): offsets by time, and the ends of logs. KIP-79, KIP-734."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int8, Int16, Int32, Int64, Message, String, message, struct, wire


@struct
class ListOffsetsPartition:
    """A partition and a time in ms; -1 latest, -2 earliest, -3 the record of maximum timestamp, -4 earliest local,
    -5 latest tiered, -6 earliest pending upload.
    """

    partition_index: int = wire(Int32)
    current_leader_epoch: int = wire(Int32, since=4, default=-1)
    timestamp: int = wire(Int64)
    max_num_offsets: int = wire(Int32, until=0, default=1)


@struct
class ListOffsetsTopic:
    """The partitions of one topic."""

    name: str = wire(String)
    partitions: list[ListOffsetsPartition] = wire(ArrayOf(ListOffsetsPartition))


@message(versions=range(1, 12), flexible_from=6)
class ListOffsetsRequest(Message):
    """Ask for offsets by time."""

    replica_id: int = wire(Int32)
    isolation_level: int = wire(Int8, since=2)
    topics: list[ListOffsetsTopic] = wire(ArrayOf(ListOffsetsTopic))
    timeout_ms: int = wire(Int32, since=10)


@struct
class ListOffsetsPartitionResponse:
    """The first offset at or after the time; -1 if there is none."""

    partition_index: int = wire(Int32)
    error_code: int = wire(Int16)
    old_style_offsets: list[int] = wire(ArrayOf(Int64), until=0)
    timestamp: int = wire(Int64, default=-1)
    offset: int = wire(Int64, default=-1)
    leader_epoch: int = wire(Int32, since=4, default=-1)


@struct
class ListOffsetsTopicResponse:
    """The partitions of one topic."""

    name: str = wire(String)
    partitions: list[ListOffsetsPartitionResponse] = wire(ArrayOf(ListOffsetsPartitionResponse))


@message(versions=range(1, 12), flexible_from=6)
class ListOffsetsResponse(Message):
    """Offsets by partition."""

    throttle_time_ms: int = wire(Int32, since=2)
    topics: list[ListOffsetsTopicResponse] = wire(ArrayOf(ListOffsetsTopicResponse))
