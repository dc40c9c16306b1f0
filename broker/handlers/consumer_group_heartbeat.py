"""ConsumerGroupHeartbeat (key 68): join a group of the ``consumer`` protocol, stay in it, leave it (KIP-848).

A member that has nothing to say and nothing to do is answered the short way, without the host. Others may wait for a
turn: thousands may come at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def names(request: ConsumerGroupHeartbeatRequest, ctx: RequestContext) -> Iterator[str]:
    """The topics that a member wants. A regular expression may want a new one: no topic has the empty name."""
    yield from request.subscribed_topic_names or ()
    if request.subscribed_topic_regex:
        yield ""


def repeat(
    request: ConsumerGroupHeartbeatRequest, ctx: RequestContext, services: Services
) -> ConsumerGroupHeartbeatResponse | None:
    return services.groups.beat(request, ctx, services.clock.monotonic_ms())


def handle(
    request: ConsumerGroupHeartbeatRequest, ctx: RequestContext, services: Services
) -> ConsumerGroupHeartbeatResponse | None:
    if services.authorizer is not None and (refusal := _refusal(request, ctx, services)):
        # Not for the dispatcher to keep: one that comes again asks nothing.
        ctx.reply(ConsumerGroupHeartbeatResponse(error_code=refusal, error_message=refusal.text))
        return None
    answer = repeat(request, ctx, services)
    if answer is None:
        answer = services.host.turns.serve(partial(_serve, request, ctx, services), ctx, _failed)
    return answer


def _serve(
    request: ConsumerGroupHeartbeatRequest, ctx: RequestContext, services: Services
) -> ConsumerGroupHeartbeatResponse | None:
    answer = services.host.enter(services.groups.consumer_heartbeat, request, ctx)
    if not request.member_epoch:
        services.members.beats(request, ctx)
    return answer


def _failed() -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)


def _refusal(request: ConsumerGroupHeartbeatRequest, ctx: RequestContext, services: Services) -> ErrorCode:
    """Why somebody may not be a member of the group, with the topics that he names."""
    if not services.groups.config.serves_consumer_protocol:
        return ErrorCode.NONE  # the coordinator says so
    if not services.permits(ctx, AclOperation.READ, Resource.GROUP, request.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    names = request.subscribed_topic_names or ()
    if services.denied(ctx, AclOperation.DESCRIBE, Resource.TOPIC, names):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE
