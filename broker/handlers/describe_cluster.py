"""DescribeCluster (key 60)."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import CLUSTER_NAME, AclOperation, Resource
from ottla.broker.handlers.authorized import NOT_ASKED
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS, _CONTROLLERS = 1, 2


def handle(request: DescribeClusterRequest, ctx: RequestContext, services: Services) -> DescribeClusterResponse:
    node = services.node
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"This is the address of a broker; endpoint type {request.endpoint_type} was asked for"
        return DescribeClusterResponse(error_code=error, error_message=message)
    host, port = node.endpoint(ctx)
    return DescribeClusterResponse(
        cluster_id=node.cluster_id,
        controller_id=node.node_id,
        brokers=[DescribeClusterBroker(broker_id=node.node_id, host=host, port=port)],
        cluster_authorized_operations=cluster_operations(
            ctx, services, asked=request.include_cluster_authorized_operations
        ),
    )


def cluster_operations(ctx: RequestContext, services: Services, *, asked: bool) -> int:
    """What a client may do with the cluster. Who may not describe it is told that he may do nothing."""
    if not asked:
        return NOT_ASKED
    if not services.permits_on_cluster(ctx, AclOperation.DESCRIBE):
        return 0
    return services.operations(ctx, Resource.CLUSTER, CLUSTER_NAME)
