"""ListTransactions (key 66): the transactional ids that pass some filters. KIP-664, KIP-994, KIP-1152."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from ottla.broker.context import RequestContext
from ottla.broker.core.pattern import BadPattern, Pattern
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

MATCHED_AT_A_TIME = 65_536
"""Characters of transactional ids that are held against a pattern before it is asked whether somebody still waits."""


async def handle(
    request: ListTransactionsRequest, ctx: RequestContext, services: Services
) -> ListTransactionsResponse | None:
    """The answer; None if its client has gone away meanwhile."""
    text = request.transactional_id_pattern
    if not text:
        return _visible(request, ctx, services)
    async with services.matching:
        answer = _visible(request, ctx, services)
        if answer.error_code:
            return answer
        try:
            pattern = await asyncio.to_thread(Pattern, text)
        except BadPattern:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
        found: list[TransactionState] = []
        for rows in _in_parts(answer.transaction_states):
            if ctx.is_gone:
                ctx.close("its client has gone away while transactional ids were matched")
                return None
            found += await asyncio.to_thread(_matching, pattern, rows)
        answer.transaction_states = found
        return answer


def _visible(request: ListTransactionsRequest, ctx: RequestContext, services: Services) -> ListTransactionsResponse:
    """Those that the client may describe."""
    answer = services.host.enter(services.transactions.list, request, ctx)
    ids = (row.transactional_id for row in answer.transaction_states)
    hidden = services.denied(ctx, AclOperation.DESCRIBE, Resource.TRANSACTIONAL_ID, ids)
    if hidden:
        answer.transaction_states = [row for row in answer.transaction_states if row.transactional_id not in hidden]
    return answer


def _in_parts(rows: list[TransactionState]) -> Iterator[list[TransactionState]]:
    """The rows in parts with `MATCHED_AT_A_TIME` characters of ids, or little more."""
    part: list[TransactionState] = []
    size = 0
    for row in rows:
        part.append(row)
        size += len(row.transactional_id)
        if size >= MATCHED_AT_A_TIME:
            yield part
            part, size = [], 0
    yield part


def _matching(pattern: Pattern, rows: list[TransactionState]) -> list[TransactionState]:
    return [row for row in rows if pattern.matches(row.transactional_id)]
