"""ListOffsets (key 2): offsets by time, and the ends of logs.

To readers of committed records the log ends at the last stable offset: they are told of nothing beyond it (KIP-98).
The timeout of versions from 10 on is for logs kept elsewhere; every answer here is given at once, but for records that
have to be looked for in large batches.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import partial

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.core.topics.partition import Partition
from ottla.broker.engine import EngineError, OffsetAndTimestamp
from ottla.broker.handlers.partition_reads import READ_COMMITTED, fence
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.records import TopicPartition
from ottla.protocol.steps import NEXT_IN_LINE, Steps

_NEVER = 1 << 16
_CONSUMER = -1


class _Time(IntEnum):
    """Times that are none. The last three are about tiered storage (KIP-405), of which there is none here."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


_NEVER_LOOKED_FOR = frozenset(_Time) - {_Time.MAX_TIMESTAMP}

_SINCE: dict[int, int] = {
    _Time.MAX_TIMESTAMP: 7,
    _Time.EARLIEST_LOCAL: 8,
    _Time.LATEST_TIERED: 9,
    _Time.EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version that knows a time."""


AT_ONCE_MS = 5
"""Longer than that a request does not look for records without a pause."""


def names(request: ListOffsetsRequest, ctx: RequestContext) -> Iterator[str]:
    return (topic.name for topic in request.topics)


def handle(request: ListOffsetsRequest, ctx: RequestContext, services: Services) -> ListOffsetsResponse | None:
    times = Counter(
        TopicPartition(topic.name, want.partition_index) for topic in request.topics for want in topic.partitions
    )
    committed = request.isolation_level == READ_COMMITTED and request.replica_id == _CONSUMER
    denied = services.denied(ctx, AclOperation.DESCRIBE, Resource.TOPIC, (topic.name for topic in request.topics))
    answer = []
    later: list[tuple[ListOffsetsPartitionResponse, ListOffsetsPartition, Partition]] = []
    now_ms = services.clock.real.monotonic_ms
    began_ms = now_ms()
    for topic in request.topics:
        if topic.name in denied:
            continue
        rows = []
        for want in topic.partitions:
            row = ListOffsetsPartitionResponse(partition_index=want.partition_index)
            rows.append(row)
            tp = TopicPartition(topic.name, want.partition_index)
            partition = services.topics.partition(tp)
            if times[tp] > 1:
                row.error_code = ErrorCode.INVALID_REQUEST
            elif not _is_known(want.timestamp, ctx.api_version):
                row.error_code = ErrorCode.UNSUPPORTED_VERSION
            elif partition is None:
                row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif error := fence(partition, want.current_leader_epoch):
                row.error_code = error
            elif want.timestamp in _NEVER_LOOKED_FOR or now_ms() - began_ms <= AT_ONCE_MS:
                if not _is_found_at_once(_look_up(row, want, partition, committed)):
                    later.append((row, want, partition))
            else:
                later.append((row, want, partition))
        if rows:  # a topic of which no partition is named is not answered
            answer.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
    if denied:
        refused = replace(request, topics=[topic for topic in request.topics if topic.name in denied])
        answer += failed(refused, ErrorCode.TOPIC_AUTHORIZATION_FAILED).topics
    response = ListOffsetsResponse(topics=answer)
    if not later:
        return response
    steps = _look_up_later(later, committed, response, ctx)
    services.look_up(steps, ctx, partial(failed, request, ErrorCode.UNKNOWN_SERVER_ERROR))
    return None


def _look_up_later(
    wanted: Sequence[tuple[ListOffsetsPartitionResponse, ListOffsetsPartition, Partition]],
    committed: bool,
    response: ListOffsetsResponse,
    ctx: RequestContext,
) -> Steps[None]:
    for place, (row, want, partition) in enumerate(wanted):
        if place:
            yield NEXT_IN_LINE
        yield from _look_up(row, want, partition, committed)
    ctx.reply(response)


def _is_found_at_once(steps: Steps[None]) -> bool:
    """Whether one step was enough; what was begun is forgotten otherwise, so that nothing of it is held in line."""
    for _ in steps:
        steps.close()
        return False
    return True


def _is_known(timestamp: int, version: int) -> bool:
    return timestamp >= _Time.EARLIEST or version >= _SINCE.get(timestamp, _NEVER)


def _look_up(
    row: ListOffsetsPartitionResponse, want: ListOffsetsPartition, partition: Partition, committed: bool
) -> Steps[None]:
    log = partition.log
    end = partition.last_stable_offset if committed else log.high_watermark
    found: OffsetAndTimestamp | None = None
    try:
        match want.timestamp:
            case _Time.LATEST:
                row.offset, row.leader_epoch = end, log.leader_epoch
            case _Time.EARLIEST | _Time.EARLIEST_LOCAL:
                row.offset = log.log_start_offset
                row.leader_epoch = _epoch_at(partition, row.offset)
            case _Time.LATEST_TIERED | _Time.EARLIEST_PENDING_UPLOAD:
                pass
            case _Time.MAX_TIMESTAMP:
                found = yield from log.max_timestamp()
            case timestamp:
                found = yield from log.offset_for_timestamp(timestamp)
    except EngineError:
        row.error_code = partition.refusal or ErrorCode.KAFKA_STORAGE_ERROR
    if found is not None and found.offset < end:
        row.offset, row.timestamp = found
        row.leader_epoch = _epoch_at(partition, found.offset)


def _epoch_at(partition: Partition, offset: int) -> int:
    """The leader epoch in which the record at an offset was written; the present one at the end of the log."""
    log = partition.log
    epochs = range(log.leader_epoch + 1)
    at = bisect_right(epochs, offset, key=lambda epoch: log.epoch_end(epoch).end_offset)
    return log.epoch_end(at).leader_epoch if at < len(epochs) else log.leader_epoch


def failed(request: ListOffsetsRequest, code: int) -> ListOffsetsResponse:
    """The answer with one code for all partitions: also that when we have a bug."""
    topics = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsPartitionResponse(partition_index=want.partition_index, error_code=code)
                for want in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return ListOffsetsResponse(topics=topics)
