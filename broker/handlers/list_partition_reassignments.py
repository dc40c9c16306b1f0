"""ListPartitionReassignments (key 46): replicas stay where they are while nodes run, so none is on its way."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(
    request: ListPartitionReassignmentsRequest, ctx: RequestContext, services: Services
) -> ListPartitionReassignmentsResponse:
    if services.permits_on_cluster(ctx, AclOperation.DESCRIBE):
        return ListPartitionReassignmentsResponse(error_message=None)
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    rows = [
        OngoingTopicReassignment(
            name=topic.name,
            partitions=[OngoingPartitionReassignment(partition_index=index) for index in topic.partition_indexes],
        )
        for topic in request.topics or ()
    ]
    return ListPartitionReassignmentsResponse(error_code=denied, error_message=denied.text, topics=rows)
