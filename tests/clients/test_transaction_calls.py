"""A transactional producer's requests to its coordinators, with a script in their place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.clients.accumulator import Accumulator
from ottla.clients.client import Client
from ottla.clients.consumer import Consumer
from ottla.clients.errors import KafkaConnectionError, KafkaTimeout, ProducerFenced, TransactionFailed
from ottla.clients.options import ProducerOptions
from ottla.clients.sender import Sender
from ottla.clients.structs import BrokerInfo, ConsumerGroupMetadata, OffsetAndMetadata
from ottla.clients.transaction_calls import TransactionCalls
from ottla.clients.transactions import Transaction, TransactionState
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.protocol.records import TopicPartition
from tests.clients.fake_client import FakeClient, turn
from tests.support.requests import response

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OFFSETS = {T0: OffsetAndMetadata(5)}
MEMBER = ConsumerGroupMetadata("g", 3, "m", "i")
V2_VERSIONS = {ApiKey.PRODUCE: (0, 12), ApiKey.TXN_OFFSET_COMMIT: (0, 5), ApiKey.END_TXN: (0, 5)}


class Coordinators(FakeClient):
    """Answers by itself: well, unless ``errors`` has a code, or an exception, for the next request of a kind."""

    def __init__(self, options: ProducerOptions, *, v2: bool) -> None:
        super().__init__(options)
        self.on_metadata: list[Callable[[], None]] = []
        self.asked: list[Any] = []
        self.errors: dict[type, list[ErrorCode | Exception]] = {}
        self.epoch = 0
        self.conversation = SimpleNamespace(features={"transaction.version": 2} if v2 else {}, served=V2_VERSIONS)

    async def connection(self, node_id: int, role: str) -> Any:
        return self

    def some_nodes(self) -> list[int]:
        return [1, 2]

    find_coordinator = Client.find_coordinator

    def _learn_broker(self, broker: BrokerInfo) -> None:
        self.cluster.brokers[broker.node_id] = broker

    async def send(self, node_id: int, request: Any, answer: Any, **options: Any) -> Any:
        self.asked.append(request)
        planned = self.errors.get(type(request), [])
        outcome = planned.pop(0) if planned else ErrorCode.NONE
        if isinstance(outcome, Exception):
            raise outcome
        code = int(outcome)
        match request:
            case FindCoordinatorRequest():
                found = {"key": request.key, "node_id": request.key_type + 1, "host": "h", "port": 1}
                return response(ApiKey.FIND_COORDINATOR, {"coordinators": [found | {"error_code": code}]})
            case InitProducerIdRequest():
                self.epoch += 0 if code or request.producer_id < 0 else 1
                fields = {"error_code": code, "producer_id": 7, "producer_epoch": self.epoch}
                return response(ApiKey.INIT_PRODUCER_ID, fields)
            case AddPartitionsToTxnRequest():
                results = []
                for topic in request.v3_and_below_topics:
                    places = [{"partition_index": p, "partition_error_code": code} for p in topic.partitions]
                    results.append({"name": topic.name, "results_by_partition": places})
                return response(ApiKey.ADD_PARTITIONS_TO_TXN, {"results_by_topic_v3_and_below": results})
            case AddOffsetsToTxnRequest():
                return response(ApiKey.ADD_OFFSETS_TO_TXN, {"error_code": code})
            case TxnOffsetCommitRequest():
                rows = [{"name": "t", "partitions": [{"partition_index": 0, "error_code": code}]}]
                return response(ApiKey.TXN_OFFSET_COMMIT, {"topics": rows})
            case EndTxnRequest():
                if options["low"] >= 5 and not code:
                    self.epoch += 1
                    return response(ApiKey.END_TXN, {"producer_id": 7, "producer_epoch": self.epoch})
                return response(ApiKey.END_TXN, {"error_code": code})
        raise AssertionError(request)


class World:
    def __init__(self, *, v2: bool = False, **options: Any) -> None:
        given = {"transactional_id": "id", "retry_backoff_ms": 0, "retry_backoff_max_ms": 0, **options}
        self.options = ProducerOptions(**given)
        self.client: Any = Coordinators(self.options, v2=v2)
        self.accumulator = Accumulator(self.options)
        self.state = Transaction("id")
        self.sender = Sender(self.client, self.accumulator, self.state)
        self.calls = TransactionCalls(self.client, self.accumulator, self.sender, self.state)

    async def begun(self, *, partition: TopicPartition | None = None) -> World:
        await self.calls.init()
        self.calls.transaction.begin()
        if partition is not None:
            self.calls.record(partition)
            await turn()
        self.take()
        return self

    def fail(self, request: type, *outcomes: ErrorCode | Exception) -> None:
        self.client.errors[request] = list(outcomes)

    def take(self) -> list[Any]:
        asked, self.client.asked = self.client.asked, []
        return asked

    def kinds(self) -> list[str]:
        return [type(request).__name__.removesuffix("Request") for request in self.take()]

    def identity(self) -> tuple[int, int]:
        return self.accumulator.producer_id, self.accumulator.producer_epoch


async def test_the_producers_id() -> None:
    world = World(transaction_timeout_ms=5_000)
    await world.calls.init()
    find, init = world.take()
    assert (find.key, find.key_type, find.coordinator_keys) == ("id", 1, ["id"])
    assert (init.transactional_id, init.transaction_timeout_ms, init.producer_id) == ("id", 5_000, -1)
    assert (world.identity(), world.state.state, world.state.v2) == ((7, 0), TransactionState.READY, False)


@pytest.mark.parametrize(("auto_commit", "warnings"), [(True, 1), (False, 0)])
async def test_a_consumer_that_commits_by_itself_is_warned_of_once(
    caplog: pytest.LogCaptureFixture, auto_commit: bool, warnings: int
) -> None:
    member = Consumer(group_id="g", enable_auto_commit=auto_commit).group_metadata()
    world = await World().begun()
    for _ in range(2):
        await world.calls.send_offsets(OFFSETS, member)
    said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == warnings
    assert all("group 'g'" in text and "enable_auto_commit=False" in text for text in said)


@pytest.mark.parametrize(
    ("v2", "served"), [(True, V2_VERSIONS), (False, V2_VERSIONS | {ApiKey.END_TXN: (0, 4)}), (False, {})]
)
async def test_the_second_protocol_needs_all_that_belongs_to_it(v2: bool, served: dict[int, tuple[int, int]]) -> None:
    world = World(v2=True)
    world.client.conversation.served = served
    await world.calls.init()
    assert world.state.v2 is v2


async def test_what_passes_is_asked_again() -> None:
    world = World()
    world.fail(FindCoordinatorRequest, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    world.fail(
        InitProducerIdRequest,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_COORDINATOR,
        KafkaConnectionError("gone"),
    )
    await world.calls.init()
    again = ["InitProducerId"]
    found = ["FindCoordinator", "InitProducerId"]
    assert world.kinds() == ["FindCoordinator", *found, *again, *again, *found, *found]
    assert world.client.refreshes == 1, "a broker that is gone may have moved"


async def test_an_answer_that_does_not_come_in_time() -> None:
    world = World(max_block_ms=0)
    world.fail(InitProducerIdRequest, ErrorCode.CONCURRENT_TRANSACTIONS)
    with pytest.raises(KafkaTimeout, match=r"get the producer's id: not within max_block_ms=0.*concurrent"):
        await world.calls.init()


async def test_the_first_protocol_tells_of_everything_first() -> None:
    world = await World().begun()
    world.calls.record(T0)
    world.calls.record(T1)
    await turn()
    assert world.state.may_send(T0)
    assert world.state.may_send(T1)
    world.calls.record(T0)
    await world.calls.send_offsets(OFFSETS, MEMBER)
    await world.calls.send_offsets(OFFSETS, MEMBER)
    await world.calls.end(True)
    [add, offsets, find, first, second, end] = world.take()
    assert [(t.name, t.partitions) for t in add.v3_and_below_topics] == [("t", [0, 1])]
    assert (offsets.group_id, find.key, find.key_type) == ("g", "g", 0)
    assert (first.generation_id, first.member_id, first.group_instance_id) == (3, "m", "i")
    assert first.topics[0].partitions[0].committed_offset == 5
    assert second == first
    assert (end.producer_id, end.producer_epoch, end.committed) == (7, 0, True)
    assert world.identity() == (7, 0), "the epoch stays"
    assert world.state.state is TransactionState.READY


async def test_the_second_protocol_tells_of_nothing_and_moves_the_epoch() -> None:
    world = await World(v2=True).begun()
    world.calls.record(T0)
    assert world.state.may_send(T0)
    await world.calls.send_offsets(OFFSETS, MEMBER)
    await world.calls.end(True)
    assert world.kinds() == ["FindCoordinator", "TxnOffsetCommit", "EndTxn"]
    assert world.identity() == (7, 1)


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("commit", [False, True])
async def test_a_transaction_without_work_asks_nothing(v2: bool, commit: bool) -> None:
    world = await World(v2=v2).begun()
    await world.calls.send_offsets({}, MEMBER)
    await world.calls.end(commit)
    assert (world.take(), world.identity()) == ([], (7, 0))


async def test_an_abort_drops_what_waits() -> None:
    world = await World(v2=True).begun(partition=T0)
    world.accumulator.append(T0, None, b"x", 0, (), (future := asyncio.get_running_loop().create_future()), 0)
    await world.calls.end(False)
    assert isinstance(future.exception(), TransactionFailed)
    [end] = world.take()
    assert (end.committed, world.state.state) == (False, TransactionState.READY)


async def test_after_an_error_the_first_protocol_moves_the_epoch() -> None:
    world = await World().begun(partition=T0)
    world.fail(TxnOffsetCommitRequest, ErrorCode.ILLEGAL_GENERATION)
    with pytest.raises(TransactionFailed, match="illegal generation"):
        await world.calls.send_offsets(OFFSETS, MEMBER)
    with pytest.raises(TransactionFailed):
        await world.calls.end(True)
    world.take()
    await world.calls.end(False)
    end, init = world.take()
    assert (end.committed, init.producer_id, init.producer_epoch) == (False, 7, 0)
    assert world.identity() == (7, 1)
    world.calls.transaction.begin()


async def test_a_transaction_that_was_refused_is_not_ended() -> None:
    """The coordinator has none to end; what it may have begun nevertheless, the next epoch ends."""
    world = await World().begun()
    world.fail(AddPartitionsToTxnRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    world.calls.record(T0)
    world.accumulator.append(T0, None, b"x", 0, (), (future := asyncio.get_running_loop().create_future()), 0)
    await turn()
    assert isinstance(future.exception(), TransactionFailed)
    await world.calls.end(False)
    assert world.kinds() == ["AddPartitionsToTxn", "InitProducerId"]


async def test_a_fenced_producer() -> None:
    world = await World(v2=True).begun(partition=T0)
    world.fail(EndTxnRequest, ErrorCode.PRODUCER_FENCED)
    with pytest.raises(ProducerFenced):
        await world.calls.end(True)
    world.take()
    with pytest.raises(ProducerFenced):
        world.calls.transaction.begin()
    assert world.take() == []


async def test_an_end_may_be_asked_for_again() -> None:
    world = await World(v2=True, max_block_ms=0).begun(partition=T0)
    world.fail(EndTxnRequest, KafkaTimeout("no answer"))
    with pytest.raises(KafkaTimeout):
        await world.calls.end(True)
    await world.calls.end(True)
    assert (world.kinds(), world.state.state) == (["EndTxn", "EndTxn"], TransactionState.READY)


async def test_offsets_that_may_be_in_or_not_end_the_transaction() -> None:
    world = await World(v2=True, max_block_ms=0).begun()
    world.fail(TxnOffsetCommitRequest, ErrorCode.NOT_COORDINATOR)
    with pytest.raises(TransactionFailed, match="not within max_block_ms"):
        await world.calls.send_offsets(OFFSETS, MEMBER)
    with pytest.raises(TransactionFailed):
        await world.calls.end(True)
