"""AlterReplicaLogDirs (key 34): a node has one directory, and every partition that it leads is in it already."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation
from ottla.broker.core.topics.partition import Standing
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import PartitionOutcome
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

LONGEST_DIRECTORY_NAME = 255
FUTURE_SUFFIX_LENGTH = len(".") + 32 + len("-future")
"""The suffix of a directory that Kafka moves a partition to."""

_REFUSALS = {
    Standing.OFFLINE: ErrorCode.KAFKA_STORAGE_ERROR,
    Standing.ELSEWHERE: ErrorCode.REPLICA_NOT_AVAILABLE,  # as Kafka, which keeps this code for this API alone
}


def handle(request: AlterReplicaLogDirsRequest, ctx: RequestContext, services: Services) -> AlterReplicaLogDirsResponse:
    if not services.permits_on_cluster(ctx, AclOperation.ALTER):
        return failed(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        here = services.log_dir().path
    except OSError:
        return failed(request, ErrorCode.KAFKA_STORAGE_ERROR)
    return _answer({key: _outcome(*key, path == here, services) for key, path in _wanted(request).items()})


def _wanted(request: AlterReplicaLogDirsRequest) -> dict[tuple[str, int], str]:
    """The directory wanted for each partition: the last one if a partition is named more than once."""
    return {
        (topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }


def _outcome(name: str, index: int, is_here: bool, services: Services) -> ErrorCode:
    if len(f"{name}-{index}") + FUTURE_SUFFIX_LENGTH > LONGEST_DIRECTORY_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if not is_here:
        return ErrorCode.LOG_DIR_NOT_FOUND
    topic = services.topics.topics.get(name)
    partition = None if topic is None else topic.partition(index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return _REFUSALS.get(partition.standing, ErrorCode.NONE)


def _answer(outcomes: Mapping[tuple[str, int], int]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), code in outcomes.items():
        topic = topics.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name))
        topic.partitions.append(PartitionOutcome(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def failed(request: AlterReplicaLogDirsRequest, code: int) -> AlterReplicaLogDirsResponse:
    """The answer with one code for all partitions: nobody may, or we have a bug."""
    return _answer(dict.fromkeys(_wanted(request), code))
