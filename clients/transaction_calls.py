"""The asyncio shell of a `Transaction`: a transactional producer's requests to its coordinators."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ottla.clients.accumulator import CONCURRENT_PAUSE_MS, Accumulator
from ottla.clients.client import GROUP, TRANSACTION, Client
from ottla.clients.errors import KafkaError, KafkaTimeout, TransactionFailed, error_code, error_of
from ottla.clients.logs import log
from ottla.clients.options import ProducerOptions
from ottla.clients.partitions import committable, numbers_by_topic
from ottla.clients.sender import TRANSACTIONS_V2_SINCE, Sender
from ottla.clients.structs import AutoCommitting, ConsumerGroupMetadata, OffsetAndMetadata
from ottla.clients.transactions import Step, Transaction, TransactionState, Verdict, verdict
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import TopicWithPartitions
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ottla.protocol.records import TopicPartition
from ottla.protocol.schema import Message

R = TypeVar("R", bound=Message)

FEATURE = "transaction.version"
V2_LEVEL = 2
END_V2, OFFSETS_V2, BUMP_SINCE, ADD_MAX, NEWEST = 5, 5, 3, 3, 1 << 15
"""Versions: of EndTxn and TxnOffsetCommit for the second protocol, of InitProducerId that can move the epoch, and of
AddPartitionsToTxn for clients; and above all of them."""


class TransactionCalls:
    """The calls of one transactional producer.

    Args:
        transaction: the state that they move.
        sender: delivers the records.
    """

    def __init__(
        self, client: Client[ProducerOptions], accumulator: Accumulator, sender: Sender, transaction: Transaction
    ) -> None:
        self._client = client
        self._accumulator = accumulator
        self._sender = sender
        self._options = client.options
        self.transaction = transaction
        self._nodes: dict[str | None, int] = {}
        """The coordinators' brokers by group id; the transaction's own under None."""
        self._adding: asyncio.Task[None] | None = None
        self._warned = False
        accumulator.may_send = transaction.may_send

    # what the producer calls

    async def init(self) -> None:
        """Get the producer's id; ends whatever an earlier producer with this transactional id left open.

        Raises:
            KafkaTimeout: not within max_block_ms.
            KafkaError: the broker refuses.
        """
        await self._init(-1, -1)
        self.transaction.ready()

    def record(self, tp: TopicPartition) -> None:
        """Make sure that the coordinator knows of a partition before a record goes there. Does not wait."""
        if self.transaction.want(tp) and self._adding is None:
            self._adding = self._client.tasks.spawn(self._add_partitions(), "add partitions to the transaction")

    async def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> None:
        """Have offsets committed if the transaction is."""
        state = self.transaction
        state.check_open("send_offsets_to_transaction()")
        if isinstance(group, AutoCommitting) and not self._warned:
            self._warned = True
            log.warning(
                "%s: the consumer of group %r also commits by itself: what it has read is not read again if the "
                "transaction is aborted; give it enable_auto_commit=False",
                self._client.client_id, group.group_id,
            )  # fmt: skip
        if not offsets:
            return
        if state.v2:
            state.groups.add(group.group_id)
        elif group.group_id not in state.groups:
            state.asked = True
            request = AddOffsetsToTxnRequest(
                transactional_id=state.transactional_id,
                producer_id=self._accumulator.producer_id,
                producer_epoch=self._accumulator.producer_epoch,
                group_id=group.group_id,
            )
            await self._ask(Step.ADD_OFFSETS, request, AddOffsetsToTxnResponse, _own_code)
            state.groups.add(group.group_id)
        await self._ask(
            Step.COMMIT_OFFSETS,
            self._offsets_request(offsets, group),
            TxnOffsetCommitResponse,
            _offsets_outcome,
            group_id=group.group_id,
            versions=self._versions(OFFSETS_V2),
        )

    async def end(self, commit: bool) -> None:
        """Commit or abort.

        Raises:
            TransactionFailed: it cannot be committed; abort it.
            ProducerFenced: this producer is of no use any more.
            KafkaTimeout: not within max_block_ms; the same call may be made again.
        """
        state = self.transaction
        state.begin_end(commit)
        if commit:
            await self._sender.flush()
            if state.state is not TransactionState.ENDING:  # records failed meanwhile
                state.begin_end(True)
        else:
            await self._sender.drain(TransactionFailed("the transaction was aborted before the record was delivered"))
            if self._adding is not None:
                await asyncio.wait([self._adding])
        bump = self._accumulator.lost_numbers or state.error is not None or (state.asked and not state.known)
        if state.known:
            await self._end(commit)
        if bump and not state.v2:
            await self._init(self._accumulator.producer_id, self._accumulator.producer_epoch)
        state.ready()

    # what they ask

    async def _init(self, producer_id: int, producer_epoch: int) -> None:
        request = InitProducerIdRequest(
            transactional_id=self.transaction.transactional_id,
            transaction_timeout_ms=self._options.transaction_timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        versions = (BUMP_SINCE if producer_id >= 0 else 0, NEWEST)
        answer = await self._ask(Step.INIT, request, InitProducerIdResponse, _own_code, versions=versions)
        self.transaction.v2 = await self._speaks_v2()
        self._accumulator.set_producer_id(answer.producer_id, answer.producer_epoch)
        self._sender.wake()

    async def _speaks_v2(self) -> bool:
        """Tell whether the cluster has the second protocol of KIP-890, and its brokers the versions for it."""
        node_id = self._nodes.get(None)
        if node_id is None:
            return self.transaction.v2
        conversation = (await self._client.connection(node_id, TRANSACTION)).conversation
        needed = {
            ApiKey.PRODUCE: TRANSACTIONS_V2_SINCE,
            ApiKey.TXN_OFFSET_COMMIT: OFFSETS_V2,
            ApiKey.END_TXN: END_V2,
        }
        return conversation.features.get(FEATURE, 0) >= V2_LEVEL and all(
            conversation.served.get(key, (0, -1))[1] >= version for key, version in needed.items()
        )

    async def _add_partitions(self) -> None:
        """Tell the coordinator of partitions until it knows all of them."""
        state = self.transaction
        try:
            while tps := state.to_add():
                state.asked = True
                request = AddPartitionsToTxnRequest(
                    v3_and_below_transactional_id=state.transactional_id,
                    v3_and_below_producer_id=self._accumulator.producer_id,
                    v3_and_below_producer_epoch=self._accumulator.producer_epoch,
                    v3_and_below_topics=[
                        TopicWithPartitions(name=topic, partitions=numbers)
                        for topic, numbers in numbers_by_topic(tps).items()
                    ],
                )
                await self._ask(
                    Step.ADD_PARTITIONS, request, AddPartitionsToTxnResponse, _partitions_outcome, versions=(0, ADD_MAX)
                )
                state.partitions_added(tps)
                self._sender.wake()
        except KafkaError as error:
            log.info("%s: %s", self._client.client_id, error)
            self._sender.drop(error)
        finally:
            self._adding = None

    def _offsets_request(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> TxnOffsetCommitRequest:
        return TxnOffsetCommitRequest(
            transactional_id=self.transaction.transactional_id,
            group_id=group.group_id,
            producer_id=self._accumulator.producer_id,
            producer_epoch=self._accumulator.producer_epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=committable(offsets, TxnOffsetCommitRequestTopic, TxnOffsetCommitRequestPartition),
        )

    async def _end(self, commit: bool) -> None:
        state = self.transaction
        request = EndTxnRequest(
            transactional_id=state.transactional_id,
            producer_id=self._accumulator.producer_id,
            producer_epoch=self._accumulator.producer_epoch,
            committed=commit,
        )
        answer = await self._ask(Step.END, request, EndTxnResponse, _own_code, versions=self._versions(END_V2))
        if state.v2 and answer.producer_id >= 0:
            self._accumulator.set_producer_id(answer.producer_id, answer.producer_epoch)

    # how they ask

    def _versions(self, v2_since: int) -> tuple[int, int]:
        """The versions of a request that belong to the protocol in use."""
        return (v2_since, NEWEST) if self.transaction.v2 else (0, v2_since - 1)

    async def _ask(
        self,
        step: Step,
        request: Message,
        answer_type: type[R],
        outcome: Callable[[R], int],
        *,
        group_id: str | None = None,
        versions: tuple[int, int] = (0, NEWEST),
    ) -> R:
        """Ask a coordinator until it has done it, refuses, or max_block_ms are over. Errors are noted in the state."""
        tries = self._client.tries(self._options.max_block_ms)
        while True:
            self.transaction.check_usable()
            answer: R | None = None
            try:
                node_id = await self._coordinator(group_id)
                role = TRANSACTION if group_id is None else GROUP
                answer = await self._client.send(
                    node_id, request, answer_type, role=role, low=versions[0], high=versions[1]
                )
                code = error_code(outcome(answer))
                error = error_of(code, step.value)
            except KafkaError as failure:
                code, error = failure.code, failure
            found = verdict(step, code)
            if found is Verdict.DONE and answer is not None:
                return answer
            if found in (Verdict.ABORT, Verdict.FATAL):
                raise self.transaction.failed(error, found)
            if found is Verdict.FIND:
                self._forget(group_id, error)
            most_ms = CONCURRENT_PAUSE_MS if code is ErrorCode.CONCURRENT_TRANSACTIONS else math.inf
            if not await tries.again(most_ms):
                late = KafkaTimeout(f"{step.value}: not within max_block_ms={self._options.max_block_ms}: {error}")
                # What belongs into the transaction may be in it or not; whether it is ended may be asked again.
                raise late if step in (Step.INIT, Step.END) else self.transaction.failed(late, Verdict.ABORT)

    async def _coordinator(self, group_id: str | None) -> int:
        """The broker of the transaction's coordinator, or of a group's."""
        if group_id not in self._nodes:
            key, role = (self.transaction.transactional_id, TRANSACTION) if group_id is None else (group_id, GROUP)
            self._nodes[group_id] = (await self._client.find_coordinator(key, role)).node_id
        return self._nodes[group_id]

    def _forget(self, group_id: str | None, error: KafkaError) -> None:
        log.info("%s: looking for the coordinator again: %s", self._client.client_id, error)
        self._nodes.pop(group_id, None)
        if error.code is ErrorCode.NETWORK_EXCEPTION:
            self._client.request_refresh()


def _own_code(answer: AddOffsetsToTxnResponse | InitProducerIdResponse | EndTxnResponse) -> int:
    return answer.error_code


def _partitions_outcome(answer: AddPartitionsToTxnResponse) -> int:
    topics = answer.results_by_topic_v3_and_below
    return _most_telling(one.partition_error_code for topic in topics for one in topic.results_by_partition)


def _offsets_outcome(answer: TxnOffsetCommitResponse) -> int:
    return _most_telling(one.error_code for topic in answer.topics for one in topic.partitions)


def _most_telling(codes: Iterable[int]) -> int:
    """Not the code of partitions that were only not attempted because of another's error."""
    errors = [code for code in codes if code]
    telling = [code for code in errors if code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    final = [code for code in telling if not error_code(code).retriable]
    return next(iter(final or telling or errors), 0)
