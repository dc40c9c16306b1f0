"""DescribeProducers (key 61): the idempotent and transactional producers that partitions remember."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

VERSIONS = range(1)


def handle(request: DescribeProducersRequest, ctx: RequestContext, services: Services) -> DescribeProducersResponse:
    topics = services.topics.topics
    answer = []
    for asked in request.topics:
        topic = topics.get(asked.name)
        rows = []
        for index in asked.partition_indexes:
            row = PartitionResponse(partition_index=index)
            rows.append(row)
            partition = topic.partition(index) if topic is not None else None
            if partition is None:
                row.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif partition.offline:
                row.error_code = ErrorCode.KAFKA_STORAGE_ERROR
            else:
                row.active_producers = [
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
        answer.append(TopicResponse(name=asked.name, partitions=rows))
    return DescribeProducersResponse(topics=answer)


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
