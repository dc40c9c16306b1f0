"""DescribeTopicPartitions (key 75): topics in order of their names, a page of partitions at a time."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.cluster.view import NOBODY
from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.core.topics.catalog import invalid_name
from ottla.broker.core.topics.partition import Topic
from ottla.broker.handlers.services import Cluster, Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import INTERNAL_TOPICS
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.protocol.records import TopicPartition

LARGEST_PAGE = 2000
"""Kafka's default of ``max.request.partition.size.limit``."""


def names(request: DescribeTopicPartitionsRequest, ctx: RequestContext) -> Iterator[str]:
    return (topic.name for topic in request.topics)


def handle(
    request: DescribeTopicPartitionsRequest, ctx: RequestContext, services: Services
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    served = services.topics.topics
    begin = cursor.topic_name if cursor is not None else ""
    asked = {topic.name for topic in request.topics}
    are_named = bool(asked)
    if cursor is not None and (cursor.partition_index < 0 or (asked and begin not in asked)):
        return failed(request, ErrorCode.INVALID_REQUEST)
    asked = asked or set(served)
    left = max(1, min(request.response_partition_limit, LARGEST_PAGE))
    response = DescribeTopicPartitionsResponse()
    names = sorted(name for name in asked if name >= begin)
    denied = services.denied(ctx, AclOperation.DESCRIBE, Resource.TOPIC, names, silently=not are_named)
    for name in names:
        if name in denied:
            continue
        if left == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = served.get(name)
        if topic is None:
            response.topics.append(_unknown(name, services.operations(ctx, Resource.TOPIC, name)))
            continue
        first = cursor.partition_index if cursor is not None and name == begin else 0
        row = _row(topic, first, left, services.cluster)
        row.topic_authorized_operations = services.operations(ctx, Resource.TOPIC, name)
        response.topics.append(row)
        if (following := first + left) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=following)
            break
        left -= len(row.partitions)
    if are_named:  # or else what may not be seen is hidden
        error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        response.topics += [DescribeTopicPartitionsResponseTopic(error_code=error, name=name) for name in denied]
    return response


def _unknown(name: str, operations: int) -> DescribeTopicPartitionsResponseTopic:
    error = ErrorCode.INVALID_TOPIC_EXCEPTION if invalid_name(name) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
    )


def _row(topic: Topic, first: int, count: int, cluster: Cluster) -> DescribeTopicPartitionsResponseTopic:
    partitions = [_partition(partition.tp, cluster) for partition in topic.partitions[first : first + count]]
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
    )


def _partition(tp: TopicPartition, cluster: Cluster) -> DescribeTopicPartitionsResponsePartition:
    leader = cluster.leader(tp)
    replicas, in_sync = cluster.replicas(tp, leader.node_id)
    is_led = leader.node_id != NOBODY  # without one there is no error, unlike in Metadata
    return DescribeTopicPartitionsResponsePartition(
        partition_index=tp.partition,
        leader_id=leader.node_id,
        leader_epoch=leader.epoch,
        replica_nodes=replicas,
        isr_nodes=in_sync,
        eligible_leader_replicas=[] if is_led else replicas,
        last_known_elr=[] if is_led else replicas,
        offline_replicas=[node_id for node_id in replicas if node_id not in in_sync],
    )


def failed(request: DescribeTopicPartitionsRequest, code: int) -> DescribeTopicPartitionsResponse:
    """The answer where nothing can be described; also when we have a bug."""
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error_code=code, name=topic.name) for topic in request.topics]
    )
