"""What takes too long for one entry is done beside everything else, and what comes of it is what Kafka answers."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from ottla.broker.core.consumer_groups import assigning
from ottla.broker.core.consumer_groups.assigning import is_large
from ottla.broker.core.consumer_groups.assignors.spec import GroupSpec, MemberSpec
from ottla.broker.core.effects import Work
from ottla.protocol.errors import ErrorCode
from ottla.protocol.steps import finished
from tests.core.consumer_groups.modern_rendering import topic_id
from tests.core.consumer_groups.modern_scenario import ConsumerPlay, ConsumerWorld
from tests.core.world import Ctx


class ApartWorld(ConsumerWorld):
    """A world in which long work is done when the test says so."""

    def new_coordinator(self) -> Any:
        self.works: deque[Work] = deque()
        coordinator = super().new_coordinator()
        coordinator.works_apart = True
        return coordinator

    def carry_out(self, effect: Any) -> None:
        if isinstance(effect, Work):
            self.works.append(effect)
        else:
            super().carry_out(effect)

    def beat(self, ctx: Ctx) -> None:
        """While others wait there is a short way alone for who has nothing to do."""
        short = self.coordinator.beat(ctx.request, ctx, self.now_ms) if self.coordinator.assigning else None
        if short is None:
            super().beat(ctx)
        else:
            self.deliver(ctx, short)

    def work(self, *, fails: bool = False) -> None:
        """Do what has waited longest."""
        work = self.works.popleft()
        outcome = None if fails else finished(work.steps)
        self.coordinator.worked(work.token, outcome, self.now_ms, self.wall_ms)
        self.settle()


class ApartPlay(ConsumerPlay):
    """Its world is such a one."""

    world_class = ApartWorld

    def do_work(self, world: ApartWorld, words: list[str], options: dict[str, str]) -> None:
        """``work [fails]``: the oldest long work is done."""
        world.work(fails="fails" in words)


def answers(play: ConsumerPlay, step: str) -> list[str]:
    """What members hear in a step: ``A < 3 {t-0}``."""
    return [line.strip() for line in play.step(step) if " < " in line]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> ApartPlay:
    """Every assignment is a large one."""
    monkeypatch.setattr(assigning, "LARGE", 0)
    return ApartPlay()


RUN = [
    "beat A join",
    "beat B join",
    "beat A",
    "beat A owned=t-0",
    "beat B",
    "beat C join names=t",
    "beat A leave",
    "beat B",
    "beat B owned=none",
]


def test_it_ends_as_if_it_had_been_done_at_once(play: ApartPlay) -> None:
    """The same answers and records, a step later."""
    at_once = ConsumerPlay()
    for step in RUN:
        expected = at_once.step(step)
        shown = play.step(step)
        while play.world.works:
            assert not any(" < " in line for line in shown), "it is answered before its assignment is there"
            shown = play.step("work")
        assert shown == expected, step
    assert play.world.log == at_once.world.log


def test_heartbeats_of_the_group_wait_in_order(play: ApartPlay) -> None:
    assert answers(play, "beat A join") == answers(play, "beat B join") == answers(play, "beat A leave") == []
    assert len(play.world.works) == 1
    first = answers(play, "work")
    assert first == ["A < 2 {t-0 t-1}"]
    # B's assignment is another one; the leave of A waits behind it.
    assert len(play.world.works) == 1
    assert answers(play, "work") == ["B < 3 {}", "A < -1 - interval=0"]


def test_other_groups_do_not_wait(play: ApartPlay, monkeypatch: pytest.MonkeyPatch) -> None:
    play.step("beat A join")
    monkeypatch.setattr(assigning, "LARGE", 1_000)
    assert answers(play, "beat X join group=other") == ["X < 2 {t-0 t-1}"]
    assert answers(play, "work") == ["A < 2 {t-0 t-1}"]


def test_a_heartbeat_that_finds_nothing_to_do_does_not_wait(play: ApartPlay) -> None:
    for step in ("beat A join", "work", "beat A", "beat A"):
        play.step(step)
    play.step("beat B join")
    assert answers(play, "beat A") == ["A < 2 -"]
    assert answers(play, "work") == ["B < 3 {}"]


def test_what_others_change_meanwhile_is_seen(play: ApartPlay) -> None:
    play.step("beat A join")
    play.step("topic t 3")
    assert answers(play, "work") == []  # the assignment is not that of the topic as it is by now
    assert answers(play, "work") == ["A < 2 {t-0 t-1 t-2}"]


def test_who_never_rests_does_not_keep_heartbeats_waiting(play: ApartPlay) -> None:
    play.step("beat A join")
    for partitions in (3, 4):
        play.step(f"topic t {partitions}")
        assert answers(play, "work") == []
    play.step("topic t 5")
    assert answers(play, "work") == ["A < 2 {t-0 t-1 t-2 t-3 t-4}"]
    assert not play.world.works


def test_an_assignor_that_fails(play: ApartPlay) -> None:
    """R4.7: nothing is written, nobody has joined, and the next heartbeat tries again."""
    play.step("beat A join")
    assert answers(play, "work fails") == ["A < UNKNOWN_SERVER_ERROR"]
    assert not play.world.log and not play.world.coordinator.groups
    play.step("beat A join")
    assert answers(play, "work") == ["A < 2 {t-0 t-1}"]


def test_a_shard_that_is_given_up(play: ApartPlay) -> None:
    play.step("beat A join")
    play.step("beat B join")
    world = play.world
    for partition in range(world.partition_count):
        world.coordinator.unload(partition, world.now_ms, world.wall_ms)
    world.settle()
    assert [ErrorCode(ctx.answer.error_code) for ctx in world.answered] == [ErrorCode.NOT_COORDINATOR] * 2
    play.forget(world)
    assert answers(play, "work") == []
    assert not world.log and not world.coordinator.assigning


def test_a_member_that_is_removed_meanwhile(play: ApartPlay) -> None:
    """The session of A ends while B waits: the assignment that B gets is without it."""
    for step in ("beat A join", "work"):
        play.step(step)
    play.step("advance 44s")
    play.step("beat B join")
    play.step("advance 2s")
    assert answers(play, "work") == []
    assert answers(play, "work") == ["B < 4 {t-0 t-1}"]


def test_a_write_that_fails(play: ApartPlay) -> None:
    """Whoever waited is told, and the group is as it was (R2.44)."""
    play.step("beat A join")
    play.step("beat B join")
    play.step("hold")
    assert answers(play, "work") == []
    assert answers(play, "append fails NOT_ENOUGH_REPLICAS") == ["A < COORDINATOR_NOT_AVAILABLE"]
    play.step("release")
    assert answers(play, "work") == []  # it was computed for a group with A in it
    assert answers(play, "work") == ["B < 2 {t-0 t-1}"]


def test_a_heartbeat_that_converts_a_group_does_not_wait(play: ApartPlay) -> None:
    """The parked requests of the classic group are answered in the same entry, and must not be twice."""
    for step in ("setup initial_delay=0", "enter b", "advance 1ms", "sync b assign:b=t-0,t-1"):
        play.step(step)
    assert answers(play, "beat A join") == ["A < 2 {}"]
    assert not play.world.works


# Regexes


def test_regexes_are_resolved_with_the_topics_that_there_were(play: ApartPlay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assigning, "LARGE", 1_000)
    assert answers(play, "beat A join regex=t.*") == ["A < 1 {}"]
    play.step("advance 1ms")
    version = play.world.coordinator.topics.version
    play.step("topic t2 1")
    play.step("work")
    (resolved,) = play.world.coordinator.groups["g"].state.resolved.values()
    assert (resolved.topics, resolved.version) == (("t",), version)
    assert answers(play, "beat A") == ["A < 2 {t-0 t-1}"]


def test_a_regex_that_nobody_uses_any_more_is_left_out(play: ApartPlay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assigning, "LARGE", 1_000)
    for step in ("beat A join regex=t.*", "beat B join regex=u.*", "advance 1ms", "beat B leave"):
        play.step(step)
    play.step("work")
    assert list(play.world.coordinator.groups["g"].state.resolved) == ["t.*"]


@pytest.mark.parametrize("end", ["work fails", "beat A leave"])
def test_a_resolution_that_comes_to_nothing(play: ApartPlay, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """R3.15: it changes nothing, and a later heartbeat starts another one."""
    monkeypatch.setattr(assigning, "LARGE", 1_000)
    for step in ("beat A join regex=t.*", "advance 1ms", end):
        play.step(step)
    if play.world.works:
        play.step("work")
    assert not play.world.coordinator.groups["g"].state.resolved
    for step in ("beat A join regex=t.*", "advance 1ms", "work"):
        play.step(step)
    assert list(play.world.coordinator.groups["g"].state.resolved) == ["t.*"]


def test_what_is_large() -> None:
    def spec(members: int, partitions: int, *, homogeneous: bool = True) -> GroupSpec:
        ids = [topic_id(f"t{number}", 1) for number in range(10)]
        return GroupSpec(
            [MemberSpec(f"m{number}", None, ids, {}) for number in range(members)],
            dict.fromkeys(ids, partitions // 10),
            homogeneous,
        )

    assert not is_large(spec(10, 100))
    assert not is_large(spec(100, 1_000))
    assert is_large(spec(1_000, 10))
    assert is_large(spec(1, 10_000))
    assert not is_large(spec(300, 10)) and is_large(spec(300, 10, homogeneous=False))


def test_those_who_waited_are_served_in_several_entries(play: ApartPlay, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"M{number}" for number in range(45)]
    play.step("topic t 45")
    play.step("beat A join")
    monkeypatch.setattr(assigning, "LARGE", 1_000_000)
    for name in names:
        assert answers(play, f"beat {name} join") == []
    heard: list[list[str]] = []
    while play.world.works:
        heard.append([line.split()[0] for line in answers(play, "work")])
        assert len(answers(play, "beat X join group=other")) == 1
    assert [len(some) for some in heard] == [20, 20, 6]
    assert [name for some in heard for name in some] == ["A", *names]
    assert not play.world.coordinator.assigning


def test_who_comes_while_others_are_served_waits_behind_them(play: ApartPlay, monkeypatch: pytest.MonkeyPatch) -> None:
    play.step("beat A join")
    monkeypatch.setattr(assigning, "LARGE", 1_000_000)
    for number in range(20):
        play.step(f"beat M{number} join")
    assert len(answers(play, "work")) == 20
    assert answers(play, "beat Z join") == []
    assert [line.split()[0] for line in answers(play, "work")] == ["M19", "Z"]
    assert not play.world.works
