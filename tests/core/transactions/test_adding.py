"""AddPartitionsToTxn, AddOffsetsToTxn, and what Produce and TxnOffsetCommit ask."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_parts import TopicWithPartitions
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from tests.core.transactions.txn_world import NONE, OFFSETS, T0, T1, T2, Asked, World

E = ErrorCode


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("version", range(6))
def test_partitions_take_part(world: World, version: int) -> None:
    who = world.producer()
    assert world.add(who, T0, T2, version=version).codes == [NONE, NONE]
    row = world.describe()
    assert (row.transaction_state, row.transaction_start_time_ms) == ("Ongoing", world.wall_ms)
    assert [(topic.topic, topic.partitions) for topic in row.topics] == [("t", [0, 2])]
    assert world.snapshot().client_version == (2 if version >= 4 else 0)


def test_it_is_answered_when_it_is_durable(world: World) -> None:
    who = world.producer()
    world.prompt = False
    asked = world.add(who)
    assert asked.answer is None
    assert world.state() == "Empty"
    world.append()
    assert asked.codes == [NONE]


def test_more_partitions_keep_the_start(world: World) -> None:
    who = world.open(T0)
    start = world.wall_ms
    world.advance(500)
    world.add(who, T1)
    assert world.describe().transaction_start_time_ms == start
    assert world.snapshot().update_ms == start + 500


def test_what_is_there_is_not_logged_again(world: World) -> None:
    who = world.open(T0, T1)
    world.prompt = False
    assert world.add(who, T1).codes == [NONE]
    assert not world.appends


def test_what_is_named_twice_is_answered_twice(world: World) -> None:
    who = world.producer()
    assert world.add(who, T0, T0, T1).codes == [NONE] * 3
    assert world.add((7, 7), T0, T0).codes == [E.INVALID_PRODUCER_ID_MAPPING] * 2
    assert world.add(who, T0, T0, version=4, verify=True).codes == [NONE]
    assert len(world.add(who, T0, T0, T1, refused=[T1]).codes) == 2


def test_no_partitions_at_all(world: World) -> None:
    who = world.producer()
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x", v3_and_below_producer_id=who[0], v3_and_below_producer_epoch=who[1]
    )
    assert world.add_request(request, 3).codes == []
    assert world.state() == "Ongoing"


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(
    ("name", "who", "error"),
    [
        ("", (101, 0), E.INVALID_REQUEST),
        ("y", (101, 0), E.INVALID_PRODUCER_ID_MAPPING),
        ("x", (102, 0), E.INVALID_PRODUCER_ID_MAPPING),
        ("x", (101, 0), E.PRODUCER_FENCED),
        ("x", (101, 2), E.PRODUCER_FENCED),
    ],
)
def test_who_may_not(world: World, name: str, who: tuple[int, int], error: ErrorCode, version: int) -> None:
    world.producer()
    world.producer()
    if error is E.PRODUCER_FENCED and version < 2:
        error = E.INVALID_PRODUCER_EPOCH
    assert world.add(who, T0, T1, name=name, version=version).codes == [error, error]
    if version < 4:
        assert world.add_offsets(who, name, version).error is error
    assert world.state() == "Empty"


def test_while_something_is_on_its_way(world: World) -> None:
    who = world.producer()
    world.prompt = False
    world.add(who, T0)
    assert world.add(who, T1).codes == [E.CONCURRENT_TRANSACTIONS]
    assert world.add((7, 7), T1).codes == [E.CONCURRENT_TRANSACTIONS], "which is looked at first"
    assert world.add_offsets(who).error is E.CONCURRENT_TRANSACTIONS
    world.settle()
    world.end(who)
    assert world.add(who, T1).codes == [E.CONCURRENT_TRANSACTIONS], "the decision is"


def test_a_failed_append(world: World) -> None:
    who = world.producer()
    world.prompt = False
    asked = world.add(who)
    world.append(E.COORDINATOR_NOT_AVAILABLE)
    assert asked.codes == [E.COORDINATOR_NOT_AVAILABLE]
    assert world.state() == "Empty"
    world.prompt = True
    assert world.add(who).codes == [NONE]


def test_one_partition_that_does_not_exist(world: World) -> None:
    who = world.producer()
    asked = world.add(who, T0, T1, refused=[T1])
    assert asked.codes == [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert world.state() == "Empty"


@pytest.mark.parametrize("version", range(5))
def test_offsets_take_part(world: World, version: int) -> None:
    who = world.producer()
    assert world.add_offsets(who, version=version).error is NONE
    assert world.snapshot().partitions == {OFFSETS}


def transaction(name: str, who: tuple[int, int], *, verify: bool = False) -> AddPartitionsToTxnTransaction:
    topics = [TopicWithPartitions(name="t", partitions=[0])]
    return AddPartitionsToTxnTransaction(
        transactional_id=name, producer_id=who[0], producer_epoch=who[1], topics=topics, verify_only=verify
    )


def rows(asked: Asked) -> list[tuple[str, int]]:
    return [
        (row.transactional_id, row.topic_results[0].results_by_partition[0].partition_error_code)
        for row in asked.answer.results_by_transaction
    ]


def test_several_transactions_at_once(world: World) -> None:
    x, y, z = world.producer("x"), world.producer("y"), world.open(name="z")
    world.prompt = False
    wanted = [transaction("x", x), transaction("y", (y[0], 9)), transaction("z", z, verify=True), transaction("y", y)]
    asked = world.add_request(AddPartitionsToTxnRequest(transactions=wanted), 4)
    assert asked.answer is None
    world.append()
    assert asked.answer is None
    world.append()
    assert rows(asked) == [("x", NONE), ("y", E.PRODUCER_FENCED), ("z", NONE), ("y", NONE)]


def test_no_transaction_at_all(world: World) -> None:
    asked = world.add_request(AddPartitionsToTxnRequest(transactions=[]), 4)
    assert asked.answer.results_by_transaction == []


class TestWaiting:
    """The next transaction begins while the last one is being completed."""

    @pytest.fixture
    def ending(self, world: World) -> tuple[int, int]:
        """A producer whose markers are being written; the epoch is the one to go on with."""
        who = world.open(T0, version=4)
        world.prompt = False
        asked = world.end(who, version=5)
        world.append()
        return asked.identity[1:]

    @pytest.mark.parametrize("version", [3, 4])
    def test_it_is_answered_once_the_last_one_is_complete(
        self, world: World, ending: tuple[int, int], version: int
    ) -> None:
        asked = world.add(ending, T1, version=version)
        world.mark()
        world.advance(100)
        assert asked.answer is None
        world.append()
        assert asked.answer is None, "it is not durable"
        world.append()
        assert asked.codes == [NONE]
        assert world.snapshot().partitions == {T1}

    def test_not_for_ever(self, world: World, ending: tuple[int, int]) -> None:
        early = world.add_offsets(ending)
        world.advance(300)
        late = world.verify(ending, T1, adds=True)
        world.advance(199)
        assert early.answer is None
        world.advance(1)
        assert early.error is E.CONCURRENT_TRANSACTIONS
        assert late.answer is None
        world.advance(300)
        assert late.answer == {T1: E.CONCURRENT_TRANSACTIONS}
        world.settle()
        assert world.state() == "CompleteCommit"

    def test_waiting_again_does_not_take_longer(self, world: World, ending: tuple[int, int]) -> None:
        first = world.verify(ending, T1, adds=True)
        second = world.verify(ending, T2, adds=True)
        world.advance(400)
        world.mark()
        world.append()
        world.advance(100)
        assert first.answer is None, "it is on its way to the log"
        assert second.answer == {T2: E.CONCURRENT_TRANSACTIONS}
        world.append()
        assert first.answer == {T1: NONE}

    def test_several_partitions_at_the_same_time(self, world: World) -> None:
        who = world.producer()
        world.prompt = False
        asked = [world.verify(who, tp, adds=True) for tp in (T0, T1, T2)]
        for count, tp in enumerate((T0, T1, T2)):
            assert [each.answer is None for each in asked] == [False] * count + [True] * (3 - count)
            world.append()
            assert asked[count].answer == {tp: NONE}
        assert world.coordinator.next_deadline_ms() == 11_000, "nobody waits any more"

    def test_who_is_fenced_meanwhile(self, world: World) -> None:
        who = world.open(T0)
        world.prompt = False
        world.init()
        world.append()
        asked = world.add(who, T1)
        world.settle()
        assert asked.codes == [E.PRODUCER_FENCED]

    def test_a_failed_append_lets_the_next_one_go(self, world: World) -> None:
        who = world.producer()
        world.prompt = False
        first, second = world.verify(who, T0, adds=True), world.verify(who, T1, adds=True)
        world.append(E.COORDINATOR_NOT_AVAILABLE)
        assert first.answer == {T0: E.COORDINATOR_NOT_AVAILABLE}
        world.append()
        assert second.answer == {T1: NONE}
        assert world.snapshot().partitions == {T1}

    def test_a_partition_given_up(self, world: World, ending: tuple[int, int]) -> None:
        asked = world.add(ending, T1)
        for partition in range(3):
            world.coordinator.unload(partition, *world.now)
        world.take()
        assert asked.codes == [E.NOT_COORDINATOR]


class TestVerify:
    def test_what_takes_part(self, world: World) -> None:
        who = world.open(T0)
        assert world.verify(who, T0, T1).answer == {T0: NONE, T1: E.TRANSACTION_ABORTABLE}
        assert world.add(who, T0, T1, version=4, verify=True).codes == [NONE, E.TRANSACTION_ABORTABLE]

    @pytest.mark.parametrize(
        ("name", "who", "error"),
        [
            ("", (101, 0), E.INVALID_REQUEST),
            ("y", (101, 0), E.INVALID_PRODUCER_ID_MAPPING),
            ("x", (102, 0), E.INVALID_PRODUCER_ID_MAPPING),
            ("x", (101, 1), E.PRODUCER_FENCED),
        ],
    )
    def test_who_has_no_transaction(self, world: World, name: str, who: tuple[int, int], error: ErrorCode) -> None:
        world.open(T0)
        assert world.verify(who, T0, name=name).answer == {T0: error}

    def test_what_is_not_durable_does_not_count(self, world: World) -> None:
        who = world.producer()
        world.prompt = False
        world.add(who, T0)
        assert world.verify(who, T0).answer == {T0: E.TRANSACTION_ABORTABLE}

    def test_what_is_on_its_way_does_not_matter(self, world: World) -> None:
        who = world.open(T0)
        world.prompt = False
        world.add(who, T1)
        assert world.verify(who, T0).answer == {T0: NONE}

    def test_once_it_is_decided(self, world: World) -> None:
        who = world.open(T0)
        world.prompt = False
        world.end(who)
        world.append()
        assert world.verify(who, T0).answer == {T0: E.CONCURRENT_TRANSACTIONS}

    def test_once_it_is_over(self, world: World) -> None:
        who = world.open(T0)
        world.end(who)
        assert world.verify(who, T0).answer == {T0: E.TRANSACTION_ABORTABLE}

    def test_adding_is_durable_first(self, world: World) -> None:
        who = world.producer()
        world.prompt = False
        asked = world.verify(who, T0, T1, adds=True)
        assert asked.answer is None
        world.append()
        assert asked.answer == {T0: NONE, T1: NONE}
        assert world.snapshot().client_version == 2

    def test_adding_for_somebody_else(self, world: World) -> None:
        world.producer()
        assert world.verify((101, 5), T0, adds=True).answer == {T0: E.PRODUCER_FENCED}
