"""OffsetFetch (key 9): one group up to version 7, several from version 8; the coordinator answers in either form.

From version 10 on topics are given by their ids. The coordinator knows them by name (KIP-848).
"""

from __future__ import annotations

from uuid import UUID

from ottla.broker.context import RequestContext
from ottla.broker.core.groups.offsets.commit import KNOWS_TOPIC_IDS
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup
from ottla.protocol.primitives import ZERO_UUID


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

    return services.host.enter(services.groups.fetch_offsets, request, ctx, topic_id)


def failed(request: OffsetFetchRequest, code: int) -> OffsetFetchResponse:
    groups = [OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups]
    return OffsetFetchResponse(error_code=code, groups=groups)
