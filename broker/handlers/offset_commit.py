"""OffsetCommit (key 8): topics are checked here, the group in the coordinator.

Up to version 9 a topic is given by its name, from version 10 on by its id; the coordinator is told both (KIP-848).

A request that names very many partitions is committed in parts: each is durable as a whole, and answered for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

from ottla.broker.context import RequestContext
from ottla.broker.core.groups.offsets.commit import KNOWS_TOPIC_IDS, NO_PARTITION, Refusals, unavailable
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services, cut, in_parts
from ottla.broker.runtime.prepared_commits import is_of_no_member, tell_altered
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


def names(request: OffsetCommitRequest, ctx: RequestContext) -> Iterator[str | UUID]:
    by_id = ctx.api_version >= KNOWS_TOPIC_IDS
    return (topic.topic_id if by_id else topic.name for topic in request.topics)


def handle(
    request: OffsetCommitRequest, ctx: RequestContext, services: Services
) -> OffsetCommitResponse | Steps[OffsetCommitResponse] | None:
    if not services.permits(ctx, AclOperation.READ, Resource.GROUP, request.group_id):
        return failed(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if ctx.is_long and sum(len(topic.partitions) for topic in request.topics) > WHOLE:
        return _in_steps(request, ctx, services)
    answer = services.host.enter(services.groups.commit_offsets, request, ctx, _resolve(request, ctx, services))
    if answer is None and is_of_no_member(request):
        tell_altered(services.audit, ctx, request.group_id)
    return answer


def _in_steps(request: OffsetCommitRequest, ctx: RequestContext, services: Services) -> Steps[OffsetCommitResponse]:
    requests = (replace(request, topics=topics) for topics in cut(request.topics, AT_ONCE))
    parts = ((part, _resolve(part, ctx, services)) for part in requests)
    answers = yield from in_parts(services, ctx, services.groups.commit_offsets, parts)
    if is_of_no_member(request):
        tell_altered(services.audit, ctx, request.group_id)
    topics: dict[tuple[str, UUID], OffsetCommitResponseTopic] = {}
    for answer in answers:
        for topic in answer.topics:
            known = topics.setdefault((topic.name, topic.topic_id), topic)
            if known is not topic:
                known.partitions += topic.partitions
        yield None
    return OffsetCommitResponse(topics=list(topics.values()))


def _resolve(request: OffsetCommitRequest, ctx: RequestContext, services: Services) -> Refusals:
    """Give each topic both its name and its id, where there is such a topic; the partitions that may not be committed
    or are not there.
    """
    topics = services.topics
    by_id = ctx.api_version >= KNOWS_TOPIC_IDS
    if by_id:
        for topic in request.topics:
            known = topics.by_id.get(topic.topic_id)
            topic.name = known.name if known else ""
    names = (topic.name for topic in request.topics if topic.name or not by_id)
    denied = services.denied(ctx, AclOperation.READ, Resource.TOPIC, names)
    refused: dict[tuple[str, int], ErrorCode] = {}
    for topic in request.topics:
        if topic.name in denied:
            found, error = None, ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif by_id:
            found, error = topics.by_id.get(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
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
