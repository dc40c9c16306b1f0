"""WriteTxnMarkers (key 27): end transactions in partitions.

It comes from the coordinators of other nodes, and from administrators who abort a transaction that nobody coordinates
any more (KIP-664).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation
from ottla.broker.core.topics.producers import TransactionMarker
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import PartitionOutcome, TopicOutcome, TopicWithIndexes
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.protocol.records import TopicPartition


@dataclass(slots=True, eq=False)
class _Answer:
    """A request whose markers are on their way; ``open`` counts them, plus one until all were handed over."""

    ctx: RequestContext
    response: WriteTxnMarkersResponse
    open: int = 1
    parked: bool = False

    def settled(self, row: PartitionOutcome, offset: int, error: ErrorCode) -> None:
        row.error_code = error
        self.open -= 1
        if not self.open and self.parked:
            self.ctx.reply(self.response)


def handle(request: WriteTxnMarkersRequest, ctx: RequestContext, services: Services) -> WriteTxnMarkersResponse | None:
    if not (
        services.permits_on_cluster(ctx, AclOperation.ALTER, silently=True)
        or services.permits_on_cluster(ctx, AclOperation.CLUSTER_ACTION)
    ):
        return failed(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    response = failed(request, ErrorCode.NONE)
    answer = _Answer(ctx, response)
    for asked, result in zip(request.markers, response.markers, strict=True):
        marker = _marker(asked)
        for topic in result.topics:
            for row in topic.partitions:
                answer.open += 1
                tp = TopicPartition(topic.name, row.partition_index)
                services.host.write_marker(tp, marker, partial(answer.settled, row))
    answer.open -= 1
    if not answer.open:
        return response
    answer.parked = True
    return None


def _marker(asked: WritableTxnMarker) -> TransactionMarker:
    return TransactionMarker(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_result,
        asked.transaction_version,
    )


def failed(request: WriteTxnMarkersRequest, code: int) -> WriteTxnMarkersResponse:
    """The answer with one code for all partitions: also that when we have a bug."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id, topics=[_topic(topic, code) for topic in marker.topics]
            )
            for marker in request.markers
        ]
    )


def _topic(asked: TopicWithIndexes, code: int) -> TopicOutcome:
    rows = [PartitionOutcome(partition_index=index, error_code=code) for index in asked.partition_indexes]
    return TopicOutcome(name=asked.name, partitions=rows)
