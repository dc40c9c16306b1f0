"""OffsetCommit (key 8): topics are checked here, the group in the coordinator."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.missing import missing_partitions
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

VERSIONS = range(2, 9)


def handle(request: OffsetCommitRequest, ctx: RequestContext, services: Services) -> OffsetCommitResponse | None:
    named = ((topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions)
    return services.groups.commit_offsets(request, ctx, missing_partitions(services.topics, named))


def failed(request: OffsetCommitRequest, code: int) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
