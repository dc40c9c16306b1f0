"""Beats, the lease that they give, and who seems to be dead."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.cluster.membership import (
    DRAIN,
    Beat,
    Heard,
    Membership,
    NodeRow,
    Presumed,
    Read,
    Resume,
    Server,
    Superseded,
    Suspend,
)
from ottla.broker.cluster.view import NodeState

FIRST_LIFE, SECOND_LIFE = Server(1, 0), Server(1, 9)


class Alone:
    """A node's membership, driven by hand. The other node is 2, in its incarnation 20."""

    def __init__(self) -> None:
        self.machine = Membership(1, 10)
        self.beats = 0
        self.state = NodeState.UP
        self.intent = 0
        self.fingerprint = (3, 0, 0)
        self.server = FIRST_LIFE
        self.held: frozenset[int] | None = None
        self.is_alone = False

    def taken(self) -> list[Any]:
        effects, self.machine.effects = self.machine.effects, []
        return effects

    def beat_at(self, sent_ms: int, answered_ms: int, other: int = 0, *, is_mine: bool = True) -> list[Any]:
        """Let a beat be sent and answered: what came of it but for the beat."""
        self.machine.tick(sent_ms)
        effects = self.taken()
        (beat,) = [effect for effect in effects if isinstance(effect, Beat)]
        nodes = (NodeRow(1, 10, NodeState.UP, 0, self.intent), NodeRow(2, 20, self.state, other))
        heard = Heard(is_mine, nodes[:1] if self.is_alone else nodes, 1, self.fingerprint, self.server, self.held)
        self.machine.answered(answered_ms, beat.number, heard)
        effects += self.taken()
        self.machine.effects += [effect for effect in effects if isinstance(effect, Beat) and effect is not beat]
        return [effect for effect in effects if not isinstance(effect, Beat)]

    def joined(self) -> Alone:
        self.machine.connected(0)
        for effect in self.beat_at(0, 10):
            if isinstance(effect, Read):
                self.machine.has_read(effect.number)
        return self

    def beats_until(self, end_ms: int, *, begin_ms: int = 500, other: int = 0) -> None:
        for at_ms in range(begin_ms, end_ms + 1, 500):
            self.beat_at(at_ms, at_ms + 10, other)


@pytest.fixture
def node() -> Alone:
    return Alone().joined()


def test_it_may_answer_once_it_has_beaten_and_read() -> None:
    alone = Alone()
    alone.machine.connected(0)
    assert not alone.machine.may_answer(0)
    assert alone.beat_at(0, 10) == [Read(1), Resume()]
    assert not alone.machine.may_answer(10)
    alone.machine.has_read(1)
    assert alone.machine.may_answer(10)


def test_a_lease_lasts_from_the_moment_at_which_the_beat_was_sent(node: Alone) -> None:
    node.beat_at(500, 1_900)
    assert node.machine.may_answer(3_499)
    assert not node.machine.may_answer(3_500)
    assert node.machine.next_ms == 3_500
    node.machine.tick(3_500)
    assert Suspend() in node.taken()


def test_beats_are_sent_every_half_second_and_one_at_a_time(node: Alone) -> None:
    assert node.machine.next_ms == 500
    node.machine.tick(499)
    assert node.taken() == []
    node.machine.tick(500)
    assert node.taken() == [Beat(2)]
    node.machine.tick(1_000)
    node.machine.nudged(1_000)
    assert node.taken() == []


def test_a_nudge_brings_the_next_beat_forward(node: Alone) -> None:
    node.machine.nudged(100)
    assert node.taken() == [Beat(2)]
    node.machine.nudged(110)
    node.machine.answered(120, 2, Heard(True, (), 1, (3, 0, 0), FIRST_LIFE))
    assert node.taken() == [Beat(3)], "what was said while it was under way may be newer than its answer"


def test_an_answer_that_comes_after_the_lease_gives_none_for_the_past(node: Alone) -> None:
    node.machine.tick(500)
    node.taken()
    node.machine.answered(3_600, 2, Heard(True, (), 1, (3, 0, 0), FIRST_LIFE))
    assert node.taken() == [Suspend(), Read(2), Beat(3)]
    assert not node.machine.may_answer(3_600)


def test_what_is_led_is_in_doubt_after_the_connection_was_lost(node: Alone) -> None:
    node.machine.lost(100)
    assert not node.machine.may_answer(100)
    node.machine.has_read(1)
    assert not node.machine.may_answer(100), "that reading began before"
    node.machine.connected(200)
    assert node.beat_at(200, 210) == [Read(2)]
    node.machine.has_read(2)
    assert node.machine.may_answer(210)


def test_an_answer_of_a_lost_connection_is_not_heard(node: Alone) -> None:
    node.machine.tick(500)
    node.machine.lost(510)
    node.taken()
    node.machine.answered(520, 2, Heard(True, (), 9, (9, 9), FIRST_LIFE))
    assert node.taken() == []


def test_it_reads_when_something_has_changed_and_only_then(node: Alone) -> None:
    assert node.beat_at(500, 510) == []
    node.fingerprint = (3, 1, 0)
    assert node.beat_at(1_000, 1_010) == [Read(2)]
    assert node.beat_at(1_500, 1_510) == []


def test_it_ends_when_somebody_else_has_its_id(node: Alone) -> None:
    assert node.beat_at(500, 510, is_mine=False) == [Superseded()]
    assert not node.machine.may_answer(510)


def test_who_does_not_beat_for_more_than_a_lease_seems_dead(node: Alone) -> None:
    node.beats_until(3_500)
    assert node.machine.presumed == {}
    node.beat_at(4_000, 4_010)
    assert node.machine.presumed == {2: Presumed(20, 0, "it does not beat")}
    assert not node.machine.view.nodes[2].is_up
    node.beat_at(4_500, 4_510, other=1)
    assert node.machine.presumed == {} and node.machine.view.nodes[2].is_up


def test_time_in_which_nothing_was_heard_says_nothing_of_others(node: Alone) -> None:
    node.beats_until(3_500)
    node.beat_at(4_000, 4_700)
    node.beats_until(8_000, begin_ms=5_000)
    assert node.machine.presumed == {}
    node.beat_at(8_500, 8_510)
    assert 2 in node.machine.presumed


def test_a_supervisor_that_saw_it_end_is_believed(node: Alone) -> None:
    node.state = NodeState.DOWN
    node.beat_at(500, 510)
    assert node.machine.presumed == {2: Presumed(20, 0, "it was seen to end")}
    node.is_alone = True
    node.beat_at(1_000, 1_010)
    assert node.machine.presumed == {}, "a node that was removed is nobody whose last beat a claim could compare"


def test_a_connection_that_closes_is_a_hint(node: Alone) -> None:
    node.held = frozenset((1, 2))
    node.beat_at(500, 510)
    node.held = frozenset((1,))
    node.beat_at(1_000, 1_010)
    assert node.machine.presumed == {2: Presumed(20, 0, "its connection has closed")}


def test_a_node_may_have_beaten_once_more_before_its_connection_closed(node: Alone) -> None:
    node.held = frozenset((1, 2))
    node.beat_at(500, 510)
    node.held = frozenset((1,))
    node.beat_at(1_000, 1_010, other=1)
    assert node.machine.presumed == {2: Presumed(20, 1, "its connection has closed")}


def test_a_node_that_beats_on_without_its_connection_is_alive(node: Alone) -> None:
    node.held = frozenset((1, 2))
    node.beat_at(500, 510)
    node.held = frozenset((1,))
    node.beat_at(1_000, 1_010)
    node.beat_at(1_500, 1_510, other=1)
    assert node.machine.presumed == {}


def test_a_connection_that_was_never_seen_open_is_none(node: Alone) -> None:
    node.held = frozenset((1,))
    node.beat_at(500, 510)
    assert node.machine.presumed == {}


def test_a_restart_of_the_database_closes_all_connections_and_says_nothing(node: Alone) -> None:
    node.held = frozenset((1, 2))
    node.beat_at(500, 510)
    node.held, node.server = frozenset((1,)), SECOND_LIFE
    node.beat_at(1_000, 1_010)
    assert node.machine.presumed == {}


def test_an_operator_lets_it_drain(node: Alone) -> None:
    node.intent = DRAIN
    node.beat_at(500, 510)
    assert node.machine.is_draining
    assert node.machine.view.nodes[1].state is NodeState.DRAINING


def test_the_set_of_nodes_settles(node: Alone) -> None:
    assert not node.machine.is_settled(10_009)
    assert node.machine.is_settled(10_010)
    node.beats_until(4_000)
    assert not node.machine.is_settled(10_010), "one seems to be dead since"
