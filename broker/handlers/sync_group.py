"""SyncGroup (key 14): parked until the leader's assignments are logged."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(request: SyncGroupRequest, ctx: RequestContext, services: Services) -> SyncGroupResponse | None:
    return services.host.enter(services.groups.sync, request, ctx)
