"""DescribeProducers (key 61): the idempotent and transactional producers that partitions remember."""

from __future__ import annotations

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
    known: dict[tuple[str, int], PartitionResponse] = {}
    answer = []
    for asked in request.topics:
        rows = []
        for index in asked.partition_indexes:
            # Kafka answers as often as a partition is named. It is described once.
            row = known.get((asked.name, index))
            if row is None:
                row = known[asked.name, index] = _described(services.topics.topics.get(asked.name), index)
            rows.append(row)
        answer.append(TopicResponse(name=asked.name, partitions=rows))
    return DescribeProducersResponse(topics=answer)


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
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(partition_index=index, error_code=code) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )
