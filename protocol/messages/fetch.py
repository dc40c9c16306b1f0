"""Fetch (key 1): read record batches, waiting for them if asked. KIP-74, KIP-227, KIP-320, KIP-516."""

from __future__ import annotations

from uuid import UUID

from ottla.protocol.message_parts import LeaderIdAndEpoch, NodeEndpoint
from ottla.protocol.schema import (
    ArrayOf,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    String,
    Uuid,
    message,
    struct,
    wire,
)


@struct
class ReplicaState:
    """The replica that fetches, if it is a follower."""

    replica_id: int = wire(Int32, since=15, default=-1)
    replica_epoch: int = wire(Int64, since=15, default=-1)


@struct
class FetchPartition:
    """A partition, and where to read from."""

    partition: int = wire(Int32)
    current_leader_epoch: int = wire(Int32, since=9, default=-1)
    fetch_offset: int = wire(Int64)
    last_fetched_epoch: int = wire(Int32, since=12, default=-1)
    log_start_offset: int = wire(Int64, since=5, default=-1)
    partition_max_bytes: int = wire(Int32)
    replica_directory_id: UUID = wire(Uuid, since=17, tag=0)
    high_watermark: int = wire(Int64, since=18, default=9223372036854775807, tag=1)


@struct
class FetchTopic:
    """The partitions of one topic."""

    topic: str = wire(String, until=12)
    topic_id: UUID = wire(Uuid, since=13)
    partitions: list[FetchPartition] = wire(ArrayOf(FetchPartition))


@struct
class ForgottenTopic:
    """Partitions that leave an incremental fetch session."""

    topic: str = wire(String, since=7, until=12)
    topic_id: UUID = wire(Uuid, since=13)
    partitions: list[int] = wire(ArrayOf(Int32), since=7)


@message(versions=range(4, 19), flexible_from=12)
class FetchRequest(Message):
    """Read from partitions; wait up to max_wait_ms for min_bytes."""

    cluster_id: str | None = wire(String, since=12, nullable_since=12, default=None, tag=0)
    replica_id: int = wire(Int32, until=14, default=-1)
    replica_state: ReplicaState = wire(ReplicaState, since=15, tag=1)
    max_wait_ms: int = wire(Int32)
    min_bytes: int = wire(Int32)
    max_bytes: int = wire(Int32, default=2147483647)
    isolation_level: int = wire(Int8)
    session_id: int = wire(Int32, since=7)
    session_epoch: int = wire(Int32, since=7, default=-1)
    topics: list[FetchTopic] = wire(ArrayOf(FetchTopic))
    forgotten_topics_data: list[ForgottenTopic] = wire(ArrayOf(ForgottenTopic), since=7)
    rack_id: str = wire(String, since=11)


@struct
class EpochEndOffset:
    """The point where the reader's log parts from the leader's."""

    epoch: int = wire(Int32, since=12, default=-1)
    end_offset: int = wire(Int64, since=12, default=-1)


@struct
class SnapshotId:
    """The snapshot that holds what the log no longer has."""

    end_offset: int = wire(Int64, default=-1)
    epoch: int = wire(Int32, default=-1)


@struct
class AbortedTransaction:
    """A transaction whose records a read_committed reader must skip."""

    producer_id: int = wire(Int64)
    first_offset: int = wire(Int64)


@struct
class PartitionData:
    """The result of one partition: its offsets and whole record batches."""

    partition_index: int = wire(Int32)
    error_code: int = wire(Int16)
    high_watermark: int = wire(Int64)
    last_stable_offset: int = wire(Int64, default=-1)
    log_start_offset: int = wire(Int64, since=5, default=-1)
    diverging_epoch: EpochEndOffset = wire(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId = wire(SnapshotId, since=12, tag=2)
    aborted_transactions: list[AbortedTransaction] | None = wire(ArrayOf(AbortedTransaction), nullable_since=4)
    preferred_read_replica: int = wire(Int32, since=11, default=-1)
    records: bytes | memoryview | None = wire(Records, nullable_since=0)


@struct
class FetchableTopicResponse:
    """The partitions of one topic."""

    topic: str = wire(String, until=12)
    topic_id: UUID = wire(Uuid, since=13)
    partitions: list[PartitionData] = wire(ArrayOf(PartitionData))


@message(versions=range(4, 19), flexible_from=12)
class FetchResponse(Message):
    """Record batches by partition. `records` is never null on our wire: several clients cannot read it."""

    max_items = 1 << 20  # 50 MiB of small transactions are hundreds of thousands that were aborted

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16, since=7)
    session_id: int = wire(Int32, since=7)
    responses: list[FetchableTopicResponse] = wire(ArrayOf(FetchableTopicResponse))
    node_endpoints: list[NodeEndpoint] = wire(ArrayOf(NodeEndpoint), since=16, tag=0)
