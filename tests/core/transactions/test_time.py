"""Transactions open for too long, and ids unused for too long."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from tests.core.transactions.txn_world import NONE, T0, World, markers_of

E = ErrorCode
DAY_MS = 86_400_000


@pytest.fixture
def world() -> World:
    return World()


def test_a_transaction_open_for_too_long_is_aborted(world: World) -> None:
    who = world.open(T0, timeout_ms=25_000)
    world.advance(25_000)
    assert world.state() == "Ongoing"
    world.advance(5_000)
    assert world.state() == "CompleteAbort"
    assert markers_of(world) == [(T0, 101, 1, False)]
    assert world.end(who).error is E.PRODUCER_FENCED
    assert world.add(who).codes == [E.PRODUCER_FENCED]
    assert world.init(expected=who).error is NONE, "the epoch before the bump is its own"


def test_the_time_counts_from_the_first_partition(world: World) -> None:
    who = world.producer(timeout_ms=25_000)
    world.advance(60_000)
    world.add(who, T0)
    world.advance(24_000)
    assert world.end(who).error is NONE


def test_it_is_looked_for_only_while_one_is_open(world: World) -> None:
    sweep = 1_000 + 3_600_000
    who = world.producer()
    assert world.coordinator.next_deadline_ms() == sweep
    world.add(who, T0)
    assert world.coordinator.next_deadline_ms() == 11_000
    world.end(who)
    world.advance(10_000)
    assert world.coordinator.next_deadline_ms() == sweep


def test_the_interval_can_be_set() -> None:
    world = World(transaction_abort_timed_out_transaction_cleanup_interval_ms=100)
    world.open(T0, timeout_ms=1_000)
    world.advance(1_000)
    assert world.state() == "Ongoing"
    world.advance(100)
    assert world.state() == "CompleteAbort"


def test_the_last_epoch_of_a_producer_that_timed_out(world: World) -> None:
    who = world.at_epoch(32_766)
    world.add(who, T0, version=4)
    world.advance(70_000)
    assert markers_of(world) == [(T0, 101, 32_767, False)]
    assert (world.snapshot().producer_id, world.snapshot().producer_epoch) == (102, 0)
    assert world.end(who, commit=False, version=5).identity == (NONE, 102, 0)


def test_an_abort_that_cannot_be_logged_is_tried_again(world: World) -> None:
    world.open(T0, timeout_ms=1_000)
    world.prompt = False
    world.advance(10_000)
    world.append(E.COORDINATOR_NOT_AVAILABLE)
    assert world.state() == "Ongoing"
    world.advance(10_000)
    world.settle()
    assert world.state() == "CompleteAbort"
    assert markers_of(world) == [(T0, 101, 1, False)]


def test_while_its_producer_ends_it(world: World) -> None:
    who = world.open(T0, timeout_ms=9_000)
    world.prompt = False
    asked = world.end(who)
    world.advance(10_000)
    world.settle()
    assert asked.error is NONE
    assert world.state() == "CompleteCommit"


def test_a_transaction_that_was_open_before_a_restart(world: World) -> None:
    world.open(T0, timeout_ms=25_000)
    world.advance(20_000)
    world.restart()
    world.advance(10_000)
    assert world.state() == "CompleteAbort"


def test_an_unused_id_is_forgotten() -> None:
    world = World(transactional_id_expiration_ms=7 * DAY_MS)
    world.producer("empty")
    world.end(world.open(T0, name="committed"), name="committed")
    world.advance(DAY_MS)
    world.producer("young")
    world.open(T0, name="open", timeout_ms=900_000)
    world.prompt = False
    world.advance(6 * DAY_MS + 3_600_000)
    assert sum(record.value is None for append in world.appends for record in append.records) == 2
    assert world.init("empty").error is E.CONCURRENT_TRANSACTIONS, "the tombstone is on its way"
    world.settle()
    assert world.state("empty") == world.state("committed") == "TRANSACTIONAL_ID_NOT_FOUND"
    assert (world.state("young"), world.state("open")) == ("Empty", "CompleteAbort")
    world.restart()
    assert world.state("empty") == "TRANSACTIONAL_ID_NOT_FOUND"
    world.prompt = True
    assert world.init("empty").identity[2] == 0


def test_tombstones_that_cannot_be_logged() -> None:
    world = World(transactional_id_expiration_ms=DAY_MS)
    who = world.producer()
    world.prompt = False
    world.advance(DAY_MS + 3_600_000)
    world.append(E.COORDINATOR_NOT_AVAILABLE)
    assert world.state() == "Empty"
    world.prompt = True
    assert world.add(who, T0).codes == [NONE]


def test_many_ids_go_in_several_batches() -> None:
    world = World(transactional_id_expiration_ms=DAY_MS, tombstone_batch_bytes=100)
    for number in range(60):
        world.producer(f"id-{number:03}")
    world.prompt = False
    world.advance(DAY_MS + 3_600_000)
    assert len(world.appends) >= 4
    assert all(len(append.records) <= 17 for append in world.appends)
    world.settle()
    assert world.list().transaction_states == []
