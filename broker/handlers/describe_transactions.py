"""DescribeTransactions (key 65): the states of transactional ids. KIP-664."""

from __future__ import annotations

from dataclasses import replace

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def handle(
    request: DescribeTransactionsRequest, ctx: RequestContext, services: Services
) -> DescribeTransactionsResponse:
    denied = services.denied(ctx, AclOperation.DESCRIBE, Resource.TRANSACTIONAL_ID, request.transactional_ids)
    allowed = replace(request, transactional_ids=[each for each in request.transactional_ids if each not in denied])
    response = services.host.enter(services.transactions.describe, allowed, ctx)
    names = (topic.topic for state in response.transaction_states for topic in state.topics)
    hidden = services.denied(ctx, AclOperation.DESCRIBE, Resource.TOPIC, names)
    for state in response.transaction_states if hidden else ():
        state.topics = [topic for topic in state.topics if topic.topic not in hidden]
    if denied:
        found = iter(response.transaction_states)
        response.transaction_states = [
            _denied(each) if each in denied else next(found) for each in request.transactional_ids
        ]
    return response


def _denied(transactional_id: str) -> TransactionState:
    error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return TransactionState(transactional_id=transactional_id, error_code=error)


def failed(request: DescribeTransactionsRequest, code: int) -> DescribeTransactionsResponse:
    rows = [TransactionState(transactional_id=each, error_code=code) for each in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=rows)
