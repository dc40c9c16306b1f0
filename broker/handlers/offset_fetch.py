"""OffsetFetch (key 9): one group up to version 7, several from version 8; the coordinator answers in either form."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup

VERSIONS = range(1, 9)


def handle(request: OffsetFetchRequest, ctx: RequestContext, services: Services) -> OffsetFetchResponse | None:
    return services.groups.fetch_offsets(request, ctx)


def failed(request: OffsetFetchRequest, code: int) -> OffsetFetchResponse:
    groups = [OffsetFetchResponseGroup(group_id=group.group_id, error_code=code) for group in request.groups]
    return OffsetFetchResponse(error_code=code, groups=groups)
