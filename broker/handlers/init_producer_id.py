"""InitProducerId (key 22): an identity for an idempotent or transactional producer. KIP-98, KIP-360, KIP-588."""

from __future__ import annotations

from functools import partial

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.engine import EngineError
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def handle(
    request: InitProducerIdRequest, ctx: RequestContext, services: Services
) -> InitProducerIdResponse | None:
    if refusal := _refusal(request, ctx, services):
        return failed(request, refusal)
    if request.transactional_id == "":
        return failed(request, ErrorCode.INVALID_REQUEST)
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return failed(request, ErrorCode.INVALID_REQUEST)
    if request.transactional_id is not None:
        services.transaction_needs.prepare(partial(_prepared, request, ctx, services))
        return None
    # A producer without transactions that asks for a higher epoch of its id (KIP-360) is given a new id, as by Kafka:
    # its sequences begin at 0 with either.
    try:
        producer_id = await services.topics.new_producer_id()
    except EngineError:
        return failed(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def _refusal(request: InitProducerIdRequest, ctx: RequestContext, services: Services) -> ErrorCode:
    """Why somebody may be no producer. Whoever may write to any topic may be an idempotent one (KIP-679)."""
    name = request.transactional_id
    if name is not None:
        permitted = services.permits(ctx, AclOperation.WRITE, Resource.TRANSACTIONAL_ID, name)
        return ErrorCode.NONE if permitted else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    permitted = services.permits_somewhere(ctx, AclOperation.WRITE, Resource.TOPIC)
    permitted = permitted or services.permits_on_cluster(ctx, AclOperation.IDEMPOTENT_WRITE)
    return ErrorCode.NONE if permitted else ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def _prepared(request: InitProducerIdRequest, ctx: RequestContext, services: Services, error: ErrorCode) -> None:
    if error:
        answer: InitProducerIdResponse | None = failed(request, error)
    else:
        answer = services.host.enter(services.transactions.init_producer_id, request, ctx)
    if answer is not None:
        ctx.reply(answer)


def failed(request: InitProducerIdRequest, code: int) -> InitProducerIdResponse:
    """The answer without an identity."""
    return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
