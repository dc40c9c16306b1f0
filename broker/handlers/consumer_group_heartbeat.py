"""ConsumerGroupHeartbeat (key 68): join a group of the ``consumer`` protocol, stay in it, leave it (KIP-848).

A member that has nothing to say and nothing to do is answered the short way, without the host.
"""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def repeat(
    request: ConsumerGroupHeartbeatRequest, ctx: RequestContext, services: Services
) -> ConsumerGroupHeartbeatResponse | None:
    return services.groups.beat(request, ctx, services.clock.monotonic_ms())


def handle(
    request: ConsumerGroupHeartbeatRequest, ctx: RequestContext, services: Services
) -> ConsumerGroupHeartbeatResponse | None:
    answer = repeat(request, ctx, services)
    if answer is None:
        answer = services.host.enter(services.groups.consumer_heartbeat, request, ctx)
        if not request.member_epoch:
            services.members.beats(request, ctx)
    return answer
