"""AlterPartitionReassignments (key 45): the only replica may be named again; no other can be while nodes run."""

from __future__ import annotations

from collections import Counter

from ottla.broker.context import RequestContext
from ottla.broker.core.refusal import Refusal
from ottla.broker.core.security.acls import AclOperation
from ottla.broker.handlers.missing import find
from ottla.broker.handlers.services import Cluster, Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(
    request: AlterPartitionReassignmentsRequest, ctx: RequestContext, services: Services
) -> AlterPartitionReassignmentsResponse:
    if not services.permits_on_cluster(ctx, AclOperation.ALTER):
        return _denied(request)
    if not request.topics:
        return AlterPartitionReassignmentsResponse()
    responses = [
        ReassignableTopicResponse(
            name=topic.name, partitions=[_row(topic.name, wanted, services) for wanted in topic.partitions]
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )


def _denied(request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    rows = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=wanted.partition_index, error_code=code, error_message=code.text
                )
                for wanted in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=code.text, responses=rows)


def _row(name: str, wanted: ReassignablePartition, services: Services) -> ReassignablePartitionResponse:
    code, message = _change(name, wanted, services)
    return ReassignablePartitionResponse(partition_index=wanted.partition_index, error_code=code, error_message=message)


def _change(name: str, wanted: ReassignablePartition, services: Services) -> tuple[ErrorCode, str | None]:
    found = find(services.topics, name, wanted.partition_index)
    if isinstance(found, Refusal):
        return found
    if wanted.replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "The partition is not being moved"
    if problem := _problem(wanted.replicas, services.cluster.home(found.tp), services.cluster):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem
    return ErrorCode.NONE, None


def _problem(replicas: list[int], home: int, cluster: Cluster) -> str:
    """The fault of a list of replicas; the empty string if there is none."""
    if not replicas:
        return "The list of replicas is empty"
    repeated = [broker for broker, times in Counter(replicas).items() if times > 1]
    if repeated:
        return f"Broker {repeated[0]} is listed more than once"
    node_ids = cluster.node_ids
    if strangers := [broker for broker in replicas if broker not in node_ids]:
        them = f"node {cluster.me} alone" if len(node_ids) == 1 else f"nodes {', '.join(map(str, node_ids))}"
        return f"There is no broker {strangers[0]}: this cluster is {them}"
    if replicas != [home]:
        return f"The partition is at home on node {home}; `ottla cluster spread` moves partitions while no node runs"
    return ""
