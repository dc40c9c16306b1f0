"""DescribeProducers (key 61): the idempotent and transactional producers that partitions remember."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.core.topics.catalog import invalid_name
from ottla.broker.core.topics.partition import Partition, Standing, Topic
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
    names = {topic.name: invalid_name(topic.name) for topic in request.topics}
    valid = (topic.name for topic in request.topics if names[topic.name] is None)
    denied = services.denied(ctx, AclOperation.READ, Resource.TOPIC, valid)

    def describe(name: str, index: int) -> PartitionResponse:
        if problem := names[name]:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
            return PartitionResponse(partition_index=index, error_code=error, error_message=problem)
        if name in denied:
            return PartitionResponse(partition_index=index, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return _described(services.topics.topics.get(name), index)

    return _answer(request, describe)


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
    if partition.standing is not Standing.LEADING:
        return PartitionResponse(partition_index=index, error_code=partition.refusal)
    return PartitionResponse(partition_index=index, active_producers=active_producers(partition))


def active_producers(partition: Partition) -> list[ProducerState]:
    """Everybody whose state a partition remembers; -1 stands for none everywhere."""
    return [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.batches[-1].last_sequence if state.batches else -1,
            last_timestamp=state.last_timestamp_ms,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=state.transaction.first_offset if state.transaction else -1,
        )
        for producer_id, state in partition.producers.items()
    ]


def failed(request: DescribeProducersRequest, code: int) -> DescribeProducersResponse:
    """The answer when we have a bug."""
    return _answer(request, lambda name, index: PartitionResponse(partition_index=index, error_code=code))
