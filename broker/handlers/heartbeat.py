"""Heartbeat (key 12): the hot path. No task, no future, no timer; one integer is stored."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

# Answers carry nothing but their code, so one of each is enough.
_ANSWERS: dict[int, HeartbeatResponse] = {0: HeartbeatResponse()}


def repeat(request: HeartbeatRequest, ctx: RequestContext, services: Services) -> HeartbeatResponse:
    error = services.groups.heartbeat(request, services.clock.monotonic_ms())
    answer = _ANSWERS.get(error)
    if answer is None:
        answer = _ANSWERS[error] = HeartbeatResponse(error_code=error)
    return answer


def handle(request: HeartbeatRequest, ctx: RequestContext, services: Services) -> HeartbeatResponse | None:
    # One that comes again asks nothing: when rules change, nothing is taken for a repetition any more. What is denied
    # is answered through the context, so that it is none either.
    if not services.permits(ctx, AclOperation.READ, Resource.GROUP, request.group_id):
        ctx.reply(HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return None
    return repeat(request, ctx, services)
