"""ListPartitionReassignments (key 46): partitions that are led by another node than their home, on their way there.

Where replicas stay where they are while nodes run, none is.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation
from ottla.broker.handlers.services import Cluster, Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.protocol.records import TopicPartition


def handle(
    request: ListPartitionReassignmentsRequest, ctx: RequestContext, services: Services
) -> ListPartitionReassignmentsResponse:
    if services.permits_on_cluster(ctx, AclOperation.DESCRIBE):
        return ListPartitionReassignmentsResponse(error_message=None, topics=_ongoing(request, services))
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    rows = [
        OngoingTopicReassignment(
            name=topic.name,
            partitions=[OngoingPartitionReassignment(partition_index=index) for index in topic.partition_indexes],
        )
        for topic in request.topics or ()
    ]
    return ListPartitionReassignmentsResponse(error_code=denied, error_message=denied.text, topics=rows)


def _ongoing(request: ListPartitionReassignmentsRequest, services: Services) -> list[OngoingTopicReassignment]:
    if services.cluster.placement.call_home is None:
        return []
    topics = services.topics.topics
    wanted: dict[str, Iterable[int]] = {name: range(len(topic.partitions)) for name, topic in topics.items()}
    if request.topics is not None:
        wanted = {topic.name: topic.partition_indexes for topic in request.topics}
    found = []
    for name, indexes in wanted.items():
        tps = [TopicPartition(name, index) for index in indexes]
        rows = [row for tp in tps if services.topics.partition(tp) and (row := _row(tp, services.cluster))]
        if rows:
            found.append(OngoingTopicReassignment(name=name, partitions=rows))
    return found


def _row(tp: TopicPartition, cluster: Cluster) -> OngoingPartitionReassignment | None:
    leader = cluster.leader(tp).node_id
    if not cluster.placement.view.is_away(leader, cluster.home(tp)):
        return None
    (home, *others), _ = cluster.replicas(tp, leader)
    return OngoingPartitionReassignment(
        partition_index=tp.partition,
        replicas=[home, *others],
        adding_replicas=[home],
        removing_replicas=[leader],
    )
