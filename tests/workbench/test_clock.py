"""The virtual clock over a loop whose time a test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.workbench.clock import VirtualClock

DAY_MS = 86_400_000


class Handle:
    def __init__(self, at_s: float, call: Callable[[], None]) -> None:
        self.at_s, self.call, self.is_cancelled = at_s, call, False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """Time, and calls that come when it is moved."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.handles: list[Handle] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, callback: Callable[..., None], *given: Any) -> Handle:
        handle = Handle(self.now_s + delay_s, lambda: callback(*given))
        self.handles.append(handle)
        return handle

    def call_soon(self, callback: Callable[..., None], *given: Any) -> Handle:
        return self.call_later(0, callback, *given)

    def pass_ms(self, ms: float) -> None:
        end_s = self.now_s + ms / 1000
        while due := sorted((one for one in self.handles if one.at_s <= end_s), key=lambda one: one.at_s):
            handle = due[0]
            self.handles.remove(handle)
            if not handle.is_cancelled:
                self.now_s = max(self.now_s, handle.at_s)
                handle.call()
        self.now_s = end_s

    @property
    def waiting(self) -> int:
        return sum(not one.is_cancelled for one in self.handles)


class Stage:
    """A clock, and the times at which its timers rang."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.clock = VirtualClock(self.loop)  # type: ignore[arg-type]
        self.began_ms = self.clock.monotonic_ms()
        self.rang: list[tuple[str, int]] = []

    @property
    def now_ms(self) -> int:
        """Since the beginning."""
        return self.clock.monotonic_ms() - self.began_ms

    def timer(self, name: str, at_ms: int) -> Any:
        return self.clock.call_at(self.began_ms + at_ms, lambda: self.rang.append((name, self.now_ms)))

    def every(self, period_ms: int) -> None:
        def ring() -> None:
            self.rang.append(("again", self.now_ms))
            self.clock.call_at(self.clock.monotonic_ms() + period_ms, ring)

        self.clock.call_at(self.clock.monotonic_ms() + period_ms, ring)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.rang]


def test_it_begins_as_the_real_one() -> None:
    stage = Stage()
    clock = stage.clock
    assert clock.monotonic_ms() == clock.real.monotonic_ms() == 1_000_000
    assert abs(clock.wall_ms() - clock.real.wall_ms()) < 5_000
    stage.timer("a", 20)
    stage.loop.pass_ms(19)
    assert not stage.rang
    stage.loop.pass_ms(2)
    assert stage.rang == [("a", 21)]
    assert clock.real.real is clock.real


def test_a_frozen_clock_stands_and_rings_nothing() -> None:
    stage = Stage()
    stage.timer("a", 50)
    stage.loop.pass_ms(10)
    wall_ms = stage.clock.wall_ms()
    stage.clock.go(0)
    stage.timer("b", 20)
    stage.loop.pass_ms(DAY_MS)
    assert (stage.now_ms, stage.clock.wall_ms(), stage.rang) == (10, wall_ms, [])
    stage.clock.go(1)
    stage.loop.pass_ms(11)
    assert stage.names == ["b"]
    stage.loop.pass_ms(30)
    assert stage.names == ["b", "a"]
    assert stage.clock.wall_ms() - wall_ms == stage.now_ms - 10  # both move together


def test_what_is_due_rings_on_a_frozen_clock() -> None:
    stage = Stage()
    stage.clock.go(0)
    stage.timer("now", 0)
    stage.loop.pass_ms(0)
    assert stage.rang == [("now", 0)]


def test_a_pace_counts_from_where_it_was_set() -> None:
    stage = Stage()
    stage.timer("a", 60_010)
    stage.loop.pass_ms(10)
    stage.clock.go(60)
    stage.loop.pass_ms(1_000)
    assert stage.now_ms == 60_010
    assert not stage.rang
    stage.loop.pass_ms(1)
    assert stage.names == ["a"]
    stage.clock.go(0.5)
    before_ms = stage.now_ms
    stage.loop.pass_ms(1_000)
    assert stage.now_ms == before_ms + 500


def test_a_clock_that_is_kept_still_moves_and_rings_when_it_is_told_to() -> None:
    stage = Stage()
    stage.timer("far", 7 * DAY_MS)
    stage.timer("later", 3_000)
    stage.timer("earlier", 2_000)
    stage.every(1_000)
    with stage.clock.still():
        stage.loop.pass_ms(5_000)
        assert (stage.now_ms, stage.rang) == (0, [])
        stage.clock.move_to(stage.began_ms + DAY_MS)
        stage.loop.pass_ms(10)
        assert not stage.rang
        stage.clock.ring()
        stage.loop.pass_ms(0)
        assert stage.rang == [("again", DAY_MS), ("earlier", DAY_MS), ("later", DAY_MS)]
        stage.loop.pass_ms(2_000)
    assert stage.now_ms == DAY_MS
    stage.loop.pass_ms(1_001)
    assert stage.rang[3:] == [("again", DAY_MS + 1_001)]


def test_a_pace_that_is_set_meanwhile_is_for_afterwards() -> None:
    stage = Stage()
    with stage.clock.still():
        stage.clock.go(0)
        stage.clock.move_to(stage.began_ms + 100)
    stage.loop.pass_ms(50)
    assert stage.now_ms == 100
    with stage.clock.still():
        stage.clock.go(10)
        stage.loop.pass_ms(50)
        assert stage.now_ms == 100
    stage.loop.pass_ms(50)
    assert stage.now_ms == 600


def test_timers_are_taken_back() -> None:
    stage = Stage()
    timer = stage.timer("a", 10)
    timer.cancel()
    other = stage.timer("b", 10)
    stage.loop.pass_ms(20)
    assert stage.names == ["b"]
    other.cancel()  # it has rung
    for _ in range(100):
        stage.timer("c", 1_000).cancel()
        stage.clock.go(2)
    assert stage.loop.waiting == 0


def test_a_timer_of_the_loop_that_comes_early_waits_on() -> None:
    stage = Stage()
    stage.timer("a", 100)
    (handle,) = stage.loop.handles
    stage.loop.handles.clear()
    stage.loop.now_s += 0.099
    handle.call()
    assert not stage.rang
    stage.loop.pass_ms(2)
    assert stage.names == ["a"]
