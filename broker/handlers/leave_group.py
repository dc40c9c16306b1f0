"""LeaveGroup (key 13). Versions 0 to 2 name one member; they are served as a batch of one."""

from __future__ import annotations

import dataclasses

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

VERSIONS = range(6)
BATCH_FROM = 3


def handle(request: LeaveGroupRequest, ctx: RequestContext, services: Services) -> LeaveGroupResponse | None:
    if ctx.api_version < BATCH_FROM:
        request = dataclasses.replace(request, members=[MemberIdentity(member_id=request.member_id)])
    return services.groups.leave(request, ctx)
