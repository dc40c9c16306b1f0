"""OffsetFetch (key 9). Versions 1 to 7 ask for one group; they are served as a batch of one."""

from __future__ import annotations

import dataclasses

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

VERSIONS = range(1, 9)
BATCH_FROM = 8
GROUP_ERROR_FROM = 2


def handle(request: OffsetFetchRequest, ctx: RequestContext, services: Services) -> OffsetFetchResponse | None:
    if ctx.api_version >= BATCH_FROM:
        return services.groups.fetch_offsets(request, ctx)
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    group = OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)
    single = _Single(ctx, request)
    response = services.groups.fetch_offsets(dataclasses.replace(request, groups=[group]), single)
    return None if response is None else single.unfold(response)


def failed(request: OffsetFetchRequest, code: int) -> OffsetFetchResponse:
    groups = [OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups]
    return OffsetFetchResponse(error_code=code, groups=groups)


class _Single:
    """A context whose answer is the only group's, in the shape that versions 1 to 7 have."""

    def __init__(self, ctx: RequestContext, request: OffsetFetchRequest) -> None:
        self._ctx = ctx
        self._request = request
        self.api_version = ctx.api_version
        self.client_id = ctx.client_id
        self.client_host = ctx.client_host

    def reply(self, response: OffsetFetchResponse) -> None:
        self._ctx.reply(self.unfold(response))

    def unfold(self, response: OffsetFetchResponse) -> OffsetFetchResponse:
        group = response.groups[0]
        if group.error_code and self.api_version < GROUP_ERROR_FROM:
            return OffsetFetchResponse(topics=self._error_everywhere(group.error_code))
        topics = [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=p.partition_index,
                        committed_offset=p.committed_offset,
                        committed_leader_epoch=p.committed_leader_epoch,
                        metadata=p.metadata,
                        error_code=p.error_code,
                    )
                    for p in topic.partitions
                ],
            )
            for topic in group.topics
        ]
        return OffsetFetchResponse(topics=topics, error_code=group.error_code)

    def _error_everywhere(self, code: int) -> list[OffsetFetchResponseTopic]:
        """Version 1 has no error of the group, so it is repeated for every partition asked for."""
        return [
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, metadata="", error_code=code
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in self._request.topics or ()
        ]
