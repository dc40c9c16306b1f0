"""Transactions of which a part is at another node: partitions that take part, or the coordinator.

The decision is in the log before a marker is sent, so markers that find no way are written later, by whoever
coordinates then; a partition takes one twice without harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from ottla.broker.cluster.view import NOBODY
from ottla.broker.core.topics.partition import Partition
from ottla.broker.core.topics.producers import Settled, TransactionMarker
from ottla.broker.core.transactions.requests import Question, Results
from ottla.broker.logger import Logger
from ottla.broker.runtime.peers import Kind, Peers
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.groups import coordinator_partition
from ottla.protocol.internal_topics import TRANSACTIONS_TOPIC
from ottla.protocol.message_parts import TopicWithIndexes, TopicWithPartitions
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.protocol.records import TopicPartition


class MarkerAt(NamedTuple):
    """A marker, and the partition that it is for."""

    marker: TransactionMarker
    tp: TopicPartition


class PeerTransactions:
    """See the module.

    Args:
        leader: the node that leads a partition, `NOBODY` without one.
        partition: a partition of the own catalog, None where there is none.
        partition_count: that of a topic of the own catalog, 0 where there is none.
    """

    def __init__(
        self,
        peers: Peers,
        leader: Callable[[TopicPartition], int],
        partition: Callable[[TopicPartition], Partition | None],
        partition_count: Callable[[str], int],
        report: Logger,
    ) -> None:
        self._peers = peers
        self._leader = leader
        self._partition = partition
        self._partition_count = partition_count
        self._report = report

    def verify(self, question: Question, then: Callable[[Results], None]) -> None:
        """Ask the coordinator at another node what `TransactionCoordinator.verify` would say; ``then`` is called once.

        Without an answer it is NETWORK_EXCEPTION, of which Produce and TxnOffsetCommit make what clients retry.
        """
        count = self._partition_count(TRANSACTIONS_TOPIC)
        node_id = NOBODY
        if count:
            shard = coordinator_partition(question.transactional_id, count)
            node_id = self._leader(TopicPartition(TRANSACTIONS_TOPIC, shard))
        if node_id == NOBODY:
            then(dict.fromkeys(question.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            self._peers.ask(node_id, QUESTIONS, question, partial(self._verified, question, then))

    def _verified(self, question: Question, then: Callable[[Results], None], answer: Results | None) -> None:
        results = answer or {}
        codes = {tp: results.get(tp, ErrorCode.NETWORK_EXCEPTION) for tp in question.partitions}
        if ErrorCode.CLUSTER_AUTHORIZATION_FAILED in codes.values():
            self._report.error("Another node does not let this one add partitions to transactions")
            # No client could do anything about it, nor should it be told; Kafka's choice.
            codes = dict.fromkeys(codes, ErrorCode.INVALID_TXN_STATE)
        then(codes)

    def write_marker(self, tp: TopicPartition, marker: TransactionMarker, settled: Settled) -> None:
        """Have the leader of a partition end a transaction in it. Errors as of `Host.write_marker`.

        A partition that this node does not know is taken for gone; one that the leader alone does not know is not.
        """
        here = self._partition(tp)
        node_id = self._leader(tp)
        if here is None:
            settled(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif node_id == NOBODY:
            settled(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            self._peers.ask(node_id, MARKERS, MarkerAt(marker, tp), partial(self._written, here, settled))

    def _written(self, sent_for: Partition, settled: Settled, error: ErrorCode | None) -> None:
        if error is None:
            error = ErrorCode.NETWORK_EXCEPTION
        elif error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            here = self._partition(sent_for.tp)
            if here is not None and here.topic.topic_id == sent_for.topic.topic_id:
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER  # the leader has not heard of the topic yet
        settled(-1, error)


def _error(code: int) -> ErrorCode:
    try:
        return ErrorCode(code)
    except ValueError:  # of a newer node
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _by_topic(partitions: Iterable[TopicPartition]) -> Mapping[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for tp in dict.fromkeys(partitions):
        topics.setdefault(tp.topic, []).append(tp.partition)
    return topics


def _ask_coordinator(questions: Sequence[Question]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(
                transactional_id=question.transactional_id,
                producer_id=question.producer_id,
                producer_epoch=question.producer_epoch,
                verify_only=not question.adds,
                topics=[
                    TopicWithPartitions(name=name, partitions=indexes)
                    for name, indexes in _by_topic(question.partitions).items()
                ],
            )
            for question in questions
        ]
    )


def _results(questions: Sequence[Question], answer: AddPartitionsToTxnResponse) -> Sequence[Results]:
    if answer.error_code:
        return [dict.fromkeys(question.partitions, _error(answer.error_code)) for question in questions]
    rows = answer.results_by_transaction  # in the order of the questions: an id may be there twice
    return [
        {
            TopicPartition(topic.name, row.partition_index): _error(row.partition_error_code)
            for topic in transaction.topic_results
            for row in topic.results_by_partition
        }
        for transaction in rows
    ] + [{}] * (len(questions) - len(rows))


def _order(markers: Sequence[MarkerAt]) -> WriteTxnMarkersRequest:
    places: dict[TransactionMarker, list[TopicPartition]] = {}
    for marker, tp in markers:
        places.setdefault(marker, []).append(tp)
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.commit,
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
                topics=[
                    TopicWithIndexes(name=name, partition_indexes=indexes) for name, indexes in _by_topic(tps).items()
                ],
            )
            for marker, tps in places.items()
        ]
    )


def _outcomes(markers: Sequence[MarkerAt], answer: WriteTxnMarkersResponse) -> list[ErrorCode]:
    asked = dict.fromkeys(marker for marker, _ in markers)  # in the order of the rows
    codes = {
        (marker, TopicPartition(topic.name, row.partition_index)): _error(row.error_code)
        for marker, result in zip(asked, answer.markers, strict=False)
        for topic in result.topics
        for row in topic.partitions
    }
    return [codes.get(one, ErrorCode.NETWORK_EXCEPTION) for one in markers]


QUESTIONS: Kind[Question, Results] = Kind(ApiKey.ADD_PARTITIONS_TO_TXN, 5, _ask_coordinator, _results)
MARKERS: Kind[MarkerAt, ErrorCode] = Kind(ApiKey.WRITE_TXN_MARKERS, 2, _order, _outcomes)
