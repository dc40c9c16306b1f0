"""EndTxn, markers and completion, before KIP-890 and with it."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import ErrorCode
from tests.core.transactions.txn_world import NONE, OFFSETS, T0, T1, T2, World, markers_of

E = ErrorCode
LAST = 32_766
OUTCOMES = pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
V1 = pytest.mark.parametrize("version", range(5))


@pytest.fixture
def world() -> World:
    return World()


def word(commit: bool) -> str:
    return "Commit" if commit else "Abort"


@OUTCOMES
@V1
def test_step_by_step(commit: bool, version: int) -> None:
    world = World()
    who = world.open(T1, T0)
    world.add_offsets(who)
    world.prompt = False
    asked = world.end(who, commit, version=version)
    assert asked.answer is None
    assert not world.markers, "the decision is not durable yet"
    world.append()
    assert asked.error is NONE
    assert world.state() == f"Prepare{word(commit)}"
    assert [marker.tp for marker in world.markers] == [OFFSETS, T0, T1]
    world.mark(at=1)
    world.mark(at=1)
    assert [topic.topic for topic in world.describe().topics] == [OFFSETS.topic], "what is left"
    assert not world.appends
    world.mark()
    assert world.state() == f"Prepare{word(commit)}"
    world.append()
    assert world.state() == f"Complete{word(commit)}"
    assert set(markers_of(world)) == {(tp, 101, 0, commit) for tp in (T0, T1, OFFSETS)}
    assert {effect.marker.transaction_version for effect in world.written} == {0}
    assert {effect.marker.coordinator_epoch for effect in world.written} == {5}


@OUTCOMES
def test_the_same_request_again(world: World, commit: bool) -> None:
    who = world.open()
    assert world.end(who, commit).error is NONE
    assert world.end(who, commit).error is NONE
    assert world.end(who, not commit).error is E.INVALID_TXN_STATE
    assert len(world.written) == 1


@OUTCOMES
def test_nothing_was_begun(world: World, commit: bool) -> None:
    assert world.end(world.producer(), commit).error is E.INVALID_TXN_STATE


@OUTCOMES
def test_while_it_is_under_way(world: World, commit: bool) -> None:
    who = world.open()
    world.prompt = False
    world.end(who, commit)
    for step in (world.append, world.mark, world.append):
        assert world.end(who, commit).error is E.CONCURRENT_TRANSACTIONS
        assert world.end(who, not commit).error is E.CONCURRENT_TRANSACTIONS
        step()
    assert world.end(who, commit).error is NONE


@V1
@pytest.mark.parametrize(
    ("name", "who", "error"),
    [
        ("", (101, 0), E.INVALID_REQUEST),
        ("y", (101, 0), E.INVALID_PRODUCER_ID_MAPPING),
        ("x", (102, 0), E.INVALID_PRODUCER_ID_MAPPING),
        ("x", (101, 1), E.PRODUCER_FENCED),
        ("x", (101, 3), E.PRODUCER_FENCED),
    ],
)
def test_who_may_not(world: World, name: str, who: tuple[int, int], error: ErrorCode, version: int) -> None:
    world.producer()
    world.producer()
    world.open()
    if error is E.PRODUCER_FENCED and version < 2:
        error = E.INVALID_PRODUCER_EPOCH
    assert world.end(who, name=name, version=version).identity == (error, -1, -1)
    assert world.state() == "Ongoing"


@OUTCOMES
def test_a_decision_that_cannot_be_logged(world: World, commit: bool) -> None:
    who = world.open()
    world.prompt = False
    asked = world.end(who, commit)
    world.append(E.COORDINATOR_NOT_AVAILABLE)
    assert asked.error is E.COORDINATOR_NOT_AVAILABLE
    assert (world.state(), world.markers) == ("Ongoing", [])
    world.prompt = True
    assert world.end(who, commit).error is NONE


@pytest.mark.parametrize("version", [4, 5])
def test_a_marker_is_tried_again_until_it_is_written(world: World, version: int) -> None:
    who = world.open(T0, T1)
    world.prompt = False
    world.end(who, version=version)
    world.append()
    waits = []
    for _ in range(9):
        world.mark(E.KAFKA_STORAGE_ERROR)
        before = world.now_ms
        if world.markers and world.markers[0].tp == T1:
            world.mark()
        while not world.markers:
            world.advance(50)
        waits.append(world.now_ms - before)
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (100, 10_000)
    world.mark()
    world.append()
    assert world.state() == "CompleteCommit"
    assert sorted(marker.tp for marker in world.written) == [T0, T1]


def test_a_partition_that_is_gone_needs_no_marker(world: World) -> None:
    who = world.open(T0, T1)
    world.prompt = False
    world.end(who)
    world.append()
    world.mark(E.UNKNOWN_TOPIC_OR_PARTITION)
    world.settle()
    assert world.state() == "CompleteCommit"
    assert [marker.tp for marker in world.written] == [T1]


def test_a_completion_is_tried_again_until_it_is_logged(world: World) -> None:
    who = world.open()
    world.prompt = False
    world.end(who)
    world.append()
    world.mark()
    for _ in range(3):
        world.append(E.COORDINATOR_NOT_AVAILABLE)
        assert world.init().error is E.CONCURRENT_TRANSACTIONS
        while not world.appends:
            world.advance(50)
    world.append()
    assert world.state() == "CompleteCommit"
    assert len(world.written) == 1
    world.advance(10_000)
    assert world.coordinator.next_deadline_ms() == 1_000 + 3_600_000, "nothing is left to be retried"


def test_an_old_outcome_of_a_marker_is_ignored(world: World) -> None:
    who = world.open(T0)
    world.prompt = False
    world.end(who)
    world.append()
    first = world.markers[0]
    world.mark(E.KAFKA_STORAGE_ERROR)
    world.coordinator.marker_written(first.token, NONE, *world.now)
    world.take()
    assert not world.appends
    world.advance(100)
    world.settle()
    assert world.state() == "CompleteCommit"


def test_the_next_transaction(world: World) -> None:
    who = world.open(T0)
    world.end(who)
    assert world.add(who, T1).codes == [NONE]
    assert world.snapshot().partitions == {T1}
    world.end(who, commit=False)
    assert markers_of(world) == [(T0, *who, True), (T1, *who, False)]


def test_the_first_one_without_partitions(world: World) -> None:
    who = world.producer()
    world.verify(who, adds=True)
    assert world.end(who).error is NONE
    assert (world.state(), world.written) == ("CompleteCommit", [])


class TestVersion2:
    """KIP-890: the epoch rises at each end."""

    @OUTCOMES
    def test_step_by_step(self, commit: bool) -> None:
        world = World()
        who = world.open(T0, version=4)
        world.prompt = False
        asked = world.end(who, commit, version=5)
        assert asked.answer is None
        world.append()
        assert asked.identity == (NONE, 101, 1)
        assert world.state() == f"Prepare{word(commit)}"
        world.settle()
        assert markers_of(world) == [(T0, 101, 1, commit)]
        assert world.written[0].marker.transaction_version == 2
        assert world.state() == f"Complete{word(commit)}"
        world.prompt = True
        assert world.verify(who, T0, adds=True).answer == {T0: E.PRODUCER_FENCED}
        assert world.verify((101, 1), T0, adds=True).answer == {T0: NONE}

    @OUTCOMES
    def test_the_same_request_again(self, world: World, commit: bool) -> None:
        who = world.open(version=4)
        assert world.end(who, commit, version=5).identity == (NONE, 101, 1)
        assert world.end(who, commit, version=5).identity == (NONE, 101, 1)
        assert world.end(who, not commit, version=5).error is E.INVALID_TXN_STATE
        assert len(world.written) == 1

    @OUTCOMES
    def test_while_it_is_under_way(self, world: World, commit: bool) -> None:
        who = world.open(version=4)
        world.prompt = False
        world.end(who, commit, version=5)
        for step in (world.append, world.mark, world.append):
            assert world.end(who, commit, version=5).error is E.CONCURRENT_TRANSACTIONS
            assert world.end((77, 7), commit, version=5).error is E.CONCURRENT_TRANSACTIONS, "which is looked at first"
            step()
        assert world.end(who, commit, version=5).identity == (NONE, 101, 1)

    @pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort"])
    def test_an_abort_of_nothing(self, world: World, state: str) -> None:
        who = world.producer() if state == "Empty" else world.open(version=4)
        if state != "Empty":
            who = world.end(who, state == "CompleteCommit", version=5).identity[1:]
        world.written.clear()
        world.advance(5)
        assert world.end(who, commit=False, version=5).identity == (NONE, 101, who[1] + 1)
        assert (world.state(), world.written) == ("CompleteAbort", [])
        assert world.describe().transaction_start_time_ms == world.wall_ms
        assert world.end((101, who[1] + 1), commit=False, version=5).identity == (NONE, 101, who[1] + 2)

    @pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort"])
    def test_nothing_cannot_be_committed(self, world: World, state: str) -> None:
        who = world.producer() if state == "Empty" else world.open(version=4)
        if state != "Empty":
            who = world.end(who, state == "CompleteCommit", version=5).identity[1:]
        assert world.end(who, commit=True, version=5).error is E.INVALID_TXN_STATE

    @OUTCOMES
    def test_an_older_epoch(self, world: World, commit: bool) -> None:
        world.producer()
        world.open(version=4)
        assert world.end((101, 0), commit, version=5).error is E.PRODUCER_FENCED
        assert world.end((101, 2), commit, version=5).error is E.PRODUCER_FENCED
        assert world.end((102, 1), commit, version=5).error is E.INVALID_PRODUCER_ID_MAPPING
        assert world.end((101, 1), commit, name="", version=5).error is E.INVALID_REQUEST
        assert world.end((101, 1), commit, name="y", version=5).error is E.INVALID_PRODUCER_ID_MAPPING

    @OUTCOMES
    def test_an_epoch_before_in_empty(self, world: World, commit: bool) -> None:
        world.producer()
        world.producer()
        assert world.end((101, 0), commit, version=5).error is E.PRODUCER_FENCED

    @OUTCOMES
    def test_the_last_epoch_changes_over_to_a_new_producer_id(self, world: World, commit: bool) -> None:
        who = world.at_epoch(LAST)
        world.add(who, T0, version=4)
        world.prompt = False
        asked = world.end(who, commit, version=5)
        world.append()
        assert asked.identity == (NONE, 102, 0)
        row = world.describe()
        assert (row.producer_id, row.producer_epoch) == (101, LAST + 1), "until the markers are written"
        world.settle()
        assert markers_of(world) == [(T0, 101, LAST + 1, commit)]
        world.prompt = True
        assert world.snapshot().producer_id == 102
        assert world.end(who, commit, version=5).identity == (NONE, 102, 0), "the same request again"
        assert world.end(who, not commit, version=5).error is E.INVALID_TXN_STATE
        assert world.add((102, 0), T1, version=4).codes == [NONE]
        assert world.end(who, commit, version=5).error is E.INVALID_PRODUCER_ID_MAPPING

    def test_no_producer_id_at_hand_to_change_over_to(self, world: World) -> None:
        who = world.at_epoch(LAST)
        world.add(who, T0, version=4)
        world.ids_left = 0
        assert world.end(who, version=5).error is E.COORDINATOR_LOAD_IN_PROGRESS
        world.ids_left = 1
        assert world.end(who, version=5).identity == (NONE, 102, 0)

    def test_what_is_decided_survives_the_change_over(self, world: World) -> None:
        who = world.at_epoch(LAST)
        world.add(who, T0, version=4)
        world.prompt = False
        world.end(who, version=5)
        world.append()
        world.restart()
        world.settle()
        assert (world.snapshot().producer_id, world.snapshot().producer_epoch) == (102, 0)
        assert markers_of(world) == [(T0, 101, LAST + 1, True)]

    def test_an_old_client_after_a_new_one(self, world: World) -> None:
        who = world.open(version=4)
        who = world.end(who, version=5).identity[1:]
        assert world.end(who, commit=True, version=4).error is NONE, "as before KIP-890: it was committed"
        assert world.add(who, T2).codes == [NONE]
        assert world.end(who, version=4).error is NONE
        assert world.snapshot().producer_epoch == who[1]


class TestRestart:
    @OUTCOMES
    @pytest.mark.parametrize("version", [4, 5])
    def test_a_decision_is_carried_out(self, commit: bool, version: int) -> None:
        world = World()
        who = world.open(T0, T1, version=4 if version == 5 else 3)
        world.prompt = False
        world.end(who, commit, version=version)
        world.append()
        world.mark()
        world.written.clear()
        world.restart()
        assert world.init().error is E.CONCURRENT_TRANSACTIONS
        world.settle()
        epoch = who[1] + (version == 5)
        assert markers_of(world) == [(T0, 101, epoch, commit), (T1, 101, epoch, commit)]
        assert world.state() == f"Complete{word(commit)}"

    def test_a_decision_that_was_not_durable_was_not_made(self, world: World) -> None:
        who = world.open(T0)
        world.prompt = False
        world.end(who)
        world.restart()
        world.settle()
        assert (world.state(), world.written) == ("Ongoing", [])
        world.prompt = True
        assert world.end(who, commit=False).error is NONE

    def test_an_open_transaction_goes_on(self, world: World) -> None:
        who = world.open(T0)
        world.restart()
        assert world.add(who, T1).codes == [NONE]
        assert world.end(who).error is NONE
        assert [marker.tp for marker in world.written] == [T0, T1]

    def test_a_partition_given_up(self, world: World) -> None:
        who = world.open(T0)
        idle = world.producer("idle")
        world.prompt = False
        ended, started = world.end(who), world.init("idle")
        for partition in range(3):
            world.coordinator.unload(partition, *world.now)
        world.take()
        assert (ended.error, started.error) == (E.NOT_COORDINATOR, E.NOT_COORDINATOR)
        for append in world.appends:
            world.coordinator.appended(append.token, NONE, *world.now)
        assert world.coordinator.take_effects() == []
        assert world.coordinator.next_deadline_ms() in (None, 1_000 + 10_000)
        assert world.add(idle, name="idle").codes == [E.NOT_COORDINATOR]
        assert world.init().error is E.NOT_COORDINATOR
        assert world.state() == "NOT_COORDINATOR"
