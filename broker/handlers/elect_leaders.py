"""ElectLeaders (key 43): the only replica of a partition leads it whenever it can, so there is nothing to elect."""

from __future__ import annotations

from collections.abc import Callable
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


class ElectionType(IntEnum):
    """The replicas that may win (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


_UNAVAILABLE = {
    ElectionType.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    ElectionType.UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


def handle(request: ElectLeadersRequest, ctx: RequestContext, services: Services) -> ElectLeadersResponse:
    if not services.permits_on_cluster(ctx, AclOperation.ALTER):
        denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return failed(request, denied, denied.text)
    if request.topic_partitions is not None and not request.topic_partitions:
        return ElectLeadersResponse()
    try:
        election = ElectionType(request.election_type)
    except ValueError:
        return failed(request, ErrorCode.INVALID_REQUEST, f"Election type {request.election_type} is not known")
    if request.topic_partitions is None:
        return ElectLeadersResponse(replica_election_results=_everywhere(election, services))
    return _answer(request, lambda name, index: _elect(election, find(services.topics, name, index), services))


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


def _everywhere(election: ElectionType, services: Services) -> list[ReplicaElectionResult]:
    """Every topic, and of its partitions only those that had needed an election."""
    results = []
    for topic in services.topics.topics.values():
        rows = []
        for partition in topic.partitions:
            code, message = _elect(election, partition, services)
            if code is not ErrorCode.ELECTION_NOT_NEEDED:
                rows.append(_row(partition.tp.partition, code, message))
        results.append(ReplicaElectionResult(topic=topic.name, partition_result=rows))
    return results


def _elect(election: ElectionType, partition: Partition | Refusal, services: Services) -> tuple[ErrorCode, str]:
    if isinstance(partition, Refusal):
        return partition
    if services.cluster.leader(partition.tp).node_id == NOBODY:
        is_damaged = partition.standing is Standing.OFFLINE
        what = "the log of the only replica is damaged" if is_damaged else "the node of the only replica is down"
        return _UNAVAILABLE[election], what
    return ErrorCode.ELECTION_NOT_NEEDED, "The partition has the leader that it should have"


def failed(request: ElectLeadersRequest, code: int, message: str | None = None) -> ElectLeadersResponse:
    """The answer where none can be elected; also when we have a bug."""
    return _answer(request, lambda name, index: (code, message), code)
