"""DescribeLogDirs (key 35): the one directory of this node, its volume, and what each partition takes there."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation
from ottla.broker.core.topics.partition import Partition, Standing
from ottla.broker.engine import LogDir
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(request: DescribeLogDirsRequest, ctx: RequestContext, services: Services) -> DescribeLogDirsResponse:
    if not services.permits_on_cluster(ctx, AclOperation.DESCRIBE):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        log_dir = services.log_dir()
    except OSError as error:
        row = DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=error.filename or "")
        return DescribeLogDirsResponse(results=[row])
    return DescribeLogDirsResponse(results=[_described(log_dir, _wanted(request, services))])


def _wanted(request: DescribeLogDirsRequest, services: Services) -> Iterable[Partition]:
    """The partitions asked for, each once, but for those that do not exist, are damaged or have their log elsewhere."""
    topics = services.topics.topics
    if request.topics is None:
        found = [partition for topic in topics.values() for partition in topic.partitions]
    else:
        named = dict.fromkeys((row.topic, index) for row in request.topics for index in row.partitions)
        looked_up = [topics[name].partition(index) for name, index in named if name in topics]
        found = [partition for partition in looked_up if partition is not None]
    return [partition for partition in found if partition.standing in (Standing.LEADING, Standing.LOADING)]


def _described(log_dir: LogDir, partitions: Iterable[Partition]) -> DescribeLogDirsResult:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in partitions:
        topic = topics.setdefault(partition.tp.topic, DescribeLogDirsTopic(name=partition.tp.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=partition.tp.partition, partition_size=partition.log.size_bytes, offset_lag=0
            )
        )
    return DescribeLogDirsResult(
        log_dir=log_dir.path,
        topics=list(topics.values()),
        total_bytes=log_dir.total_bytes,
        usable_bytes=log_dir.usable_bytes,
    )


def failed(request: DescribeLogDirsRequest, code: int) -> DescribeLogDirsResponse:
    """The answer when we have a bug."""
    return DescribeLogDirsResponse(error_code=code, results=[DescribeLogDirsResult(error_code=code)])
