"""ElectLeaders (key 43): the preferred leader is the home, which leads a partition whenever it can.

Where nodes share a database others lead it meanwhile, and hand it over in time; to be elected is to get it now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import IntEnum

from ottla.broker.cluster.view import NOBODY
from ottla.broker.context import RequestContext
from ottla.broker.core.refusal import Refusal
from ottla.broker.core.security.acls import AclOperation
from ottla.broker.core.topics.partition import Partition, Standing
from ottla.broker.handlers.missing import find
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ottla.protocol.records import TopicPartition


class ElectionType(IntEnum):
    """The replicas that may win (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


_UNAVAILABLE = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


LONGEST_S = 30
"""A partition that could not be handed over until then goes home all the same, and nobody waits for it any more."""


async def handle(request: ElectLeadersRequest, ctx: RequestContext, services: Services) -> ElectLeadersResponse:
    if not services.permits_on_cluster(ctx, AclOperation.ALTER):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return failed(request, denied, denied.text)
    if request.topic_partitions is not None and not request.topic_partitions:
        return ElectLeadersResponse()
    try:
        election = ElectionType(request.election_type)
    except ValueError:
        return failed(request, ErrorCode.INVALID_REQUEST, f"Election type {request.election_type} is not known")
    called = await _called(request, services) if election is ElectionType.PREFERRED else set()
    if request.topic_partitions is None:
        return ElectLeadersResponse(replica_election_results=_everywhere(election, services, called))
    return _answer(request, lambda name, index: _elect(election, find(services.topics, name, index), services, called))


async def _called(request: ElectLeadersRequest, services: Services) -> Collection[TopicPartition]:
    """Call the partitions home that are away; returns those."""
    cluster, topics, view = services.cluster, services.topics, services.cluster.placement.view
    if cluster.placement.call_home is None:
        return ()
    if request.topic_partitions is None:
        asked: Iterable[TopicPartition] = (partition.tp for partition in topics.all_partitions())
    else:
        asked = (TopicPartition(one.topic, index) for one in request.topic_partitions for index in one.partitions)
    away = {tp for tp in asked if topics.partition(tp) and view.is_away(cluster.leader(tp).node_id, cluster.home(tp))}
    if away:
        logs = [(topics.topics[tp.topic].topic_id, tp.partition) for tp in away]
        await cluster.placement.call_home(logs, min(request.timeout_ms / 1000, LONGEST_S))
    return away


def _answer(
    request: ElectLeadersRequest, outcome: Callable[[str, int], tuple[int, str | None]], code: int = ErrorCode.NONE
) -> ElectLeadersResponse:
    results = [
        ReplicaElectionResult(
            topic=wanted.topic,
            partition_result=[_row(index, *outcome(wanted.topic, index)) for index in wanted.partitions],
        )
        for wanted in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


def _row(index: int, code: int, message: str | None) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=code, error_message=message)


def _everywhere(
    election: ElectionType, services: Services, called: Collection[TopicPartition]
) -> list[ReplicaElectionResult]:
    """Every topic, and of its partitions only those that had needed an election."""
    results = []
    for topic in services.topics.topics.values():
        rows = []
        for partition in topic.partitions:
            code, message = _elect(election, partition, services, called)
            if code is not ErrorCode.ELECTION_NOT_NEEDED:
                rows.append(_row(partition.tp.partition, code, message))
        results.append(ReplicaElectionResult(topic=topic.name, partition_result=rows))
    return results


def _elect(
    election: ElectionType, partition: Partition | Refusal, services: Services, called: Collection[TopicPartition]
) -> tuple[ErrorCode, str | None]:
    if isinstance(partition, Refusal):
        return partition
    cluster = services.cluster
    leader, home = cluster.leader(partition.tp).node_id, cluster.home(partition.tp)
    if partition.tp in called:
        if leader == home:
            return ErrorCode.NONE, None
        return ErrorCode.REQUEST_TIMED_OUT, f"Node {leader} has not handed the partition over to node {home} yet"
    if cluster.placement.call_home is not None and leader not in (NOBODY, home) and election is ElectionType.PREFERRED:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, f"Node {home}, the preferred leader, is down, or drains"
    if leader == NOBODY:
        is_damaged = partition.standing is Standing.OFFLINE
        what = "the log of the only replica is damaged" if is_damaged else "the node of the only replica is down"
        return _UNAVAILABLE[election], what
    return ErrorCode.ELECTION_NOT_NEEDED, "The partition has the leader that it should have"


def failed(request: ElectLeadersRequest, code: int, message: str | None = None) -> ElectLeadersResponse:
    """The answer where none can be elected; also when we have a bug."""
    return _answer(request, lambda name, index: (code, message), code)
