"""LeaveGroup (key 13): one member up to version 2, several from version 3; the coordinator takes either form."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(request: LeaveGroupRequest, ctx: RequestContext, services: Services) -> LeaveGroupResponse | None:
    if not services.permits(ctx, AclOperation.READ, Resource.GROUP, request.group_id):
        return LeaveGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    services.members.leaving(request, ctx)
    return services.host.enter(services.groups.leave, request, ctx)
