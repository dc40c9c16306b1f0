"""OffsetCommit (key 8). KIP-211, KIP-320, KIP-345."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol.message_parts import PartitionOutcome
from ottla.protocol.schema import ArrayOf, Int32, Int64, Message, String, Uuid, message, struct, wire


@struct
class OffsetCommitRequestPartition:
    """The offset to commit for a partition."""

    partition_index: int = wire(Int32)
    committed_offset: int = wire(Int64)
    committed_leader_epoch: int = wire(Int32, since=6, default=-1)
    commit_timestamp: int = wire(Int64, until=1, default=-1)
    committed_metadata: str | None = wire(String, nullable_since=0)


@struct
class OffsetCommitRequestTopic:
    """The partitions of one topic."""

    name: str = wire(String, until=9)
    topic_id: UUID = wire(Uuid, since=10)
    partitions: list[OffsetCommitRequestPartition] = wire(ArrayOf(OffsetCommitRequestPartition))


@message(versions=range(2, 11), flexible_from=8)
class OffsetCommitRequest(Message):
    """Commit offsets, as a member of a generation or (generation -1) for a group without members."""

    group_id: str = wire(String)
    generation_id_or_member_epoch: int = wire(Int32, default=-1)
    member_id: str = wire(String)
    group_instance_id: str | None = wire(String, since=7, nullable_since=7, default=None)
    retention_time_ms: int = wire(Int64, until=4, default=-1)
    topics: list[OffsetCommitRequestTopic] = wire(ArrayOf(OffsetCommitRequestTopic))


@struct
class OffsetCommitResponseTopic:
    """The partitions of one topic."""

    name: str = wire(String, until=9)
    topic_id: UUID = wire(Uuid, since=10)
    partitions: list[PartitionOutcome] = wire(ArrayOf(PartitionOutcome))


@message(versions=range(2, 11), flexible_from=8)
class OffsetCommitResponse(Message):
    """The outcome for each partition; a group error is repeated for every one."""

    throttle_time_ms: int = wire(Int32, since=3)
    topics: list[OffsetCommitResponseTopic] = wire(ArrayOf(OffsetCommitResponseTopic))
