"""AddOffsetsToTxn (key 25): the offsets of a group take part in a transaction. KIP-98."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.protocol.records import TopicPartition


def handle(request: AddOffsetsToTxnRequest, ctx: RequestContext, services: Services) -> AddOffsetsToTxnResponse | None:
    if not services.permits(ctx, AclOperation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not services.permits(ctx, AclOperation.READ, Resource.GROUP, request.group_id):
        return AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    partition = coordinator_partition(request.group_id, services.topics.partition_count(OFFSETS_TOPIC))
    return services.host.enter(
        services.transactions.add_offsets, request, ctx, TopicPartition(OFFSETS_TOPIC, partition)
    )
