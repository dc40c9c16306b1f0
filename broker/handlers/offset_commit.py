"""OffsetCommit (key 8): topics are checked here, the group in the coordinator.

Up to version 9 a topic is given by its name, from version 10 on by its id; the coordinator is told both (KIP-848).

A request that names very many partitions is committed in parts: each is durable as a whole, and answered for itself.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from ottla.broker.context import RequestContext
from ottla.broker.core.groups.offsets.commit import KNOWS_TOPIC_IDS, NO_PARTITION, Refusals, unavailable
from ottla.broker.handlers.services import Services, cut, in_parts
from ottla.broker.runtime.topics import TopicManager
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from ottla.protocol.primitives import ZERO_UUID
from ottla.protocol.steps import Steps

AT_ONCE = 250
"""Topics and partitions of one part."""
WHOLE = 2_000
"""Partitions of a commit that is made as a whole, as Kafka makes it: more than one consumer has in earnest."""


def handle(
    request: OffsetCommitRequest, ctx: RequestContext, services: Services
) -> OffsetCommitResponse | Steps[OffsetCommitResponse] | None:
    if ctx.is_long and sum(len(topic.partitions) for topic in request.topics) > WHOLE:
        return _in_steps(request, ctx, services)
    refused = _resolve(request, services.topics, by_id=ctx.api_version >= KNOWS_TOPIC_IDS)
    return services.host.enter(services.groups.commit_offsets, request, ctx, refused)


def _in_steps(request: OffsetCommitRequest, ctx: RequestContext, services: Services) -> Steps[OffsetCommitResponse]:
    by_id = ctx.api_version >= KNOWS_TOPIC_IDS
    requests = (replace(request, topics=topics) for topics in cut(request.topics, AT_ONCE))
    parts = ((part, _resolve(part, services.topics, by_id=by_id)) for part in requests)
    answers = yield from in_parts(services, ctx, services.groups.commit_offsets, parts)
    topics: dict[tuple[str, UUID], OffsetCommitResponseTopic] = {}
    for answer in answers:
        for topic in answer.topics:
            known = topics.setdefault((topic.name, topic.topic_id), topic)
            if known is not topic:
                known.partitions += topic.partitions
        yield None
    return OffsetCommitResponse(topics=list(topics.values()))


def _resolve(request: OffsetCommitRequest, topics: TopicManager, *, by_id: bool) -> Refusals:
    """Give each topic both its name and its id, where there is such a topic; the partitions that there are not."""
    refused: dict[tuple[str, int], ErrorCode] = {}
    for topic in request.topics:
        if by_id:
            found = topics.by_id.get(topic.topic_id)
            topic.name, error = (found.name if found else ""), ErrorCode.UNKNOWN_TOPIC_ID
        else:
            found = topics.topics.get(topic.name)
            topic.topic_id, error = (found.topic_id if found else ZERO_UUID), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        count = 0
        if found:
            count, error = len(found.partitions), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif not topic.partitions:
            refused[topic.name, NO_PARTITION] = error
        for partition in topic.partitions:
            if not 0 <= partition.partition_index < count:
                refused[topic.name, partition.partition_index] = error
    return refused


def failed(request: OffsetCommitRequest, code: int) -> OffsetCommitResponse:
    return unavailable(request, {}, ErrorCode(code))
