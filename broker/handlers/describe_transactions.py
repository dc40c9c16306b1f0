"""DescribeTransactions (key 65): the states of transactional ids. KIP-664."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.handlers.services import Services
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def handle(
    request: DescribeTransactionsRequest, ctx: RequestContext, services: Services
) -> DescribeTransactionsResponse:
    return services.host.enter(services.transactions.describe, request, ctx)


def failed(request: DescribeTransactionsRequest, code: int) -> DescribeTransactionsResponse:
    rows = [TransactionState(transactional_id=each, error_code=code) for each in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=rows)
