"""ListTransactions (key 66): the transactional ids that pass some filters. KIP-664, KIP-994, KIP-1152."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

VERSIONS = range(3)


async def handle(
    request: ListTransactionsRequest, ctx: RequestContext, services: Services
) -> ListTransactionsResponse | None:
    return await services.transactions.list(request, ctx)
