"""EndTxn (key 26): commit or abort a transaction. KIP-98, KIP-890."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse


def handle(request: EndTxnRequest, ctx: RequestContext, services: Services) -> EndTxnResponse | None:
    return services.host.enter(services.transactions.end, request, ctx)
