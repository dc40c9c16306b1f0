"""SyncGroup (key 14): parked until the leader's assignments are logged."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.groups.classic.replies import sync_error
from ottla.broker.core.groups.classic.sync import NAMES_PROTOCOL
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(request: SyncGroupRequest, ctx: RequestContext, services: Services) -> SyncGroupResponse | None:
    names_missing = ctx.api_version >= NAMES_PROTOCOL and None in (request.protocol_type, request.protocol_name)
    if not services.permits(ctx, AclOperation.READ, Resource.GROUP, request.group_id, silently=names_missing):
        wrong, denied = ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.GROUP_AUTHORIZATION_FAILED
        return sync_error(wrong if names_missing else denied)
    return services.host.enter(services.groups.sync, request, ctx)
