"""Very many requests come in one moment: they share the turns of the event loop with everybody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.context import RequestContext
from ottla.broker.core.fetches import FetchPurgatory
from ottla.broker.runtime.host import Host
from ottla.broker.runtime.turns import ENTRIES_MS
from tests.shell.host import Clock, Log


class Line:
    """A connection that keeps what its requests are answered with."""

    def __init__(self, said: list[Any]) -> None:
        self.said = said

    def finish(self, ctx: RequestContext, frame: Any) -> None:
        self.said.append(frame)


class World:
    """Requests of which each takes a millisecond; ``turn`` is a turn of the event loop."""

    def __init__(self, *, defers: bool = True) -> None:
        self.clock, self.log = Clock(), Log()
        self.due: list[Callable[[], None]] = []
        self.said: list[Any] = []
        self.host = Host(
            self.clock,
            FetchPurgatory(),
            partition=lambda tp: None,
            max_batch_bytes=1 << 20,
            report=self.log,
            defer=self.due.append if defers else None,
        )

    def turn(self) -> None:
        due, self.due[:] = list(self.due), []
        for function in due:
            function()

    def turns(self) -> int:
        """Turns until nothing is left."""
        count = 0
        while self.due:
            assert len(self.due) == 1, "all that wait do so together"
            self.turn()
            count += 1
        return count

    def come(self, *names: Any) -> None:
        """Requests come, to be answered with their names."""
        for name in names:
            ctx = RequestContext(Line(self.said), 1, 1, "c", lambda response, _: response)  # type: ignore[arg-type]
            answer = self.host.turns.serve(lambda name=name: self.serve(name), ctx, lambda: "failed")
            if answer is not None:
                self.said.append(answer)

    def serve(self, name: Any) -> Any:
        self.clock.now_ms += 1
        if name == "bug":
            raise ZeroDivisionError
        return None if name == "parked" else name


@pytest.fixture
def world() -> World:
    return World()


def test_they_are_served_a_slice_a_turn_in_their_order(world: World) -> None:
    world.come(*range(3 * ENTRIES_MS + 1))
    assert world.said == list(range(ENTRIES_MS))
    world.turn()
    assert world.said == list(range(2 * ENTRIES_MS))
    world.turns()
    assert world.said == list(range(3 * ENTRIES_MS + 1))


def test_who_comes_later_is_served_after_those_that_wait(world: World) -> None:
    world.come(*range(ENTRIES_MS + 1))
    world.turn()
    world.come("later")
    assert world.said[-1] == "later"
    world.come(*range(ENTRIES_MS), "last")
    assert world.said[-1] != "last"
    world.turns()
    assert world.said[-1] == "last"


def test_few_are_served_at_once(world: World) -> None:
    world.come(*range(ENTRIES_MS))
    assert world.said == list(range(ENTRIES_MS))
    assert world.turns() == 1
    world.come("another")
    assert world.said[-1] == "another"


def test_one_that_is_parked_is_not_answered(world: World) -> None:
    world.come(*range(ENTRIES_MS), "parked", "next")
    world.turns()
    assert world.said == [*range(ENTRIES_MS), "next"]


def test_a_bug_in_one_keeps_nobody_from_an_answer(world: World) -> None:
    world.come(*range(ENTRIES_MS), "bug", "next")
    world.turns()
    assert world.said == [*range(ENTRIES_MS), "failed", "next"]
    assert world.log.events == ["a request failed that waited for its turn"]


def test_a_bug_in_one_that_does_not_wait_is_for_who_asked(world: World) -> None:
    with pytest.raises(ZeroDivisionError):
        world.come("bug")


def test_while_some_wait_the_broker_is_not_at_rest(world: World) -> None:
    world.come(*range(ENTRIES_MS))
    assert world.host.is_at_rest
    world.come("waits")
    assert not world.host.is_at_rest
    world.turns()
    assert world.host.is_at_rest


def test_a_broker_that_stops_answers_all(world: World) -> None:
    world.come(*range(2 * ENTRIES_MS))
    world.host.stop()
    assert world.said == list(range(2 * ENTRIES_MS))
    assert world.turns() == 1
    assert len(world.said) == 2 * ENTRIES_MS


def test_one_that_is_killed_answers_nobody_more(world: World) -> None:
    world.come(*range(2 * ENTRIES_MS))
    world.host.silence()
    world.turns()
    assert world.said == list(range(ENTRIES_MS))


def test_without_a_loop_all_are_served_at_once() -> None:
    world = World(defers=False)
    world.come(*range(3 * ENTRIES_MS))
    assert world.said == list(range(3 * ENTRIES_MS))
