"""OffsetFetch (key 9): one group up to version 7, several from version 8; the coordinator answers in either form.

From version 10 on topics are given by their ids. The coordinator knows them by name (KIP-848).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from uuid import UUID

from ottla.broker.context import RequestContext
from ottla.broker.core.groups.offsets.commit import KNOWS_TOPIC_IDS
from ottla.broker.core.groups.offsets.fetch import FETCHES_IN_BATCHES, TopicIds, nothing, requested_groups
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services, ask
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
)
from ottla.protocol.primitives import ZERO_UUID

_Topics = list[OffsetFetchRequestTopic] | None


def handle(request: OffsetFetchRequest, ctx: RequestContext, services: Services) -> OffsetFetchResponse | None:
    topics = services.topics
    if ctx.api_version >= KNOWS_TOPIC_IDS:
        for group in request.groups:
            for asked in group.topics or ():
                found = topics.by_id.get(asked.topic_id)
                asked.name = found.name if found else ""

    def topic_id(name: str) -> UUID:
        found = topics.topics.get(name)
        return found.topic_id if found else ZERO_UUID

    if services.authorizer is None:
        return services.host.enter(services.groups.fetch_offsets, request, ctx, topic_id)
    return _permitted(request, ctx, services, topic_id)


def _permitted(
    request: OffsetFetchRequest, ctx: RequestContext, services: Services, topic_id: TopicIds
) -> OffsetFetchResponse | None:
    """Ask for what a client may see, and put what he may not into the answer: last, as in Kafka."""
    groups = requested_groups(request, ctx)
    names = [group.group_id for group in groups]
    refused = dict.fromkeys(
        services.denied(ctx, AclOperation.DESCRIBE, Resource.GROUP, names), ErrorCode.GROUP_AUTHORIZATION_FAILED
    )
    served = [group for group in groups if group.group_id not in refused]
    by_id = ctx.api_version >= KNOWS_TOPIC_IDS  # an id that is nobody's has no name
    asked = (topic.name for group in served for topic in group.topics or () if topic.name or not by_id)
    denied = services.denied(ctx, AclOperation.DESCRIBE, Resource.TOPIC, asked)

    def allowed(topics: _Topics) -> _Topics:
        return None if topics is None else [topic for topic in topics if topic.name not in denied]

    def completed(response: OffsetFetchResponse) -> OffsetFetchResponse:
        rows: Sequence[OffsetFetchResponse | OffsetFetchResponseGroup]
        rows = response.groups if ctx.api_version >= FETCHES_IN_BATCHES else [response]
        for wanted, row in zip(groups, rows, strict=True):
            if not row.error_code and wanted.group_id not in refused:
                row.topics = _visible(row, wanted.topics, denied, ctx, services)
        return response

    if request.groups:
        batch = [
            group if group.group_id in refused else replace(group, topics=allowed(group.topics)) for group in groups
        ]
        request = replace(request, groups=batch)
    elif not refused:
        request = replace(request, topics=allowed(request.topics))
    return ask(services, ctx, services.groups.fetch_offsets, request, completed, topic_id, refused)


def _visible(
    row: OffsetFetchResponse | OffsetFetchResponseGroup,
    asked: _Topics,
    denied: Collection[str],
    ctx: RequestContext,
    services: Services,
) -> list[OffsetFetchResponseTopic]:
    """The topics of an answer: where all were asked for, those alone that a client may describe."""
    if asked is None:
        names = (topic.name for topic in row.topics)
        hidden = services.denied(ctx, AclOperation.DESCRIBE, Resource.TOPIC, names, silently=True)
        return [topic for topic in row.topics if topic.name not in hidden]
    return row.topics + [_denied(topic) for topic in asked if topic.name in denied]


def _denied(topic: OffsetFetchRequestTopic) -> OffsetFetchResponseTopic:
    rows = [nothing(index, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for index in topic.partition_indexes]
    return OffsetFetchResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=rows)


def failed(request: OffsetFetchRequest, code: int) -> OffsetFetchResponse:
    groups = [OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups]
    return OffsetFetchResponse(error_code=code, groups=groups)
