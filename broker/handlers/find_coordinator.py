"""FindCoordinator (key 10): the node that leads the partition that a group or a transactional id belongs to.

The first time that a client asks for a transaction coordinator, its topic is created before the answer is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Broker, Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP, TRANSACTION, SHARE = 0, 1, 2
BATCH_FROM, SHARE_FROM = 4, 6

_ASKED = {
    GROUP: (Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    TRANSACTION: (Resource.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
_TOPICS = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC}


def handle(request: FindCoordinatorRequest, ctx: RequestContext, services: Services) -> FindCoordinatorResponse | None:
    keys = request.coordinator_keys if ctx.api_version >= BATCH_FROM else [request.key]
    if request.key_type not in _ASKED:
        return _answer(keys, {}, _refusal(request, ctx, services), lambda key: None, ctx)
    resource, error = _ASKED[request.key_type]
    denied = dict.fromkeys(services.denied(ctx, AclOperation.DESCRIBE, resource, keys), error)
    find = partial(services.cluster.coordinator, _TOPICS[request.key_type], ctx)
    if request.key_type == GROUP or (denied and all(key in denied for key in keys)):
        return _answer(keys, denied, ErrorCode.NONE, find, ctx)
    services.transaction_needs.prepare(lambda error: ctx.reply(_answer(keys, denied, error, find, ctx)))
    return None


def _refusal(request: FindCoordinatorRequest, ctx: RequestContext, services: Services) -> ErrorCode:
    """Why nothing else is coordinated. Brokers alone may ask for what share groups have."""
    is_known = request.key_type == SHARE and ctx.api_version >= SHARE_FROM
    if is_known and not services.permits_on_cluster(ctx, AclOperation.CLUSTER_ACTION):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ErrorCode.INVALID_REQUEST


def _answer(
    keys: Sequence[str],
    denied: Mapping[str, ErrorCode],
    otherwise: ErrorCode,
    find: Callable[[str], Broker | None],
    ctx: RequestContext,
) -> FindCoordinatorResponse:
    found = []
    for key in keys:
        error = denied.get(key, otherwise)
        broker = None if error else find(key)
        if broker is None:
            error = error or ErrorCode.COORDINATOR_NOT_AVAILABLE
            found.append(Coordinator(key=key, node_id=-1, port=-1, error_code=error, error_message=error.text))
        else:
            node_id, host, port, _ = broker
            found.append(Coordinator(key=key, node_id=node_id, host=host, port=port, error_message=""))
    if ctx.api_version >= BATCH_FROM:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message or "NONE",  # versions 1 to 3 say NONE on success, as Kafka does
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def failed(request: FindCoordinatorRequest, code: int) -> FindCoordinatorResponse:
    keys = [Coordinator(key=key, node_id=-1, port=-1, error_code=code) for key in request.coordinator_keys]
    return FindCoordinatorResponse(error_code=code, node_id=-1, port=-1, coordinators=keys)
