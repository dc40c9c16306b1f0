"""DeleteGroups (key 42). Very many groups are deleted a few at a time."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services, in_parts
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.steps import Steps

AT_ONCE = 25
"""Groups that are deleted without a pause."""


def handle(
    request: DeleteGroupsRequest, ctx: RequestContext, services: Services
) -> DeleteGroupsResponse | Steps[DeleteGroupsResponse] | None:
    if len(request.groups_names) <= AT_ONCE:
        return services.host.enter(services.groups.delete_groups, request, ctx)
    return _in_steps(list(dict.fromkeys(request.groups_names)), ctx, services)


def _in_steps(names: list[str], ctx: RequestContext, services: Services) -> Steps[DeleteGroupsResponse]:
    parts = ((DeleteGroupsRequest(groups_names=names[at : at + AT_ONCE]),) for at in range(0, len(names), AT_ONCE))
    answers = yield from in_parts(services, ctx, services.groups.delete_groups, parts)
    return DeleteGroupsResponse(results=[result for answer in answers for result in answer.results])


def failed(request: DeleteGroupsRequest, code: int) -> DeleteGroupsResponse:
    names = request.groups_names
    return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=name, error_code=code) for name in names])
