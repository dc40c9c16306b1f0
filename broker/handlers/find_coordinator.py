"""FindCoordinator (key 10): this node coordinates every group.

Transactions have no coordinator yet and none of their APIs are advertised. Their keys are answered with the one error
that clients take as final: a retriable one would let them wait until they time out.
"""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

VERSIONS = range(5)
GROUP, TRANSACTION = 0, 1
BATCH_FROM = 4


def handle(request: FindCoordinatorRequest, ctx: RequestContext, services: Services) -> FindCoordinatorResponse:
    host, port = services.node.endpoint(ctx)
    error = _error_of(request.key_type)
    keys = request.coordinator_keys if ctx.api_version >= BATCH_FROM else [request.key]
    found = [
        Coordinator(
            key=key,
            node_id=-1 if error else services.node.node_id,
            host="" if error else host,
            port=-1 if error else port,
            error_code=error,
            error_message=_text_of(error),
        )
        for key in keys
    ]
    if ctx.api_version >= BATCH_FROM:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=error,
        error_message=_text_of(error) or "NONE",  # versions 1 to 3 say NONE on success, as Kafka does
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def failed(request: FindCoordinatorRequest, code: int) -> FindCoordinatorResponse:
    keys = [Coordinator(key=key, node_id=-1, port=-1, error_code=code) for key in request.coordinator_keys]
    return FindCoordinatorResponse(error_code=code, node_id=-1, port=-1, coordinators=keys)


def _error_of(key_type: int) -> ErrorCode:
    if key_type == GROUP:
        return ErrorCode.NONE
    if key_type == TRANSACTION:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return ErrorCode.INVALID_REQUEST


def _text_of(error: ErrorCode) -> str:
    if error is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return "This broker does not support transactions yet"
    return error.text if error else ""
