"""ListGroups (key 16): all groups for those who may describe the cluster; for others those that they may describe."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.steps import Steps, finished

AT_ONCE = 500
"""Groups that are asked for without a pause."""


def handle(
    request: ListGroupsRequest, ctx: RequestContext, services: Services
) -> ListGroupsResponse | Steps[ListGroupsResponse]:
    if not services.cluster.placement.has_lease:  # it has let go of all groups, and others may not have them yet
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answer = services.host.enter(services.groups.list_groups, request, ctx)
    if services.permits_on_cluster(ctx, AclOperation.DESCRIBE, silently=True):
        return answer
    steps = _visible(answer, ctx, services)
    return finished(steps) if isinstance(answer, ListGroupsResponse) else steps


def _visible(
    answer: ListGroupsResponse | Steps[ListGroupsResponse], ctx: RequestContext, services: Services
) -> Steps[ListGroupsResponse]:
    response = answer if isinstance(answer, ListGroupsResponse) else (yield from answer)
    groups = []
    for number, group in enumerate(response.groups, 1):
        if services.permits(ctx, AclOperation.DESCRIBE, Resource.GROUP, group.group_id, silently=True):
            groups.append(group)
        if not number % AT_ONCE:
            yield None
    response.groups = groups
    return response
