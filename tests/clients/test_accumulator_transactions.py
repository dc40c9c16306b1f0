"""The accumulator of a transactional producer: its epoch is the coordinator's, and a gap ends the transaction."""

import pytest

from ottla.clients.accumulator import CONCURRENT_PAUSE_MS, Accumulator, Batch
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import TopicPartition, parse_header
from tests.clients import test_accumulator as plain
from tests.clients.test_accumulator import T0, T1, take


@pytest.fixture
def accumulator() -> Accumulator:
    accumulator = plain.make(begun=False, max_batch_size=60, linger_ms=0, transactional_id="x")
    accumulator.set_producer_id(77, 3)
    return accumulator


def add(accumulator: Accumulator, waiter: str, tp: TopicPartition = T0, size: int = 50) -> None:
    plain.add(accumulator, waiter, tp=tp, size=size)


def one(accumulator: Accumulator, now: float = 0, tp: TopicPartition = T0) -> Batch:
    return plain.one(accumulator, now, tp)


def begin(accumulator: Accumulator) -> None:
    """Have the first batch of the epoch acknowledged: it has number 0."""
    add(accumulator, "first")
    accumulator.succeeded(one(accumulator))


def numbers(batch: Batch) -> tuple[int, int, int]:
    assert parse_header(batch.encode()).is_transactional
    return plain.numbers(batch)


def test_nothing_goes_out_where_it_may_not(accumulator: Accumulator) -> None:
    allowed: set[TopicPartition] = set()
    accumulator.may_send = allowed.__contains__
    add(accumulator, "a")
    assert accumulator.ready_at_ms(T0) is None
    assert take(accumulator, 0) == []
    allowed.add(T0)
    assert numbers(one(accumulator)) == (77, 3, 0)


def test_a_new_epoch_is_taken_over_by_all_partitions(accumulator: Accumulator) -> None:
    for tp in (T0, T1):
        add(accumulator, "a", tp)
        accumulator.succeeded(one(accumulator, tp=tp))
    accumulator.set_producer_id(77, 3)
    add(accumulator, "b")
    assert numbers(one(accumulator)) == (77, 3, 1), "the same as before: the numbers go on"
    accumulator.succeeded(accumulator._partitions[T0].in_flight[0])
    accumulator.set_producer_id(77, 4)
    for tp in (T0, T1):
        add(accumulator, "c", tp)
        assert numbers(one(accumulator, tp=tp)) == (77, 4, 0)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER])
def test_a_gap_is_not_closed_by_the_producer_itself(accumulator: Accumulator, code: ErrorCode) -> None:
    add(accumulator, "a")
    accumulator.succeeded(one(accumulator))
    add(accumulator, "b")
    assert not accumulator.failed(one(accumulator), code, 0), "for good: the transaction must be aborted"
    assert accumulator.lost_numbers
    add(accumulator, "c")
    assert take(accumulator, 0) == []
    accumulator.set_producer_id(77, 4)
    assert not accumulator.lost_numbers
    assert numbers(one(accumulator)) == (77, 4, 0)


def test_the_first_batch_of_an_epoch_goes_alone(accumulator: Accumulator) -> None:
    for name in "abcd":
        add(accumulator, name)
    first = one(accumulator)
    assert take(accumulator, 0) == []
    assert accumulator.failed(first, ErrorCode.CONCURRENT_TRANSACTIONS, 0)
    assert take(accumulator, 0) == []
    accumulator.succeeded(one(accumulator, 20))
    assert [numbers(one(accumulator, 20)) for _ in "bcd"] == [(77, 3, 1), (77, 3, 2), (77, 3, 3)], "then several"
    for batch in list(accumulator._partitions[T0].in_flight):
        accumulator.succeeded(batch)
    accumulator.set_producer_id(77, 4)
    add(accumulator, "e")
    add(accumulator, "f")
    assert numbers(one(accumulator, 20)) == (77, 4, 0)
    assert take(accumulator, 20) == []


def test_what_comes_too_early_is_tried_again(accumulator: Accumulator) -> None:
    begin(accumulator)
    add(accumulator, "a")
    add(accumulator, "b")
    a, b = one(accumulator), one(accumulator)
    assert accumulator.failed(b, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)
    accumulator.succeeded(a)
    assert one(accumulator, 100) is b
    assert not accumulator.lost_numbers


def test_dropping_what_waits(accumulator: Accumulator) -> None:
    begin(accumulator)
    add(accumulator, "a")
    add(accumulator, "b")
    flying = one(accumulator)
    [dropped] = accumulator.drop_waiting()
    assert (dropped.waiters, accumulator.in_flight, accumulator.lost_numbers) == (["b"], True, False)
    accumulator.failed(flying, ErrorCode.REQUEST_TIMED_OUT, 0)
    assert [batch.waiters for batch in accumulator.drop_waiting()] == [["a"]]
    assert (accumulator.in_flight, accumulator.used_bytes) == (False, 0)
    assert accumulator.lost_numbers, "whether the broker has it is not known"


def test_the_transaction_before_is_waited_for_shortly(accumulator: Accumulator) -> None:
    add(accumulator, "a")
    assert accumulator.failed(one(accumulator), ErrorCode.CONCURRENT_TRANSACTIONS, 0)
    assert accumulator.ready_at_ms(T0) == CONCURRENT_PAUSE_MS


def test_the_halves_of_a_batch_keep_its_numbers(accumulator: Accumulator) -> None:
    begin(accumulator)
    accumulator.batch_size = 1000
    for name in "abc":
        add(accumulator, name, size=20)
    add(accumulator, "z", size=1000)
    whole, later = one(accumulator), one(accumulator)
    assert accumulator.split(whole, 0)
    assert accumulator.failed(later, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)
    places = []
    for _ in range(3):
        batch = one(accumulator, 200)
        places.append((batch.waiters, numbers(batch)))
        accumulator.succeeded(batch)
    assert places == [(["a"], (77, 3, 1)), (["b", "c"], (77, 3, 2)), (["z"], (77, 3, 4))]
    assert not accumulator.lost_numbers
