"""OffsetDelete (key 47): the group is asked even where no partition exists (KIP-496)."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.broker.context import RequestContext
from ottla.broker.core.groups.offsets.commit import NO_PARTITION
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.missing import missing_partitions
from ottla.broker.handlers.services import Services, ask
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


def names(request: OffsetDeleteRequest, ctx: RequestContext) -> Iterator[str]:
    return (topic.name for topic in request.topics)


def handle(request: OffsetDeleteRequest, ctx: RequestContext, services: Services) -> OffsetDeleteResponse | None:
    if not services.permits(ctx, AclOperation.DELETE, Resource.GROUP, request.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    denied = services.denied(ctx, AclOperation.READ, Resource.TOPIC, (topic.name for topic in request.topics))
    named = [(topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions]
    absent = [topic.name for topic in request.topics if topic.name not in services.topics.topics]
    refused = missing_partitions(services.topics, [*named, *((name, NO_PARTITION) for name in absent)])
    refused |= {
        place: ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for place in [*named, *((name, NO_PARTITION) for name in denied)]
        if place[0] in denied
    }

    def told(response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        done = [topic.name for topic in response.topics if not all(row.error_code for row in topic.partitions)]
        if done:
            services.audit.tell("offsets_altered", ctx, group=request.group_id, topics=done)
        return response

    return ask(services, ctx, services.groups.delete_offsets, request, told, refused)
