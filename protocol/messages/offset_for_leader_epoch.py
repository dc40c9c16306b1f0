"""OffsetForLeaderEpoch (key 23): where a leader epoch ends. KIP-101, KIP-320."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int16, Int32, Int64, Message, String, message, struct, wire


@struct
class OffsetForLeaderPartition:
    """A partition and the epoch to look up."""

    partition: int = wire(Int32)
    current_leader_epoch: int = wire(Int32, default=-1)
    leader_epoch: int = wire(Int32)


@struct
class OffsetForLeaderTopic:
    """The partitions of one topic."""

    topic: str = wire(String)
    partitions: list[OffsetForLeaderPartition] = wire(ArrayOf(OffsetForLeaderPartition))


@message(versions=range(2, 5), flexible_from=4)
class OffsetForLeaderEpochRequest(Message):
    """Ask where epochs end, to find out whether a log was truncated."""

    replica_id: int = wire(Int32, since=3, default=-2)
    topics: list[OffsetForLeaderTopic] = wire(ArrayOf(OffsetForLeaderTopic))


@struct
class EpochEndOffset:
    """The end offset of the largest epoch not above the one asked for."""

    error_code: int = wire(Int16)
    partition: int = wire(Int32)
    leader_epoch: int = wire(Int32, default=-1)
    end_offset: int = wire(Int64, default=-1)


@struct
class OffsetForLeaderTopicResult:
    """The partitions of one topic."""

    topic: str = wire(String)
    partitions: list[EpochEndOffset] = wire(ArrayOf(EpochEndOffset))


@message(versions=range(2, 5), flexible_from=4)
class OffsetForLeaderEpochResponse(Message):
    """The end offset of each epoch."""

    throttle_time_ms: int = wire(Int32)
    topics: list[OffsetForLeaderTopicResult] = wire(ArrayOf(OffsetForLeaderTopicResult))
