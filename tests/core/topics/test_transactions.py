"""The parts that keep account of transactions in a partition, each by itself."""

import pytest

from ottla.broker.core.topics import transactions as module
from ottla.broker.core.topics.producers import Producers, ProducerState, TransactionMarker, Verdict
from ottla.broker.core.topics.transactions import Aborted, Transactions
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records import Record, parse_header
from tests.support.batches import build_batch

E = ErrorCode


def header(sequence, *, epoch=0, transactional=True):
    records = [Record(value=b"v", timestamp_ms=5)]
    options = {"producer_id": 1, "producer_epoch": epoch, "base_sequence": sequence}
    return parse_header(build_batch(records, is_transactional=transactional, **options))


def marker(epoch, *, coordinator=0, version=1):
    return TransactionMarker(1, epoch, coordinator, True, version)


def aborted():
    found = Aborted()
    found.add(7, 10, 20, 5)  # while one that began at 5 is open
    found.add(8, 5, 25, 26)
    found.add(7, 30, 40, 41)
    return found


@pytest.mark.parametrize(
    ("start", "upto", "pairs"),
    [
        (0, 50, [(8, 5), (7, 10), (7, 30)]),
        (0, 6, [(8, 5)]),
        (20, 26, [(8, 5), (7, 10)]),
        (21, 26, [(8, 5)]),
        (26, 30, []),
        (26, 31, [(7, 30)]),
        (41, 50, []),
    ],
)
def test_aborted_transactions_of_a_range(start, upto, pairs):
    assert aborted().between(start, upto) == pairs


def test_whether_there_is_something_ahead():
    assert not Aborted().reach(0)
    assert aborted().reach(40) and not aborted().reach(41)


def test_what_lies_before_the_log_is_forgotten():
    found = aborted()
    found.forget_below(20)
    assert len(found) == 3
    found.forget_below(21)
    assert [row[:3] for row in found.rows()] == [(8, 5, 25), (7, 30, 40)]


def test_transactions_whose_markers_are_gone_are_forgotten():
    found = aborted()
    found.forget([40, 20, 21])
    assert [row[2] for row in found.rows()] == [25]


def test_unstable_from_the_oldest_on():
    transactions = Transactions()
    first, second = transactions.begin(1, 0), transactions.begin(2, 3)
    first.last_offset, second.last_offset = 6, 5
    transactions.complete(second, aborted=True)
    assert transactions.first_unstable_offset == 0
    assert transactions.aborted.rows() == [(2, 3, 5, 0)]
    transactions.complete(first, aborted=False)
    assert transactions.first_unstable_offset is None


def test_who_asks_with_a_false_epoch_blocks_nobody():
    transactions = Transactions()
    right = transactions.verify(1, 3, 7)
    assert transactions.verify(1, 99, 0) is right
    assert transactions.verify(1, 3, 5) is right
    assert (right.epoch, right.lowest_sequence) == (99, 0)
    other = transactions.verify(2, 0, 7)
    transactions.verify(2, 0, 5)
    transactions.verify(2, 0, 9)
    assert other.lowest_sequence == 5


def test_verifications_are_bounded(monkeypatch):
    monkeypatch.setattr(module, "MAX_VERIFICATIONS", 3)
    transactions = Transactions()
    for producer_id in range(10):
        transactions.verify(producer_id, 0, 0)
    assert list(transactions.verifications) == [7, 8, 9]


def test_a_marker_with_a_newer_epoch_fences_and_starts_sequences_afresh():
    producers = Producers()
    producers.appended(header(0), 0, 0, durable=True)
    producers.ended(1, 1, 0, 9)
    assert producers.judge(header(1)) is E.INVALID_PRODUCER_EPOCH
    assert producers.judge(header(1, epoch=1)) is E.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.judge(header(0, epoch=1)) is Verdict.NEW
    assert producers.judge(header(0, epoch=2)) is Verdict.NEW


def test_a_marker_with_the_same_epoch_lets_sequences_go_on():
    producers = Producers()
    producers.appended(header(0), 0, 0, durable=True)
    producers.ended(1, 0, 0, 9)
    assert producers.judge(header(1)) is Verdict.NEW
    assert producers.judge(header(2)) is E.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize(
    ("epoch", "version", "is_open", "error"),
    [
        (4, 1, True, E.INVALID_PRODUCER_EPOCH),
        (5, 1, True, E.NONE),
        (6, 1, True, E.NONE),
        (5, 2, True, E.INVALID_PRODUCER_EPOCH),
        (6, 2, True, E.NONE),
        (5, 2, False, E.NONE),  # it comes for the second time
        (4, 2, False, E.INVALID_PRODUCER_EPOCH),
    ],
)
def test_markers_and_epochs(epoch, version, is_open, error):
    producers, state = Producers(), ProducerState(5, 0)
    producers.restore(1, state)
    if is_open:
        state.transaction = Transactions().begin(1, 0)
    assert producers.judge_marker(marker(epoch, version=version)) is error


def test_markers_and_coordinators():
    producers = Producers()
    assert producers.judge_marker(marker(0, coordinator=-1)) is E.NONE
    producers.ended(1, 0, 3, 0)
    assert producers.judge_marker(marker(0, coordinator=2)) is E.TRANSACTION_COORDINATOR_FENCED
    assert producers.judge_marker(marker(0, coordinator=3)) is E.NONE


def test_a_producer_with_an_open_transaction_is_not_forgotten():
    producers = Producers()
    state = ProducerState(0, 0)
    state.transaction = Transactions().begin(1, 0)
    producers.restore(1, state)
    day = producers.expiration_ms
    for producer_id in (2, 3, 4):
        producers.ended(producer_id, 0, 0, producer_id * 2 * day)
    assert 1 in producers and 2 not in producers
    state.transaction = None
    producers.ended(5, 0, 0, 20 * day)
    producers.ended(6, 0, 0, 20 * day)
    assert 1 not in producers
