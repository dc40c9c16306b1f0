"""DeleteRecords (key 21): move log start offsets."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1
_NO_WATERMARK = -1


async def handle(request: DeleteRecordsRequest, ctx: RequestContext, services: Services) -> DeleteRecordsResponse:
    topics = []
    for topic in request.topics:
        rows = [await _trim(topic.name, want, services) for want in topic.partitions]
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=rows))
    return DeleteRecordsResponse(topics=topics)


async def _trim(name: str, want: DeleteRecordsPartition, services: Services) -> DeleteRecordsPartitionResult:
    row = DeleteRecordsPartitionResult(partition_index=want.partition_index, low_watermark=_NO_WATERMARK, error_code=0)
    topic = services.topics.topics.get(name)
    partition = topic.partition(want.partition_index) if topic is not None else None
    if partition is None:
        row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif partition.topic.is_internal:
        row.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif partition.offline:
        row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    elif not partition.topic.config.deletes:
        row.error_code = ErrorCode.POLICY_VIOLATION
    else:
        high_watermark = partition.log.high_watermark
        offset = high_watermark if want.offset == HIGH_WATERMARK else want.offset
        if not 0 <= offset <= high_watermark:
            row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return row
        try:
            row.low_watermark = await partition.log.trim(offset)
            partition.transactions.aborted.forget_below(row.low_watermark)
        except services.topics.storage_error:
            row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            return row
        services.host.touched(partition.tp)
    return row


def failed(request: DeleteRecordsRequest, code: int) -> DeleteRecordsResponse:
    """The answer when we have a bug."""
    topics = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                DeleteRecordsPartitionResult(
                    partition_index=want.partition_index, low_watermark=_NO_WATERMARK, error_code=code
                )
                for want in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return DeleteRecordsResponse(topics=topics)
