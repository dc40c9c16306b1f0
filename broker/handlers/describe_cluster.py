"""DescribeCluster (key 60)."""

from __future__ import annotations

from ottla.broker.cluster.view import NodeState
from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import CLUSTER_NAME, AclOperation, Resource
from ottla.broker.handlers.authorized import NOT_ASKED
from ottla.broker.handlers.services import Broker, Cluster, Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS, _CONTROLLERS = 1, 2


def handle(request: DescribeClusterRequest, ctx: RequestContext, services: Services) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        message = f"This is the address of a broker; endpoint type {request.endpoint_type} was asked for"
        return DescribeClusterResponse(error_code=error, error_message=message)
    cluster = services.cluster
    return DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller_id,
        brokers=_brokers(ctx, cluster, fenced=request.include_fenced_brokers),
        cluster_authorized_operations=cluster_operations(
            ctx, services, asked=request.include_cluster_authorized_operations
        ),
    )


def _brokers(ctx: RequestContext, cluster: Cluster, *, fenced: bool) -> list[DescribeClusterBroker]:
    """Those that are up, and (KIP-1073) those that are not: Kafka says of these that they are fenced.

    So are those that drain, as they lead nothing. Who does not ask for it is told of them as before.
    """
    up, nodes = cluster.brokers(ctx), cluster.placement.view.nodes
    drain = {broker.node_id for broker in up if fenced and nodes[broker.node_id].state is NodeState.DRAINING}
    rows = [_row(broker, is_fenced=broker.node_id in drain) for broker in up]
    if fenced:
        ids = {broker.node_id for broker in up}
        down = (cluster.broker(node_id, ctx) for node_id in cluster.node_ids if node_id not in ids)
        rows += [_row(broker, is_fenced=True) for broker in down if broker is not None]
    return rows


def _row(broker: Broker, *, is_fenced: bool = False) -> DescribeClusterBroker:
    node_id, host, port, rack = broker
    return DescribeClusterBroker(broker_id=node_id, host=host, port=port, rack=rack, is_fenced=is_fenced)


def cluster_operations(ctx: RequestContext, services: Services, *, asked: bool) -> int:
    """What a client may do with the cluster. Who may not describe it is told that he may do nothing."""
    if not asked:
        return NOT_ASKED
    if not services.permits_on_cluster(ctx, AclOperation.DESCRIBE):
        return 0
    return services.operations(ctx, Resource.CLUSTER, CLUSTER_NAME)
