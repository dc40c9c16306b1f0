"""OffsetDelete (key 47): unknown partitions are answered here, the group is asked in any case (KIP-496)."""

from __future__ import annotations

import dataclasses

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

VERSIONS = range(1)


def handle(request: OffsetDeleteRequest, ctx: RequestContext, services: Services) -> OffsetDeleteResponse | None:
    known, refused = [], []
    for topic in request.topics:
        count = services.topics.partition_count(topic.name)
        here = [p for p in topic.partitions if 0 <= p.partition_index < count]
        missing = [p.partition_index for p in topic.partitions if not 0 <= p.partition_index < count]
        if here:
            known.append(OffsetDeleteRequestTopic(name=topic.name, partitions=here))
        if missing:
            refused.append(_refused(topic.name, missing))
    merged = _Merged(ctx, refused)
    response = services.groups.delete_offsets(dataclasses.replace(request, topics=known), merged)
    return None if response is None else merged.merge(response)


class _Merged:
    """A context whose answer is completed with the partitions that do not exist."""

    def __init__(self, ctx: RequestContext, refused: list[OffsetDeleteResponseTopic]) -> None:
        self._ctx = ctx
        self._refused = refused
        self.api_version = ctx.api_version
        self.client_id = ctx.client_id
        self.client_host = ctx.client_host

    def reply(self, response: OffsetDeleteResponse) -> None:
        self._ctx.reply(self.merge(response))

    def merge(self, response: OffsetDeleteResponse) -> OffsetDeleteResponse:
        if response.error_code:
            return response  # an error of the group stands alone
        topics = {topic.name: topic for topic in response.topics}
        for refused in self._refused:
            if refused.name in topics:
                topics[refused.name].partitions.extend(refused.partitions)
            else:
                topics[refused.name] = refused
        return OffsetDeleteResponse(topics=list(topics.values()))


def _refused(name: str, indexes: list[int]) -> OffsetDeleteResponseTopic:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partitions = [OffsetDeleteResponsePartition(partition_index=index, error_code=error) for index in indexes]
    return OffsetDeleteResponseTopic(name=name, partitions=partitions)
