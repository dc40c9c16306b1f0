"""AddPartitionsToTxn (key 24): partitions join a transaction, or are asked whether they have. KIP-98, KIP-890."""

from __future__ import annotations

from ottla.protocol.message_parts import TopicWithPartitions
from ottla.protocol.schema import ArrayOf, Boolean, Int16, Int32, Int64, Message, String, message, struct, wire


@struct
class AddPartitionsToTxnTransaction:
    """A producer's transaction and the partitions to add; with `verify_only` nothing is added."""

    transactional_id: str = wire(String, since=4)
    producer_id: int = wire(Int64, since=4)
    producer_epoch: int = wire(Int16, since=4)
    verify_only: bool = wire(Boolean, since=4)
    topics: list[TopicWithPartitions] = wire(ArrayOf(TopicWithPartitions), since=4)


@message(versions=range(6), flexible_from=3)
class AddPartitionsToTxnRequest(Message):
    """Add partitions to an ongoing transaction: of one producer up to version 3, of several from version 4."""

    transactions: list[AddPartitionsToTxnTransaction] = wire(ArrayOf(AddPartitionsToTxnTransaction), since=4)
    v3_and_below_transactional_id: str = wire(String, until=3)
    v3_and_below_producer_id: int = wire(Int64, until=3)
    v3_and_below_producer_epoch: int = wire(Int16, until=3)
    v3_and_below_topics: list[TopicWithPartitions] = wire(ArrayOf(TopicWithPartitions), until=3)


@struct
class AddPartitionsToTxnPartitionResult:
    """The outcome for one partition."""

    partition_index: int = wire(Int32)
    partition_error_code: int = wire(Int16)


@struct
class AddPartitionsToTxnTopicResult:
    """The partitions of one topic."""

    name: str = wire(String)
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = wire(ArrayOf(AddPartitionsToTxnPartitionResult))


@struct
class AddPartitionsToTxnResult:
    """The partitions of one transaction."""

    transactional_id: str = wire(String, since=4)
    topic_results: list[AddPartitionsToTxnTopicResult] = wire(ArrayOf(AddPartitionsToTxnTopicResult), since=4)


@message(versions=range(6), flexible_from=3)
class AddPartitionsToTxnResponse(Message):
    """The outcome for each partition; by transaction from version 4."""

    throttle_time_ms: int = wire(Int32)
    error_code: int = wire(Int16, since=4)
    results_by_transaction: list[AddPartitionsToTxnResult] = wire(ArrayOf(AddPartitionsToTxnResult), since=4)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = wire(
        ArrayOf(AddPartitionsToTxnTopicResult), until=3
    )
