"""DeleteRecords (key 21): move log start offsets. KIP-107."""

from __future__ import annotations

from ottla.protocol.schema import ArrayOf, Int16, Int32, Int64, Message, String, message, struct, wire


@struct
class DeleteRecordsPartition:
    """A partition and the first offset to keep; -1 stands for the high watermark."""

    partition_index: int = wire(Int32)
    offset: int = wire(Int64)


@struct
class DeleteRecordsTopic:
    """The partitions of one topic."""

    name: str = wire(String)
    partitions: list[DeleteRecordsPartition] = wire(ArrayOf(DeleteRecordsPartition))


@message(versions=range(3), flexible_from=2)
class DeleteRecordsRequest(Message):
    """Forget the records before the given offsets."""

    topics: list[DeleteRecordsTopic] = wire(ArrayOf(DeleteRecordsTopic))
    timeout_ms: int = wire(Int32)


@struct
class DeleteRecordsPartitionResult:
    """The new log start offset of one partition."""

    partition_index: int = wire(Int32)
    low_watermark: int = wire(Int64)
    error_code: int = wire(Int16)


@struct
class DeleteRecordsTopicResult:
    """The partitions of one topic."""

    name: str = wire(String)
    partitions: list[DeleteRecordsPartitionResult] = wire(ArrayOf(DeleteRecordsPartitionResult))


@message(versions=range(3), flexible_from=2)
class DeleteRecordsResponse(Message):
    """The outcome for each partition."""

    throttle_time_ms: int = wire(Int32)
    topics: list[DeleteRecordsTopicResult] = wire(ArrayOf(DeleteRecordsTopicResult))
