"""FindCoordinator (key 10): this node coordinates every group and every transactional id.

The first time that a client asks for a transaction coordinator, its topic is created before the answer is given.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP, TRANSACTION = 0, 1
BATCH_FROM = 4


def handle(request: FindCoordinatorRequest, ctx: RequestContext, services: Services) -> FindCoordinatorResponse | None:
    keys = request.coordinator_keys if ctx.api_version >= BATCH_FROM else [request.key]
    if request.key_type == TRANSACTION:
        services.transaction_needs.prepare(lambda error: ctx.reply(_answer(keys, error, ctx, services)))
        return None
    error = ErrorCode.NONE if request.key_type == GROUP else ErrorCode.INVALID_REQUEST
    return _answer(keys, error, ctx, services)


def _answer(keys: Sequence[str], error: ErrorCode, ctx: RequestContext, services: Services) -> FindCoordinatorResponse:
    host, port = services.node.endpoint(ctx)
    text = error.text if error else ""
    found = [
        Coordinator(
            key=key,
            node_id=-1 if error else services.node.node_id,
            host="" if error else host,
            port=-1 if error else port,
            error_code=error,
            error_message=text,
        )
        for key in keys
    ]
    if ctx.api_version >= BATCH_FROM:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=error,
        error_message=text or "NONE",  # versions 1 to 3 say NONE on success, as Kafka does
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def failed(request: FindCoordinatorRequest, code: int) -> FindCoordinatorResponse:
    keys = [Coordinator(key=key, node_id=-1, port=-1, error_code=code) for key in request.coordinator_keys]
    return FindCoordinatorResponse(error_code=code, node_id=-1, port=-1, coordinators=keys)
