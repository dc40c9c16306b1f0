"""AlterPartitionReassignments (key 45): the first replica is where a partition is at home from now on.

That is so where nodes share a database. Else the only replica may be named again; no other can be while nodes run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ottla.broker.cluster.view import NOBODY
from ottla.broker.context import RequestContext
from ottla.broker.core.refusal import Refusal
from ottla.broker.core.security.acls import AclOperation
from ottla.broker.core.topics.homes import FOLLOWERS
from ottla.broker.core.topics.partition import Partition
from ottla.broker.engine import EngineError
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
from ottla.protocol.records import TopicPartition


async def handle(
    request: AlterPartitionReassignmentsRequest, ctx: RequestContext, services: Services
) -> AlterPartitionReassignmentsResponse:
    if not services.permits_on_cluster(ctx, AclOperation.ALTER):
        return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if not request.topics:
        return AlterPartitionReassignmentsResponse()
    moves: dict[TopicPartition, Sequence[int]] = {}
    may_change = request.allow_replication_factor_change
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[_row(topic.name, wanted, services, moves, may_change) for wanted in topic.partitions],
        )
        for topic in request.topics
    ]
    if moves and services.cluster.placement.call_home is not None:
        try:
            await services.topics.rehome(moves)
        except EngineError as error:
            return _refused(request, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        for topic in dict.fromkeys(tp.topic for tp in moves):
            replicas = {str(tp.partition): list(nodes) for tp, nodes in moves.items() if tp.topic == topic}
            services.audit.tell("partitions_moved", ctx, topic=topic, replicas=replicas)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )


def _refused(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str = ""
) -> AlterPartitionReassignmentsResponse:
    """The answer where nothing is moved."""
    message = message or code.text
    rows = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=wanted.partition_index, error_code=code, error_message=message
                )
                for wanted in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=message, responses=rows)


def _row(
    name: str,
    wanted: ReassignablePartition,
    services: Services,
    moves: dict[TopicPartition, Sequence[int]],
    may_change: bool,
) -> ReassignablePartitionResponse:
    found = find(services.topics, name, wanted.partition_index)
    code, message = found if isinstance(found, Refusal) else _change(found, wanted, services, moves, may_change)
    return ReassignablePartitionResponse(partition_index=wanted.partition_index, error_code=code, error_message=message)


def _change(
    partition: Partition,
    wanted: ReassignablePartition,
    services: Services,
    moves: dict[TopicPartition, Sequence[int]],
    may_change: bool,
) -> tuple[ErrorCode, str | None]:
    """What becomes of a partition; where it is to be at home elsewhere, that joins the moves."""
    tp, cluster = partition.tp, services.cluster
    leader = cluster.leader(tp).node_id
    replicas, _ = cluster.replicas(tp, NOBODY)
    if wanted.replicas is None:
        if cluster.placement.call_home is None or not cluster.placement.view.is_away(leader, cluster.home(tp)):
            return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "The partition is not being moved"
        moves[tp] = [leader, *(one for one in replicas[1:] if one != leader)]
        return ErrorCode.NONE, None
    if problem := _problem(wanted.replicas, tp, cluster):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem
    if len(wanted.replicas) != len(replicas) and not may_change:
        text = f"The partition has {len(replicas)} replica(s), and {len(wanted.replicas)} are named"
        return ErrorCode.INVALID_REPLICATION_FACTOR, text
    moves[tp] = wanted.replicas
    return ErrorCode.NONE, None


def _problem(replicas: list[int], tp: TopicPartition, cluster: Cluster) -> str:
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
    if cluster.placement.call_home is not None:
        followed = FOLLOWERS.get(tp.topic)
        return "" if followed is None else f"The partition is where {followed}-{tp.partition} is: move that one"
    home = cluster.home(tp)
    if replicas != [home]:
        return f"The partition is at home on node {home}; `ottla cluster spread` moves partitions while no node runs"
    return ""
