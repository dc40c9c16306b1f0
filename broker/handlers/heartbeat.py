"""Heartbeat (key 12): the hot path. No task, no future, no timer; one integer is stored."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

# Answers carry nothing but their code, so one of each is enough.
_ANSWERS: dict[int, HeartbeatResponse] = {0: HeartbeatResponse()}


def handle(request: HeartbeatRequest, ctx: RequestContext, services: Services) -> HeartbeatResponse:
    error = services.groups.heartbeat(request, services.clock.monotonic_ms())
    answer = _ANSWERS.get(error)
    if answer is None:
        answer = _ANSWERS[error] = HeartbeatResponse(error_code=error)
    return answer


repeat = handle
