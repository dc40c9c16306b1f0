"""ListGroups (key 16)."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.steps import Steps


def handle(
    request: ListGroupsRequest, ctx: RequestContext, services: Services
) -> ListGroupsResponse | Steps[ListGroupsResponse]:
    return services.host.enter(services.groups.list_groups, request, ctx)
