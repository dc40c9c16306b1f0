"""The accumulator: batching, order, sequence numbers, retries, gaps, time limits, memory."""

from typing import Any

import pytest

from ottla.clients.accumulator import MAX_EPOCH, Accumulator, Batch, PartitionQueue
from ottla.clients.backoff import Backoff
from ottla.clients.options import ProducerOptions
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import TopicPartition, decode_batch, parse_header

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def make(*, begun: bool = True, **options: Any) -> Accumulator:
    """``begun``: partitions have acknowledged batches, and their numbers have just gone round to 0 again."""
    defaults = {"max_batch_size": 300, "linger_ms": 10, "delivery_timeout_ms": 1000, "request_timeout_ms": 1}
    accumulator = Accumulator(ProducerOptions(**{**defaults, **options}), lambda: Backoff(100, 400, lambda: 0.5))
    if accumulator.idempotent:
        accumulator.set_producer_id(77, 0)
    for tp in (T0, T1) if begun and accumulator.idempotent else ():
        partition = accumulator._partitions[tp] = PartitionQueue()
        partition.restart(77, 0)
        partition.last_acked_sequence = (1 << 31) - 1
    return accumulator


def add(accumulator: Accumulator, waiter: str, now: float = 0, tp: TopicPartition = T0, size: int = 10) -> bool:
    return accumulator.append(tp, None, b"x" * size, 1000 + int(now), (), waiter, now)


def take(accumulator: Accumulator, now: float, *tps: TopicPartition, max_bytes: int = 1 << 20) -> list[Batch]:
    return accumulator.take(tps or (T0,), max_bytes, now)


def numbers(batch: Batch) -> tuple[int, int, int]:
    """Producer id, epoch and base sequence as they go out."""
    header = parse_header(batch.encode())
    return header.producer_id, header.producer_epoch, header.base_sequence


def one(accumulator: Accumulator, now: float, tp: TopicPartition = T0) -> Batch:
    [batch] = take(accumulator, now, tp)
    return batch


# batching


def test_a_batch_waits_for_linger() -> None:
    accumulator = make()
    assert add(accumulator, "a", 0), "a new batch is news for the sender"
    assert not add(accumulator, "b", 4)
    assert accumulator.ready_at_ms(T0) == 10
    assert take(accumulator, 9) == []
    batch = one(accumulator, 10)
    assert (batch.waiters, batch.timestamps) == (["a", "b"], [1000, 1004])
    assert [(r.value, r.timestamp_ms) for r in decode_batch(batch.encode())] == [(b"x" * 10, 1000), (b"x" * 10, 1004)]
    assert accumulator.ready_at_ms(T0) is None


def test_a_full_batch_does_not_wait() -> None:
    accumulator = make()
    add(accumulator, "a", 0, size=100)
    assert accumulator.ready_at_ms(T0) == 10
    assert add(accumulator, "b", 1, size=150), "it does not fit: another batch"
    assert accumulator.ready_at_ms(T0) == 0
    assert one(accumulator, 1).waiters == ["a"]
    assert accumulator.ready_at_ms(T0) == 11


def test_a_record_larger_than_a_batch_does_not_wait() -> None:
    accumulator = make()
    add(accumulator, "a", 5, size=5000)
    assert accumulator.ready_at_ms(T0) == 5


def test_a_record_larger_than_a_batch_goes_alone() -> None:
    accumulator = make()
    add(accumulator, "a", size=5000)
    add(accumulator, "b")
    assert [one(accumulator, 0).waiters, one(accumulator, 10).waiters] == [["a"], ["b"]]


def test_flushing_does_not_wait() -> None:
    accumulator = make()
    add(accumulator, "a")
    accumulator.flushing += 1
    assert one(accumulator, 0).waiters == ["a"]


def test_a_request_takes_one_batch_of_each_partition_as_far_as_they_fit() -> None:
    accumulator = make(linger_ms=0)
    for tp in (T0, T1):
        add(accumulator, f"{tp.partition}a", tp=tp, size=200)
        add(accumulator, f"{tp.partition}b", tp=tp, size=200)
    assert [b.waiters for b in take(accumulator, 0, T0, T1)] == [["0a"], ["1a"]]
    assert [b.waiters for b in take(accumulator, 0, T1, T0, max_bytes=100)] == [["1b"]], "at least one, however large"


def test_compression_lets_a_batch_hold_more() -> None:
    plain, packed = make(), make(compression_type="gzip")
    for accumulator in (plain, packed):
        for round_ in range(2):
            for record in range(40):
                add(accumulator, f"{round_}-{record}", size=100)
            while batches := take(accumulator, 1000):
                batches[0].encode()
                accumulator.succeeded(batches[0])
    for record in range(20):
        add(packed, str(record), size=100)
        add(plain, str(record), size=100)
    assert len(one(packed, 2000).waiters) > len(one(plain, 2000).waiters)


# numbers and order


def test_batches_are_numbered_by_their_records() -> None:
    accumulator = make(max_batch_size=60)
    add(accumulator, "a")
    add(accumulator, "b")
    add(accumulator, "c", tp=T1)
    assert numbers(one(accumulator, 20)) == (77, 0, 0)
    assert numbers(one(accumulator, 20)) == (77, 0, 1)
    assert numbers(one(accumulator, 20, T1)) == (77, 0, 0)


def test_without_idempotence_there_are_no_numbers() -> None:
    accumulator = make(enable_idempotence=False)
    add(accumulator, "a")
    assert numbers(one(accumulator, 10)) == (-1, -1, -1)


def test_one_request_at_a_time_is_one_batch_of_a_partition_at_a_time() -> None:
    """The request under way may be at the node that led the partition until a moment ago."""
    accumulator = make(linger_ms=0, enable_idempotence=False, max_in_flight_requests_per_connection=1)
    add(accumulator, "a")
    first = one(accumulator, 0)
    add(accumulator, "b")
    assert take(accumulator, 0) == []
    accumulator.succeeded(first)
    assert len(take(accumulator, 0)) == 1


def test_the_first_batch_of_a_partition_goes_alone() -> None:
    """A new topic's leader may refuse it at first, and would take the second in its place."""
    accumulator = make(begun=False, linger_ms=0)
    for name in "abc":
        add(accumulator, name, size=290)
    first = one(accumulator, 0)
    assert take(accumulator, 0) == []
    assert accumulator.failed(first, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    assert take(accumulator, 0) == []
    accumulator.succeeded(one(accumulator, 100))
    assert [numbers(one(accumulator, 100)) for _ in "bc"] == [(77, 0, 1), (77, 0, 2)], "then several"


def test_a_batch_that_was_overtaken_moves_to_the_next_epoch() -> None:
    accumulator = make(linger_ms=0)
    for name in "ab":
        add(accumulator, name, size=290)
    first, second = one(accumulator, 0), one(accumulator, 0)
    assert accumulator.failed(first, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    accumulator.succeeded(second)
    assert numbers(one(accumulator, 100)) == (77, 0, 0)
    assert accumulator.failed(first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 100)
    assert numbers(one(accumulator, 500)) == (77, 1, 0)


def test_nothing_goes_out_before_the_producer_id() -> None:
    accumulator = make(begun=False)
    accumulator.producer_id = -1
    add(accumulator, "a")
    assert accumulator.needs_producer_id
    assert accumulator.ready_at_ms(T0) is None
    accumulator.set_producer_id(5, 3)
    assert numbers(one(accumulator, 10)) == (5, 3, 0)


def three_in_flight(**options: Any) -> tuple[Accumulator, Batch, Batch, Batch]:
    accumulator = make(max_batch_size=60, linger_ms=0, **options)
    for name in "abcd":
        add(accumulator, name, size=50)
    return accumulator, one(accumulator, 0), one(accumulator, 0), one(accumulator, 0)


def test_a_retry_keeps_number_and_place() -> None:
    accumulator, a, b, c = three_in_flight()
    assert accumulator.failed(b, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    assert accumulator.failed(a, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)
    assert accumulator.failed(c, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0), "it came before its predecessors"
    assert take(accumulator, 99) == [], "the pause"
    assert one(accumulator, 100) is a
    assert numbers(a) == (77, 0, 0)
    assert take(accumulator, 200) == [], "retries go out alone"
    accumulator.succeeded(a)
    assert one(accumulator, 200) is b
    assert numbers(b) == (77, 0, 1)
    accumulator.succeeded(b)
    assert one(accumulator, 200) is c
    accumulator.succeeded(c)
    assert numbers(one(accumulator, 200)) == (77, 0, 3), "then the rest goes on"


def test_a_retry_waits_for_those_in_flight() -> None:
    accumulator, a, b, c = three_in_flight()
    accumulator.failed(a, ErrorCode.REQUEST_TIMED_OUT, 0)
    assert accumulator.ready_at_ms(T0) is None
    accumulator.succeeded(b)
    assert accumulator.ready_at_ms(T0) is None
    accumulator.succeeded(c)
    assert accumulator.ready_at_ms(T0) == 100


def test_pauses_grow_batch_by_batch() -> None:
    accumulator = make(delivery_timeout_ms=100_000)
    add(accumulator, "a")
    now = 10.0
    for pause in (100, 200, 400, 400):
        batch = one(accumulator, now)
        accumulator.failed(batch, ErrorCode.NOT_ENOUGH_REPLICAS, now)
        assert accumulator.ready_at_ms(T0) == now + pause
        now += pause


def test_records_do_not_join_a_batch_that_was_tried() -> None:
    accumulator = make()
    add(accumulator, "a")
    batch = one(accumulator, 10)
    accumulator.failed(batch, ErrorCode.REQUEST_TIMED_OUT, 10)
    add(accumulator, "b", 11)
    assert batch.waiters == ["a"]
    assert one(accumulator, 110) is batch


def test_sequences_wrap() -> None:
    accumulator = make(linger_ms=0)
    add(accumulator, "a")
    first = one(accumulator, 0)
    accumulator.succeeded(first)
    accumulator._partitions[T0].next_sequence = 0x7FFFFFFF
    add(accumulator, "b")
    add(accumulator, "c")
    second = one(accumulator, 0)
    assert numbers(second)[2] == 0x7FFFFFFF
    accumulator.succeeded(second)
    add(accumulator, "d")
    third = one(accumulator, 0)
    assert numbers(third)[2] == 1
    accumulator.failed(third, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)
    assert numbers(one(accumulator, 100)) == (77, 1, 0), "it was the next one: a gap"


# gaps


def test_a_gap_moves_to_the_next_epoch() -> None:
    """KIP-360: what should have been next is out of order, so the broker has lost something: begin anew."""
    accumulator, a, b, c = three_in_flight()
    accumulator.succeeded(a)
    assert accumulator.failed(b, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)
    assert take(accumulator, 500) == [], "not before everything in flight is back"
    assert accumulator.failed(c, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)
    assert one(accumulator, 500) is b
    assert numbers(b) == (77, 1, 0)
    accumulator.succeeded(b)
    assert one(accumulator, 500) is c
    assert numbers(c) == (77, 1, 1)


def test_a_producer_that_the_broker_forgot_begins_anew() -> None:
    accumulator, a, b, c = three_in_flight()
    accumulator.succeeded(a)
    for batch in (b, c):
        assert accumulator.failed(batch, ErrorCode.UNKNOWN_PRODUCER_ID, 0)
    assert numbers(one(accumulator, 100)) == (77, 1, 0)


def test_other_partitions_are_not_touched() -> None:
    accumulator = make(linger_ms=0)
    add(accumulator, "a")
    add(accumulator, "b", tp=T1)
    [a, b] = take(accumulator, 0, T0, T1)
    accumulator.failed(a, ErrorCode.UNKNOWN_PRODUCER_ID, 0)
    accumulator.succeeded(b)
    add(accumulator, "c", tp=T1)
    assert numbers(one(accumulator, 0, T1)) == (77, 0, 1)
    assert numbers(one(accumulator, 100)) == (77, 1, 0)


@pytest.mark.parametrize(
    "code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_PRODUCER_EPOCH]
)
def test_a_failure_for_good_leaves_a_gap(code: ErrorCode) -> None:
    accumulator, a, b, c = three_in_flight()
    used = accumulator.used_bytes
    assert not accumulator.failed(a, code, 0)
    assert accumulator.used_bytes < used
    for batch in (b, c):
        assert accumulator.failed(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)
    assert one(accumulator, 200) is b
    assert numbers(b) == (77, 1, 0)


def test_the_last_epoch_is_followed_by_another_producer_id() -> None:
    accumulator = make(begun=False, linger_ms=0)
    accumulator.set_producer_id(77, MAX_EPOCH)
    add(accumulator, "a")
    a = one(accumulator, 0)
    accumulator.failed(a, ErrorCode.UNKNOWN_PRODUCER_ID, 0)
    assert take(accumulator, 100) == []
    assert accumulator.needs_producer_id
    accumulator.set_producer_id(78, 0)
    assert one(accumulator, 100) is a
    assert numbers(a) == (78, 0, 0)


def test_without_idempotence_a_failure_leaves_no_gap() -> None:
    accumulator = make(enable_idempotence=False, linger_ms=0)
    add(accumulator, "a")
    assert not accumulator.failed(one(accumulator, 0), ErrorCode.UNKNOWN_PRODUCER_ID, 0)
    add(accumulator, "b")
    assert numbers(one(accumulator, 0)) == (-1, -1, -1)


# too large


def test_a_batch_too_large_is_split() -> None:
    accumulator = make(max_batch_size=1000, linger_ms=0)
    for name in "abc":
        add(accumulator, name, size=20)
    used = accumulator.used_bytes
    add(accumulator, "z", size=1000)
    whole, later = one(accumulator, 0), one(accumulator, 0)
    assert accumulator.split(whole, 0)
    assert take(accumulator, 0) == [], "the numbers are lost, so it waits for what is in flight"
    accumulator.failed(later, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0)
    first = one(accumulator, 100)
    assert (first.waiters, first.timestamps, numbers(first)) == (["a"], [1000], (77, 1, 0))
    accumulator.succeeded(first)
    second = one(accumulator, 100)
    assert (second.waiters, numbers(second)) == (["b", "c"], (77, 1, 1))
    assert [r.value for r in decode_batch(second.encode())] == [b"x" * 20] * 2
    accumulator.succeeded(second)
    assert one(accumulator, 100) is later
    accumulator.succeeded(later)
    assert (accumulator.used_bytes, used > 0) == (0, True)


def test_one_record_is_not_split() -> None:
    accumulator = make(linger_ms=0)
    add(accumulator, "a")
    assert not accumulator.split(one(accumulator, 0), 0)


# time


def test_what_waits_too_long_expires() -> None:
    accumulator = make()
    add(accumulator, "a", 0)
    add(accumulator, "b", 500, tp=T1)
    assert accumulator.next_expiry_ms() == 1000
    assert accumulator.expire(999) == []
    used = accumulator.used_bytes
    [expired] = accumulator.expire(1000)
    assert (expired.waiters, accumulator.used_bytes) == (["a"], used / 2)
    assert accumulator.next_expiry_ms() == 1500
    add(accumulator, "c", 1001)
    assert numbers(one(accumulator, 1011)) == (77, 0, 0), "it was never sent: there is no gap"


def test_what_was_tried_and_expires_leaves_a_gap() -> None:
    accumulator = make(linger_ms=0)
    add(accumulator, "a", 0)
    accumulator.failed(one(accumulator, 0), ErrorCode.REQUEST_TIMED_OUT, 0)
    assert len(accumulator.expire(1000)) == 1
    add(accumulator, "b", 1000)
    assert numbers(one(accumulator, 1000)) == (77, 1, 0), "whether the broker has it is not known"


def test_what_expires_in_flight_is_given_up_but_its_outcome_counts() -> None:
    for outcome, epoch in (("fails", 1), ("succeeds", 0)):
        accumulator = make(linger_ms=0)
        add(accumulator, "a", 0)
        batch = one(accumulator, 0)
        assert accumulator.expire(999) == []
        assert accumulator.expire(1000) == [batch]
        assert accumulator.expire(1001) == [], "told once"
        assert accumulator.unfinished() == []
        assert accumulator.used_bytes == 0
        add(accumulator, "b", 1001)
        if outcome == "fails":
            assert not accumulator.failed(batch, ErrorCode.NETWORK_EXCEPTION, 1002), "never again"
        else:
            accumulator.succeeded(batch)
        assert numbers(one(accumulator, 1002))[1] == epoch


def test_no_retry_after_the_time_limit() -> None:
    accumulator = make(linger_ms=0)
    add(accumulator, "a", 0)
    batch = one(accumulator, 0)
    assert not accumulator.failed(batch, ErrorCode.REQUEST_TIMED_OUT, 1000)


# memory


def test_memory_is_used_until_the_end() -> None:
    accumulator = make(linger_ms=0)
    add(accumulator, "a", size=1000)
    used = accumulator.used_bytes
    assert 1000 <= used <= 1100
    batch = one(accumulator, 0)
    accumulator.failed(batch, ErrorCode.REQUEST_TIMED_OUT, 0)
    assert accumulator.used_bytes == used
    accumulator.succeeded(one(accumulator, 100))
    assert accumulator.used_bytes == 0


def test_abandoning_gives_everything_back() -> None:
    accumulator, a, b, _ = three_in_flight()
    accumulator.failed(a, ErrorCode.REQUEST_TIMED_OUT, 0)
    given_up = accumulator.abandon_all()
    assert sorted(w for batch in given_up for w in batch.waiters) == ["a", "b", "c", "d"]
    assert b in given_up
    assert (accumulator.used_bytes, accumulator.unfinished()) == (0, [])
