"""AddPartitionsToTxn (key 24): partitions take part in a transaction, or are checked to. KIP-98, KIP-890."""

from __future__ import annotations

from collections.abc import Container

from ottla.broker.context import RequestContext
from ottla.broker.core.security.acls import AclOperation, Resource
from ottla.broker.core.transactions.requests import BATCHED_FROM, partitions_of, topic_results, transactions_of
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.internal_topics import INTERNAL_TOPICS
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from ottla.protocol.records import TopicPartition


def handle(
    request: AddPartitionsToTxnRequest, ctx: RequestContext, services: Services
) -> AddPartitionsToTxnResponse | None:
    if ctx.api_version >= BATCHED_FROM:  # from a broker
        if not services.permits_on_cluster(ctx, AclOperation.CLUSTER_ACTION):
            return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    elif not services.permits(
        ctx, AclOperation.WRITE, Resource.TRANSACTIONAL_ID, request.v3_and_below_transactional_id
    ):
        return failed(request, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    topics = (topic.name for topic in request.v3_and_below_topics if topic.name not in INTERNAL_TOPICS)
    denied = services.denied(ctx, AclOperation.WRITE, Resource.TOPIC, topics)
    named = {tp for transaction in transactions_of(request, ctx) for tp in partitions_of(transaction)}
    codes = {tp: _refusal(tp, ctx, services, denied) for tp in named}
    refused = {tp: code for tp, code in codes.items() if code}
    return services.host.enter(services.transactions.add_partitions, request, ctx, refused)


def _refusal(tp: TopicPartition, ctx: RequestContext, services: Services, denied: Container[str]) -> ErrorCode:
    if tp.topic in denied or (tp.topic in INTERNAL_TOPICS and ctx.api_version < BATCHED_FROM):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED  # a client, not a broker
    if not 0 <= tp.partition < services.topics.partition_count(tp.topic):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def failed(request: AddPartitionsToTxnRequest, code: int) -> AddPartitionsToTxnResponse:
    results = topic_results(
        (TopicPartition(topic.name, index), ErrorCode(code))
        for topic in request.v3_and_below_topics
        for index in topic.partitions
    )
    return AddPartitionsToTxnResponse(error_code=code, results_by_topic_v3_and_below=results)
