"""DeleteGroups (key 42)."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(request: DeleteGroupsRequest, ctx: RequestContext, services: Services) -> DeleteGroupsResponse | None:
    return services.host.enter(services.groups.delete_groups, request, ctx)


def failed(request: DeleteGroupsRequest, code: int) -> DeleteGroupsResponse:
    names = request.groups_names
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name, error_code=code) for name in names])
