"""OffsetForLeaderEpoch (key 23): where a leader epoch ends, for readers that saw the epoch change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.partition_reads import fence
from ottla.broker.handlers.services import NOBODY_DENIED, Services
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
    denied = NOBODY_DENIED
    if not services.permits_on_cluster(ctx, AclOperation.CLUSTER_ACTION, silently=True):
        names = (topic.topic for topic in request.topics)
        denied = services.denied(ctx, AclOperation.DESCRIBE, Resource.TOPIC, names)
    if not denied:
        return _answer(request, lambda name, want: _look_up(name, want, services))
    allowed = replace(request, topics=[topic for topic in request.topics if topic.topic not in denied])
    refused = replace(request, topics=[topic for topic in request.topics if topic.topic in denied])
    response = _answer(allowed, lambda name, want: _look_up(name, want, services))
    response.topics += failed(refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED).topics
    return response


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
    """The answer with one code for all partitions: also that when we have a bug."""
    return _answer(request, lambda name, want: EpochEndOffset(partition=want.partition, error_code=code))
