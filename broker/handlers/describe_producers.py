"""DescribeProducers (key 61): the idempotent and transactional producers that partitions remember."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ottla.broker.context import RequestContext
from ottla.broker.core.topics.partition import Topic
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


def handle(request: DescribeProducersRequest, ctx: RequestContext, services: Services) -> DescribeProducersResponse:
    return _answer(request, lambda name, index: _described(services.topics.topics.get(name), index))


def _answer(
    request: DescribeProducersRequest, describe: Callable[[str, int], PartitionResponse]
) -> DescribeProducersResponse:
    # Kafka answers as often as a partition is named. It is described once.
    row = cache(describe)
    topics = [
        TopicResponse(name=asked.name, partitions=[row(asked.name, index) for index in asked.partition_indexes])
        for asked in request.topics
    ]
    return DescribeProducersResponse(topics=topics)


def _described(topic: Topic | None, index: int) -> PartitionResponse:
    partition = topic.partition(index) if topic is not None else None
    if partition is None:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if partition.offline:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    producers = [
        ProducerState(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.last_timestamp_ms,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=producer.transaction_start_offset,
        )
        for producer in partition.active_producers()
    ]
    return PartitionResponse(partition_index=index, active_producers=producers)


def failed(request: DescribeProducersRequest, code: int) -> DescribeProducersResponse:
    """The answer when we have a bug."""
    return _answer(request, lambda name, index: PartitionResponse(partition_index=index, error_code=code))
