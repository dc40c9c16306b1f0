"""AddPartitionsToTxn (key 24): partitions take part in a transaction, or are checked to. KIP-98, KIP-890."""

from __future__ import annotations

from ottla.broker.context import RequestContext
from ottla.broker.core.transactions.requests import partitions_of, topic_results, transactions_of
from ottla.broker.handlers.services import Services
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from ottla.protocol.records import TopicPartition

VERSIONS = range(6)


def handle(
    request: AddPartitionsToTxnRequest, ctx: RequestContext, services: Services
) -> AddPartitionsToTxnResponse | None:
    named = {tp for transaction in transactions_of(request, ctx) for tp in partitions_of(transaction)}
    refused = {tp: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for tp in named if not _exists(tp, services)}
    return services.transactions.add_partitions(request, ctx, refused)


def _exists(tp: TopicPartition, services: Services) -> bool:
    return 0 <= tp.partition < services.topics.partition_count(tp.topic)


def failed(request: AddPartitionsToTxnRequest, code: int) -> AddPartitionsToTxnResponse:
    topics = (
        TopicPartition(topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions
    )
    results = topic_results(dict.fromkeys(topics, ErrorCode(code)))
    return AddPartitionsToTxnResponse(error_code=code, results_by_topic_v3_and_below=results)
