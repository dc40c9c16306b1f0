"""TxnOffsetCommit (key 28): topics are checked here, the transaction in its coordinator, the group in the other one.

As with Produce, the first commit of a transaction to the partition that keeps the group's offsets waits until the
transaction coordinator has said that it takes part; from version 5 on it is made to (KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from ottla.broker.context import RequestContext
from ottla.broker.core.groups.offsets.commit import NO_PARTITION, Refusals
from ottla.broker.core.groups.offsets.transactional import unavailable
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.core.topics.partition import Standing
from ottla.broker.core.topics.transactions import Verification
from ottla.broker.core.transactions.requests import Question
from ottla.broker.handlers.missing import missing_partitions
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import OFFSETS_TOPIC
from ottla.protocol.message_parts import PartitionOutcome, TopicOutcome
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.protocol.records import TopicPartition

KNOWS_ABORTABLE = 4
"""From this version on a client can be told that aborting the transaction is the way on (KIP-890)."""
ADDS_PARTITION = 5


def names(request: TxnOffsetCommitRequest, ctx: RequestContext) -> Iterator[str]:
    return (topic.name for topic in request.topics)


def handle(request: TxnOffsetCommitRequest, ctx: RequestContext, services: Services) -> TxnOffsetCommitResponse | None:
    if not services.permits(ctx, AclOperation.WRITE, Resource.TRANSACTIONAL_ID, request.transactional_id):
        return failed(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not services.permits(ctx, AclOperation.READ, Resource.GROUP, request.group_id):
        return failed(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    denied = services.denied(ctx, AclOperation.READ, Resource.TOPIC, (topic.name for topic in request.topics))
    named = [(topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions]
    bare = [(topic.name, NO_PARTITION) for topic in request.topics if not topic.partitions]
    refused = missing_partitions(services.topics, named)
    refused |= {place: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for place in bare if place[0] not in services.topics.topics}
    refused |= {place: ErrorCode.TOPIC_AUTHORIZATION_FAILED for place in [*named, *bare] if place[0] in denied}
    index = coordinator_partition(request.group_id, services.topics.partition_count(OFFSETS_TOPIC))
    served = services.topics.topics[OFFSETS_TOPIC].partitions[index]
    producer_id, producer_epoch = request.producer_id, request.producer_epoch
    nothing_left = all(key in refused for key in named)
    is_here = served.standing is Standing.LEADING  # or else the coordinator says what is the matter
    if nothing_left or not request.group_id or not is_here or served.in_transaction(producer_id, producer_epoch):
        return services.host.enter(services.groups.commit_transactional_offsets, request, ctx, refused)
    verification = served.begin_verification(producer_id, producer_epoch)
    adds = ctx.api_version >= ADDS_PARTITION
    services.verify(
        Question(request.transactional_id, producer_id, producer_epoch, [served.tp], adds),
        partial(_verified, request, ctx, services, refused, served.tp, verification),
    )
    return None


def _verified(
    request: TxnOffsetCommitRequest,
    ctx: RequestContext,
    services: Services,
    refused: Refusals,
    tp: TopicPartition,
    verification: Verification,
    errors: Mapping[TopicPartition, ErrorCode],
) -> None:
    """The transaction coordinator has answered: let the group's have the offsets."""
    answer: TxnOffsetCommitResponse | None
    if error := _shown(errors[tp], ctx.api_version):
        answer = unavailable(request, ctx, refused, error)
    else:
        answer = services.host.enter(services.groups.commit_transactional_offsets, request, ctx, refused, verification)
    if answer is not None:
        ctx.reply(answer)


def _shown(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < KNOWS_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.NETWORK_EXCEPTION:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return error


def failed(request: TxnOffsetCommitRequest, code: int) -> TxnOffsetCommitResponse:
    """The answer that refuses every partition: also that when we have a bug."""
    topics = [
        TopicOutcome(
            name=topic.name,
            partitions=[
                PartitionOutcome(partition_index=item.partition_index, error_code=code) for item in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return TxnOffsetCommitResponse(topics=topics)
