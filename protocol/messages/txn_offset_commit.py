"""TxnOffsetCommit (key 28): offsets that count when the transaction commits. KIP-98, KIP-447, KIP-890."""

from __future__ import annotations

from ottla.protocol.message_parts import TopicOutcome
from ottla.protocol.schema import ArrayOf, Int16, Int32, Int64, Message, String, message, struct, wire


@struct
class TxnOffsetCommitRequestPartition:
    """The offset to commit for a partition."""

    partition_index: int = wire(Int32)
    committed_offset: int = wire(Int64)
    committed_leader_epoch: int = wire(Int32, since=2, default=-1)
    committed_metadata: str | None = wire(String, nullable_since=0)


@struct
class TxnOffsetCommitRequestTopic:
    """The partitions of one topic."""

    name: str = wire(String)
    partitions: list[TxnOffsetCommitRequestPartition] = wire(ArrayOf(TxnOffsetCommitRequestPartition))


@message(versions=range(6), flexible_from=3)
class TxnOffsetCommitRequest(Message):
    """Commit offsets as part of a transaction; from version 3 fenced by the member's generation."""

    transactional_id: str = wire(String)
    group_id: str = wire(String)
    producer_id: int = wire(Int64)
    producer_epoch: int = wire(Int16)
    generation_id: int = wire(Int32, since=3, default=-1)
    member_id: str = wire(String, since=3)
    group_instance_id: str | None = wire(String, since=3, nullable_since=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = wire(ArrayOf(TxnOffsetCommitRequestTopic))


@message(versions=range(6), flexible_from=3)
class TxnOffsetCommitResponse(Message):
    """The outcome for each partition."""

    throttle_time_ms: int = wire(Int32)
    topics: list[TopicOutcome] = wire(ArrayOf(TopicOutcome))
