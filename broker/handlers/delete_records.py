"""DeleteRecords (key 21): move log start offsets."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.core.topics.partition import Standing
from ottla.broker.engine import EngineError
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from ottla.protocol.records import TopicPartition

HIGH_WATERMARK = -1
_NO_WATERMARK = -1


async def handle(request: DeleteRecordsRequest, ctx: RequestContext, services: Services) -> DeleteRecordsResponse:
    response = failed(request, ErrorCode.NONE)
    denied = services.denied(ctx, AclOperation.DELETE, Resource.TOPIC, (topic.name for topic in request.topics))
    for topic, answered in zip(request.topics, response.topics, strict=True):
        for want, row in zip(topic.partitions, answered.partitions, strict=True):
            if topic.name in denied:
                row.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                continue
            await _trim(topic.name, want, row, services)
        rows = zip(topic.partitions, answered.partitions, strict=True)
        before = {row.partition_index: want.offset for want, row in rows if not row.error_code}
        if before:
            offsets = {"partitions": [*before], "before_offsets": [*before.values()]}
            services.audit.tell("records_deleted", ctx, topic=topic.name, **offsets)
    return response


async def _trim(name: str, want: DeleteRecordsPartition, row: DeleteRecordsPartitionResult, services: Services) -> None:
    partition = services.topics.partition(TopicPartition(name, want.partition_index))
    if partition is None:
        row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif partition.topic.is_internal:
        row.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION
    elif partition.standing is not Standing.LEADING:
        row.error_code = partition.refusal
    elif not partition.topic.config.deletes:
        row.error_code = ErrorCode.POLICY_VIOLATION
    else:
        high_watermark = partition.log.high_watermark
        offset = high_watermark if want.offset == HIGH_WATERMARK else want.offset
        if not 0 <= offset <= high_watermark:
            row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return
        try:
            row.low_watermark = await partition.log.trim(offset)
            partition.transactions.aborted.forget_below(row.low_watermark)
        except EngineError:
            row.error_code = partition.refusal or ErrorCode.KAFKA_STORAGE_ERROR
            return
        services.host.touched(partition.tp)


def failed(request: DeleteRecordsRequest, code: int) -> DeleteRecordsResponse:
    """The answer with one code for all partitions: also that when we have a bug."""
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
