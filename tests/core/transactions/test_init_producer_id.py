"""InitProducerId with a transactional id."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from tests.core.transactions.txn_world import NONE, T0, T1, World, markers_of

E = ErrorCode
LAST = 32_766


@pytest.fixture
def world() -> World:
    return World()


def test_a_new_id_begins_at_epoch_0(world: World) -> None:
    assert world.init().identity == (NONE, 101, 0)
    assert world.init("y").identity == (NONE, 102, 0)
    assert world.state() == "Empty"


def test_it_is_answered_when_it_is_durable() -> None:
    world = World(prompt=False)
    asked = world.init()
    assert asked.answer is None
    world.append()
    assert asked.identity == (NONE, 101, 0)


def test_each_time_the_epoch_rises(world: World) -> None:
    assert [world.init().identity for _ in range(3)] == [(NONE, 101, 0), (NONE, 101, 1), (NONE, 101, 2)]


def test_two_at_a_time() -> None:
    world = World(prompt=False)
    first, second = world.init(), world.init()
    assert second.error is E.CONCURRENT_TRANSACTIONS
    world.append()
    assert first.identity == (NONE, 101, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_range(world: World, timeout_ms: int) -> None:
    assert world.init(timeout_ms=timeout_ms).identity == (E.INVALID_TRANSACTION_TIMEOUT, -1, -1)
    assert world.state() == "TRANSACTIONAL_ID_NOT_FOUND"


def test_the_longest_timeout(world: World) -> None:
    assert world.init(timeout_ms=900_000).error is NONE
    assert world.describe().transaction_timeout_ms == 900_000


def test_the_timeout_is_the_last_one_asked_for(world: World) -> None:
    world.init(timeout_ms=1_000)
    world.init(timeout_ms=2_000)
    assert world.describe().transaction_timeout_ms == 2_000


def test_no_producer_id_at_hand(world: World) -> None:
    world.ids_left = 0
    assert world.init().identity == (E.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
    assert world.state() == "TRANSACTIONAL_ID_NOT_FOUND"


def test_a_failed_append_leaves_the_id_as_it_was() -> None:
    world = World(prompt=False)
    asked = world.init()
    world.append(E.COORDINATOR_NOT_AVAILABLE)
    assert asked.identity == (E.COORDINATOR_NOT_AVAILABLE, -1, -1)
    again = world.init()
    world.append()
    assert again.identity == (NONE, 101, 0), "the id that was taken is used"


def test_an_open_transaction_is_aborted_first(world: World) -> None:
    old = world.open(T0, T1)
    world.prompt = False
    asked = world.init()
    assert asked.answer is None
    world.append()
    assert asked.identity == (E.CONCURRENT_TRANSACTIONS, -1, -1)
    assert world.state() == "PrepareAbort"
    assert world.init().error is E.CONCURRENT_TRANSACTIONS
    world.settle()
    assert markers_of(world) == [(T0, 101, 1, False), (T1, 101, 1, False)]
    world.prompt = True
    assert world.init().identity == (NONE, 101, 2)
    assert world.end(old).error is E.PRODUCER_FENCED


def test_a_fence_that_cannot_be_logged() -> None:
    world = World()
    who = world.open()
    world.prompt = False
    asked = world.init()
    world.append(E.COORDINATOR_NOT_AVAILABLE)
    assert asked.error is E.COORDINATOR_NOT_AVAILABLE
    assert world.state() == "Ongoing"
    world.prompt = True
    assert world.end(who).error is NONE, "nobody was told of a higher epoch"


def test_while_a_transaction_ends() -> None:
    world = World(prompt=False)
    world.prompt = True
    who = world.open()
    world.prompt = False
    world.end(who)
    assert world.init().error is E.CONCURRENT_TRANSACTIONS, "the decision is on its way"
    world.append()
    assert world.init().error is E.CONCURRENT_TRANSACTIONS, "the marker is"
    world.mark()
    assert world.init().error is E.CONCURRENT_TRANSACTIONS, "the completion is"
    world.append()
    again = world.init()
    world.append()
    assert again.identity == (NONE, 101, 1)


class TestExpectedEpoch:
    """KIP-360."""

    def test_the_producer_goes_on(self, world: World) -> None:
        who = world.producer()
        assert world.init(expected=who).identity == (NONE, 101, 1)

    def test_the_same_request_again(self, world: World) -> None:
        who = world.producer()
        assert world.init(expected=who).identity == (NONE, 101, 1)
        assert world.init(expected=who).identity == (NONE, 101, 1)
        assert world.init(expected=(101, 1)).identity == (NONE, 101, 2)

    def test_somebody_else_came(self, world: World) -> None:
        who = world.producer()
        world.producer()
        assert world.init(expected=who).identity == (E.PRODUCER_FENCED, -1, -1)

    def test_somebody_else_came_after_a_bump(self, world: World) -> None:
        who = world.producer()
        world.init(expected=who)
        world.producer()
        assert world.init(expected=who).error is E.PRODUCER_FENCED

    @pytest.mark.parametrize(("version", "error"), [(3, E.INVALID_PRODUCER_EPOCH), (4, E.PRODUCER_FENCED)])
    def test_older_clients_hear_another_code(self, world: World, version: int, error: ErrorCode) -> None:
        world.producer()
        assert world.init(expected=(7, 0), version=version).error is error

    def test_another_producer_id(self, world: World) -> None:
        world.producer()
        assert world.init(expected=(77, 0)).error is E.PRODUCER_FENCED

    def test_an_id_that_is_new(self, world: World) -> None:
        assert world.init(expected=(77, 3)).identity == (NONE, 101, 0)

    def test_an_open_transaction_of_somebody_else(self, world: World) -> None:
        who = world.open()
        assert world.init(expected=(77, 0)).error is E.PRODUCER_FENCED
        assert world.end(who).error is NONE

    def test_with_an_open_transaction_of_its_own(self, world: World) -> None:
        who = world.open()
        assert world.init(expected=who).error is E.CONCURRENT_TRANSACTIONS
        assert world.state() == "CompleteAbort"
        assert world.init(expected=(101, 1)).identity == (NONE, 101, 2)

    def test_the_last_epoch_does_not_outlive_the_process(self, world: World) -> None:
        who = world.producer()
        world.init(expected=who)
        world.restart()
        assert world.init(expected=who).error is E.PRODUCER_FENCED


class TestEpochsUsedUp:
    def test_a_new_producer_id(self, world: World) -> None:
        world.at_epoch(LAST - 1)
        assert world.init().identity == (NONE, 101, LAST)
        assert world.init().identity == (NONE, 102, 0)
        assert world.snapshot().previous_producer_id == 101

    def test_for_a_producer_that_goes_on(self, world: World) -> None:
        who = world.at_epoch(LAST)
        assert world.init(expected=who).identity == (NONE, 102, 0)
        assert world.init(expected=who).identity == (NONE, 102, 0), "again"
        assert world.init(expected=(101, 5)).error is E.PRODUCER_FENCED

    def test_an_older_epoch_does_not_get_one(self, world: World) -> None:
        world.at_epoch(LAST)
        assert world.init(expected=(101, LAST - 1)).error is E.PRODUCER_FENCED

    def test_without_one_at_hand(self, world: World) -> None:
        world.at_epoch(LAST)
        world.ids_left = 0
        assert world.init().error is E.COORDINATOR_LOAD_IN_PROGRESS
        world.ids_left = 1
        assert world.init().identity == (NONE, 102, 0)

    def test_a_fence_uses_the_epoch_that_was_kept_for_it(self, world: World) -> None:
        who = world.at_epoch(LAST)
        world.add(who)
        assert world.init().error is E.CONCURRENT_TRANSACTIONS
        assert markers_of(world) == [(T0, 101, LAST + 1, False)]
        assert world.init().identity == (NONE, 102, 1)
