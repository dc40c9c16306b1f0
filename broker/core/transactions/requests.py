"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn in the forms of their versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ottla.broker.core.coordination.machine import Answer
from ottla.broker.core.effects import Asker
from ottla.broker.core.transactions.adding import add, verify
from ottla.broker.core.transactions.ending import Ended, end
from ottla.broker.core.transactions.machine import Machine
from ottla.broker.core.transactions.transaction import TRANSACTION_V2
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.records import TopicPartition

FENCED_IS_KNOWN_FROM = 2
"""Clients of older versions of these requests know INVALID_PRODUCER_EPOCH only (KIP-588)."""

BATCHED_FROM = 4
"""AddPartitionsToTxn of brokers: several transactions, and checks alone (KIP-890)."""

PEER_WAIT_MS = 100
"""How long a request of a broker waits for what is under way: what the broker asks next waits behind it. As long as
brokers of Kafka try again (``add.partitions.to.txn.retry.backoff.max.ms``)."""

END_V2_FROM = 5

Refused = Mapping[TopicPartition, ErrorCode]
"""Partitions that cannot take part, because they do not exist, say."""

Results = Mapping[TopicPartition, ErrorCode]


class Question(NamedTuple):
    """Do partitions take part in a producer's transaction? With ``adds`` they do from now on, durably."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    adds: bool


def _told(error: ErrorCode, ctx: Asker) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED and ctx.api_version < FENCED_IS_KNOWN_FROM:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def transactions_of(request: AddPartitionsToTxnRequest, ctx: Asker) -> list[AddPartitionsToTxnTransaction]:
    """The transactions of a request of any version, in the form of the newest."""
    if ctx.api_version >= BATCHED_FROM:
        return request.transactions
    return [
        AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
    ]


def partitions_of(transaction: AddPartitionsToTxnTransaction) -> list[TopicPartition]:
    """The partitions that a transaction names, as often as it does."""
    return [TopicPartition(topic.name, index) for topic in transaction.topics for index in topic.partitions]


class _Gathered:
    """The results of the transactions of one request; answered when all are there."""

    def __init__(self, count: int, answer: Answer[AddPartitionsToTxnResponse]) -> None:
        self._rows: dict[int, AddPartitionsToTxnResult] = {}
        self._count = count
        self._answer = answer

    def put(self, place: int, transactional_id: str, rows: list[AddPartitionsToTxnTopicResult]) -> None:
        self._rows[place] = AddPartitionsToTxnResult(transactional_id=transactional_id, topic_results=rows)
        if len(self._rows) == self._count:
            self.finish()

    def finish(self) -> None:
        rows = [self._rows[place] for place in sorted(self._rows)]
        old = rows[0].topic_results if rows else []
        self._answer.give(AddPartitionsToTxnResponse(results_by_transaction=rows, results_by_topic_v3_and_below=old))


def topic_results(results: Iterable[tuple[TopicPartition, ErrorCode]]) -> list[AddPartitionsToTxnTopicResult]:
    """Results by topic, in the order in which topics were named."""
    topics: dict[str, AddPartitionsToTxnTopicResult] = {}
    for tp, error in results:
        row = topics.setdefault(tp.topic, AddPartitionsToTxnTopicResult(name=tp.topic, results_by_partition=[]))
        row.results_by_partition.append(
            AddPartitionsToTxnPartitionResult(partition_index=tp.partition, partition_error_code=error)
        )
    return list(topics.values())


def add_partitions(
    m: Machine, request: AddPartitionsToTxnRequest, ctx: Asker, refused: Refused
) -> AddPartitionsToTxnResponse | None:
    """AddPartitionsToTxn. None if parked."""
    answer: Answer[AddPartitionsToTxnResponse] = Answer(ctx)
    transactions = transactions_of(request, ctx)
    gathered = _Gathered(len(transactions), answer)
    if not transactions:
        gathered.finish()
    for place, transaction in enumerate(transactions):
        put = partial(gathered.put, place, transaction.transactional_id)
        _add_partitions(m, transaction, ctx, refused, put)
    return answer.taken(m)


def _add_partitions(
    m: Machine,
    transaction: AddPartitionsToTxnTransaction,
    ctx: Asker,
    refused: Refused,
    put: Callable[[list[AddPartitionsToTxnTopicResult]], None],
) -> None:
    named = partitions_of(transaction)
    each = dict.fromkeys(named)
    if any(tp in refused for tp in each):
        # All or nothing.
        put(topic_results((tp, refused.get(tp, ErrorCode.OPERATION_NOT_ATTEMPTED)) for tp in each))
        return
    who = transaction.transactional_id, transaction.producer_id, transaction.producer_epoch
    if transaction.verify_only:
        put(topic_results(verify(m, *who, each).items()))
        return
    is_of_broker = ctx.api_version >= BATCHED_FROM
    add(
        m,
        *who,
        each,
        TRANSACTION_V2 if is_of_broker else 0,
        # What is named twice is answered twice here, and only here, as Kafka does.
        lambda error: put(topic_results((tp, _told(error, ctx)) for tp in named)),
        waits_for_all=is_of_broker,
        deadline_ms=m.now_ms + PEER_WAIT_MS if is_of_broker else None,
    )


def add_offsets(
    m: Machine, request: AddOffsetsToTxnRequest, ctx: Asker, offsets_partition: TopicPartition
) -> AddOffsetsToTxnResponse | None:
    """AddOffsetsToTxn: the partition of the group's offsets takes part. None if parked."""
    answer: Answer[AddOffsetsToTxnResponse] = Answer(ctx)
    add(
        m,
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        [offsets_partition],
        0,
        lambda error: answer.give(AddOffsetsToTxnResponse(error_code=_told(error, ctx))),
    )
    return answer.taken(m)


def end_txn(m: Machine, request: EndTxnRequest, ctx: Asker) -> EndTxnResponse | None:
    """EndTxn. None if parked."""
    answer: Answer[EndTxnResponse] = Answer(ctx)

    def then(ended: Ended) -> None:
        answer.give(
            EndTxnResponse(
                error_code=_told(ended.error, ctx),
                producer_id=ended.producer_id,
                producer_epoch=ended.producer_epoch,
            )
        )

    end(
        m,
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        commit=request.committed,
        version=TRANSACTION_V2 if ctx.api_version >= END_V2_FROM else 0,
        then=then,
    )
    return answer.taken(m)


def verify_or_add(m: Machine, question: Question, ctx: Asker) -> Results | None:
    """Produce and TxnOffsetCommit ask this before they append. None if parked."""
    partitions = question.partitions
    who = question.transactional_id, question.producer_id, question.producer_epoch
    if not question.adds:
        return verify(m, *who, partitions)
    answer: Answer[Results] = Answer(ctx)

    def then(error: ErrorCode) -> None:
        answer.give(dict.fromkeys(partitions, error))

    add(m, *who, partitions, TRANSACTION_V2, then, waits_for_all=True)
    return answer.taken(m)
