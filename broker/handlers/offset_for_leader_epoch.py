"""OffsetForLeaderEpoch (key 23): where a leader epoch ends, for readers that saw the epoch change."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.context import RequestContext
from ottla.broker.handlers.partition_reads import fence
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def handle(
    request: OffsetForLeaderEpochRequest, ctx: RequestContext, services: Services
) -> OffsetForLeaderEpochResponse:
    return _answer(request, lambda name, want: _look_up(name, want, services))


def _answer(
    request: OffsetForLeaderEpochRequest, row: Callable[[str, OffsetForLeaderPartition], EpochEndOffset]
) -> OffsetForLeaderEpochResponse:
    topics = [
        OffsetForLeaderTopicResult(topic=topic.topic, partitions=[row(topic.topic, want) for want in topic.partitions])
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def _look_up(name: str, want: OffsetForLeaderPartition, services: Services) -> EpochEndOffset:
    row = EpochEndOffset(partition=want.partition)
    topic = services.topics.topics.get(name)
    partition = topic.partition(want.partition) if topic is not None else None
    if partition is None:
        row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif error := fence(partition, want.current_leader_epoch):
        row.error_code = error
    else:
        end = partition.log.epoch_end(want.leader_epoch)
        row.leader_epoch, row.end_offset = end.leader_epoch, end.end_offset
    return row


def failed(request: OffsetForLeaderEpochRequest, code: int) -> OffsetForLeaderEpochResponse:
    """The answer when we have a bug."""
    return _answer(request, lambda name, want: EpochEndOffset(partition=want.partition, error_code=code))
