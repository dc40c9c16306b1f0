"""DeleteGroups (key 42). Very many groups are deleted a few at a time."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services, ask, in_parts
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ottla.protocol.steps import Steps

AT_ONCE = 25
"""Groups that are deleted without a pause."""


def handle(
    request: DeleteGroupsRequest, ctx: RequestContext, services: Services
) -> DeleteGroupsResponse | Steps[DeleteGroupsResponse] | None:
    wanted = dict.fromkeys(request.groups_names)
    denied = services.denied(ctx, AclOperation.DELETE, Resource.GROUP, wanted)
    names = [name for name in wanted if name not in denied]

    def completed(response: DeleteGroupsResponse) -> DeleteGroupsResponse:
        for row in response.results:
            if not row.error_code:
                services.audit.tell("group_deleted", ctx, group=row.group_id)
        response.results += [_row(name, ErrorCode.GROUP_AUTHORIZATION_FAILED) for name in denied]
        return response

    if len(names) > AT_ONCE:
        return _in_steps(names, ctx, services, completed)
    return ask(services, ctx, services.groups.delete_groups, DeleteGroupsRequest(groups_names=names), completed)


def _in_steps(
    names: list[str],
    ctx: RequestContext,
    services: Services,
    completed: Callable[[DeleteGroupsResponse], DeleteGroupsResponse],
) -> Steps[DeleteGroupsResponse]:
    parts = ((DeleteGroupsRequest(groups_names=names[at : at + AT_ONCE]),) for at in range(0, len(names), AT_ONCE))
    answers = yield from in_parts(services, ctx, services.groups.delete_groups, parts)
    return completed(DeleteGroupsResponse(results=[result for answer in answers for result in answer.results]))


def _row(name: str, code: int) -> DeletableGroupResult:
    return DeletableGroupResult(group_id=name, error_code=code)


def failed(request: DeleteGroupsRequest, code: int) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(results=[_row(name, code) for name in request.groups_names])
