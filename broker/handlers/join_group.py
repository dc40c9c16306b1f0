"""JoinGroup (key 11): parked until the generation is formed."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.groups.classic.replies import join_error
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse


def handle(request: JoinGroupRequest, ctx: RequestContext, services: Services) -> JoinGroupResponse | None:
    if not services.permits(ctx, AclOperation.READ, Resource.GROUP, request.group_id):
        return join_error(ctx, ErrorCode.GROUP_AUTHORIZATION_FAILED, "")
    answer = services.host.enter(services.groups.join, request, ctx)
    services.members.joined(request, ctx, answer)
    return answer


def failed(request: JoinGroupRequest, code: int) -> JoinGroupResponse:
    # The empty protocol name can be written in every version; null only from 7 on.
    return JoinGroupResponse(error_code=code, member_id=request.member_id)
