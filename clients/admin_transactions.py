"""The part of the admin client that is about transactions: who has one open, where, and ending one that hangs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from ottla.clients import given
from ottla.clients.admin_calls import TRANSACTION_KEY, AdminCalls, Outcomes
from ottla.clients.admin_structs import ProducerDescription, TransactionDescription, TransactionListing
from ottla.clients.errors import KafkaError, error_of
from ottla.clients.structs import BrokerInfo
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from ottla.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.protocol.records import TopicPartition

T = TypeVar("T")

DURATION_SINCE, PATTERN_SINCE = 1, 2


class AdminTransactions(AdminCalls):
    """See `ottla.clients.admin.Admin`, which is what to use."""

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """All transactional ids of all coordinators, in order.

        Args:
            states: only ids in one of these states, such as ``Ongoing``.
            producer_ids: only ids of these producers.
            longer_than_ms: only ids whose transaction has been open for longer than this (KIP-994).
            pattern: only ids that this regular expression (RE2) matches (KIP-1152).

        Raises:
            KafkaError: INVALID_REGULAR_EXPRESSION, if the pattern is none.
            UnsupportedByBroker: the broker is too old for longer_than_ms or pattern.
        """
        request = ListTransactionsRequest(
            state_filters=given.several("states", states, str),
            producer_id_filters=given.several("producer_ids", producer_ids, int, "ids"),
            duration_filter=-1 if longer_than_ms is None else longer_than_ms,
            transactional_id_pattern=pattern,
        )
        low = PATTERN_SINCE if pattern is not None else DURATION_SINCE if longer_than_ms is not None else 0

        async def attempt() -> list[TransactionListing]:
            client = self._running()
            found: dict[str, TransactionListing] = {}
            for node_id in sorted(client.cluster.brokers):
                answer = await client.send(node_id, request, ListTransactionsResponse, low=low)
                if answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION:
                    raise error_of(answer.error_code, f"list the transactions whose ids match {pattern!r}")
                if answer.error_code:
                    raise error_of(answer.error_code, f"list the transactions of broker {node_id}")
                for one in answer.transaction_states:
                    found[one.transactional_id] = TransactionListing(
                        one.transactional_id, one.producer_id, one.transaction_state, node_id
                    )
            return [found[key] for key in sorted(found)]

        return await self._again(attempt)

    async def describe_transactions(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Transactional ids with the state of their transactions and the partitions in them.

        Raises:
            KafkaError: TRANSACTIONAL_ID_NOT_FOUND, if there is no such id.
        """

        async def attempt(pending: list[str]) -> Outcomes[str, TransactionDescription]:
            client = self._running()
            by_node, brokers, errors = await self._by_coordinator(pending, TRANSACTION_KEY)
            outcomes: dict[str, TransactionDescription | KafkaError] = dict(errors)
            for node_id, keys in by_node.items():
                request = DescribeTransactionsRequest(transactional_ids=keys)
                answer = await client.send(node_id, request, DescribeTransactionsResponse)
                for one in answer.transaction_states:
                    outcomes[one.transactional_id] = _described(one, brokers[node_id])
            return outcomes

        return await self._for_each(given.several("transactional_ids", transactional_ids, str), attempt)

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        """The producers that partitions know, with the transactions that are open there."""

        async def ask(node_id: int, tps: list[TopicPartition]) -> Outcomes[TopicPartition, list[ProducerDescription]]:
            by_topic: dict[str, list[int]] = {}
            for tp in tps:
                by_topic.setdefault(tp.topic, []).append(tp.partition)
            request = DescribeProducersRequest(
                topics=[TopicRequest(name=topic, partition_indexes=numbers) for topic, numbers in by_topic.items()]
            )
            answer = await self._running().send(node_id, request, DescribeProducersResponse)
            return {
                TopicPartition(topic.name, one.partition_index): error_of(
                    one.error_code, f"describe the producers of {topic.name}-{one.partition_index}", one.error_message
                )
                if one.error_code
                else [_producer(state) for state in one.active_producers]
                for topic in answer.topics
                for one in topic.partitions
            }

        return await self._at_leaders(given.partitions("partitions", partitions), ask)

    async def abort_transaction(
        self, partition: TopicPartition, *, producer_id: int, producer_epoch: int, coordinator_epoch: int = 0
    ) -> None:
        """Write an abort marker for a transaction that hangs in a partition, as `describe_producers` shows it.

        Use it for a transaction that its coordinator no longer knows. To end one that it knows, start a producer with
        its transactional_id.
        """

        async def ask(node_id: int, tps: list[TopicPartition]) -> Outcomes[TopicPartition, None]:
            marker = WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transaction_result=False,
                topics=[WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition]) for tp in tps],
                coordinator_epoch=coordinator_epoch,
            )
            answer = await self._running().send(
                node_id, WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse
            )
            return {
                TopicPartition(topic.name, one.partition_index): error_of(
                    one.error_code, f"abort the transaction of producer {producer_id}"
                )
                if one.error_code
                else None
                for result in answer.markers
                for topic in result.topics
                for one in topic.partitions
            }

        await self._at_leaders([given.partition(partition)], ask)

    async def _at_leaders(
        self,
        partitions: list[TopicPartition],
        ask: Callable[[int, list[TopicPartition]], Awaitable[Outcomes[TopicPartition, T]]],
    ) -> dict[TopicPartition, T]:
        """Ask each partition's leader."""

        async def attempt(pending: list[TopicPartition]) -> Outcomes[TopicPartition, T]:
            client = self._running()
            await client.ask(frozenset(tp.topic for tp in pending))
            outcomes: dict[TopicPartition, T | KafkaError] = {}
            by_node: dict[int, list[TopicPartition]] = {}
            for tp in pending:
                leader = client.cluster.leader(tp)
                if leader is None:
                    code = client.cluster.errors.get(tp.topic, ErrorCode.LEADER_NOT_AVAILABLE)
                    outcomes[tp] = error_of(code, f"find the leader of {tp.topic}-{tp.partition}")
                else:
                    by_node.setdefault(leader, []).append(tp)
            for node_id, tps in by_node.items():
                outcomes |= await ask(node_id, tps)
            return outcomes

        return await self._for_each(partitions, attempt)


def _described(one: TransactionState, coordinator: BrokerInfo) -> TransactionDescription | KafkaError:
    if one.error_code:
        return error_of(one.error_code, f"describe transaction {one.transactional_id!r}")
    return TransactionDescription(
        one.transactional_id,
        one.transaction_state,
        one.producer_id,
        one.producer_epoch,
        one.transaction_timeout_ms,
        _known(one.transaction_start_time_ms),
        [TopicPartition(topic.topic, number) for topic in one.topics for number in topic.partitions],
        coordinator,
    )


def _producer(state: ProducerState) -> ProducerDescription:
    return ProducerDescription(
        state.producer_id,
        state.producer_epoch,
        _known(state.last_sequence),
        _known(state.last_timestamp),
        _known(state.coordinator_epoch),
        _known(state.current_txn_start_offset),
    )


def _known(number: int) -> int | None:
    return None if number < 0 else number
