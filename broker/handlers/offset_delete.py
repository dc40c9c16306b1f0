"""OffsetDelete (key 47): the group is asked even where no partition exists (KIP-496)."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.groups.offsets.commit import NO_PARTITION
from ottla.broker.handlers.missing import missing_partitions
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


def handle(request: OffsetDeleteRequest, ctx: RequestContext, services: Services) -> OffsetDeleteResponse | None:
    named = [(topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions]
    absent = [topic.name for topic in request.topics if topic.name not in services.topics.topics]
    refused = missing_partitions(services.topics, [*named, *((name, NO_PARTITION) for name in absent)])
    return services.host.enter(services.groups.delete_offsets, request, ctx, refused)
