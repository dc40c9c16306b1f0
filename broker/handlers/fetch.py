"""Fetch (key 1): read record batches, waiting for them where there are too few (KIP-74).

Fetch sessions (KIP-227) are declined: every answer has session id 0, as Kafka's has when its session cache is full,
so clients go on to name all their partitions. Partitions are served in the order of the request, each with what is
left of ``max_bytes``, as Kafka does for a request without a session. Batches go out in the codec they came in, zstd
to readers of versions before 10 too: Kafka has sent it to them since it stopped converting, and some can read it.

Readers of committed records are shown nothing at or above the last stable offset. Below it they get everything, and a
list of the aborted transactions whose batches they must skip (KIP-98).
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.broker.context import RequestContext
from ottla.broker.core.fetches import Parked
from ottla.broker.core.topics.partition import Partition
from ottla.broker.handlers.services import Services, Topics
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.protocol.records import TopicPartition, iter_batches

VERSIONS = range(4, 13)

READ_COMMITTED = 1
_FINAL_EPOCH = -1


class _Read(NamedTuple):
    """What one pass over the partitions gave. ``hurry``: there is something that must not wait for more bytes."""

    response: FetchResponse
    size: int
    hurry: bool


def handle(request: FetchRequest, ctx: RequestContext, services: Services) -> FetchResponse | None:
    if request.session_id and request.session_epoch != _FINAL_EPOCH:
        # A session that another broker at this address gave; its request may name only what changed.
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    read = _read(request, services)
    wait_ms = min(request.max_wait_ms, services.settings.fetch_max_wait_ms)
    if wait_ms <= 0 or _is_enough(request, read):
        return read.response
    _park(request, ctx, services, read, services.clock.monotonic_ms() + wait_ms)
    return None


def complete(parked: Parked, services: Services) -> None:
    """Look at a woken fetch again: answer it, or park it anew if there is still too little and time is left."""
    ctx: RequestContext = parked.ctx
    ctx.on_close = None
    if ctx.closed:
        return
    request: FetchRequest = parked.request
    read = _read(request, services)
    if parked.expired or _is_enough(request, read):
        ctx.reply(read.response)
    else:
        _park(request, ctx, services, read, parked.deadline_ms)


def _is_enough(request: FetchRequest, read: _Read) -> bool:
    return read.hurry or read.size >= request.min_bytes or not read.response.responses


def _park(request: FetchRequest, ctx: RequestContext, services: Services, read: _Read, deadline_ms: int) -> None:
    topics = services.topics.topics
    watched = {}
    stable: dict[TopicPartition, int] | None = {} if request.isolation_level == READ_COMMITTED else None
    for asked in request.topics:
        topic = topics[asked.topic]  # a missing one would have been answered at once
        for row in asked.partitions:
            partition = topic.partitions[row.partition]
            watched[partition.tp] = partition.log.size_bytes
            if stable is not None:
                stable[partition.tp] = partition.last_stable_offset
    missing = request.min_bytes - read.size
    parked = Parked(ctx, request, deadline_ms=deadline_ms, missing_bytes=missing, watched=watched, stable=stable)
    ctx.on_close = lambda: services.fetches.drop(parked)
    services.fetches.park(parked)


def _read(request: FetchRequest, services: Services) -> _Read:
    """Read every partition of the request, as far as ``max_bytes`` goes."""
    left = min(request.max_bytes, services.settings.fetch_max_bytes)
    committed = request.isolation_level == READ_COMMITTED
    responses: list[FetchableTopicResponse] = []
    size = 0
    hurry = False
    for asked in request.topics:
        topic = services.topics.topics.get(asked.topic)
        rows: list[PartitionData] = []
        responses.append(FetchableTopicResponse(topic=asked.topic, partitions=rows))
        for want in asked.partitions:
            row = PartitionData(partition_index=want.partition, high_watermark=-1, records=b"")
            # A reader of committed records expects the list even if there is nothing in it.
            row.aborted_transactions = [] if committed else None
            rows.append(row)
            partition = topic.partition(want.partition) if topic is not None else None
            if partition is None:
                row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                _read_partition(row, want, partition, left, size == 0, services.topics, committed)
            if row.error_code or row.diverging_epoch.end_offset >= 0:
                hurry = True
            elif row.records:
                size += len(row.records)
                left = max(0, left - len(row.records))
    return _Read(FetchResponse(responses=responses), size, hurry)


def _read_partition(
    row: PartitionData,
    want: FetchPartition,
    partition: Partition,
    left: int,
    min_one_batch: bool,
    topics: Topics,
    committed: bool,
) -> None:
    log = partition.log
    if error := fence(partition, want.current_leader_epoch):
        row.error_code = error
        return
    offset = want.fetch_offset
    try:
        if want.last_fetched_epoch >= 0 and _diverges(row, want, partition):
            return
        if not log.log_start_offset <= offset <= log.log_end_offset:
            row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
            return
        records = b""
        most = min(want.partition_max_bytes, left)
        upto = partition.last_stable_offset if committed else log.high_watermark
        if offset < upto and (most > 0 or min_one_batch):
            records = log.read(offset, max_bytes=most, upto_offset=upto, min_one_batch=min_one_batch)
    except topics.storage_error:
        row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return
    if committed and records and partition.transactions.aborted.reach(offset):
        row.aborted_transactions = _aborted_among(offset, records, partition)
    row.records = records
    _fill_offsets(row, partition)


def _aborted_among(offset: int, records: bytes, partition: Partition) -> list[AbortedTransaction]:
    """The aborted transactions that the records, read from ``offset`` on, have something of."""
    end = offset
    for header, _ in iter_batches(records):
        end = header.last_offset + 1
    return [
        AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
        for producer_id, first_offset in partition.aborted_in(offset, end)
    ]


def _fill_offsets(row: PartitionData, partition: Partition) -> None:
    row.high_watermark = partition.log.high_watermark
    row.last_stable_offset = partition.last_stable_offset
    row.log_start_offset = partition.log.log_start_offset


def fence(partition: Partition, current_leader_epoch: int) -> ErrorCode:
    """Check the leader epoch that a client believes in (KIP-320); -1 is not checked."""
    if partition.offline:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if current_leader_epoch < 0 or current_leader_epoch == partition.log.leader_epoch:
        return ErrorCode.NONE
    if current_leader_epoch < partition.log.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH


def _diverges(row: PartitionData, want: FetchPartition, partition: Partition) -> bool:
    """Whether the reader followed a log that parts from ours before its offset (KIP-595): then say where."""
    end = partition.log.epoch_end(want.last_fetched_epoch)
    if end.end_offset < 0 or want.fetch_offset < partition.log.log_start_offset:
        row.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        return True
    if end.leader_epoch < want.last_fetched_epoch or end.end_offset < want.fetch_offset:
        row.diverging_epoch = EpochEndOffset(epoch=end.leader_epoch, end_offset=end.end_offset)
        _fill_offsets(row, partition)
        return True
    return False


def failed(request: FetchRequest, code: int) -> FetchResponse:
    """The answer when we have a bug."""
    return FetchResponse(
        error_code=code,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                partitions=[
                    PartitionData(partition_index=want.partition, error_code=code, high_watermark=-1, records=b"")
                    for want in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
