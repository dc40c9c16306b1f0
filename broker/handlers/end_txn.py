"""EndTxn (key 26): commit or abort a transaction. KIP-98, KIP-890."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse


def handle(request: EndTxnRequest, ctx: RequestContext, services: Services) -> EndTxnResponse | None:
    if not services.permits(ctx, AclOperation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        return EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    return services.host.enter(services.transactions.end, request, ctx)
