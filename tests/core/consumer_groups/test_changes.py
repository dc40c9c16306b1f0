"""Changes of a consumer group that end with a bug of ours: the group is as it was."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.core.consumer_groups.assignors import ASSIGNORS
from ottla.broker.core.consumer_groups.changes import Change
from ottla.broker.core.consumer_groups.facts import Contradiction, GroupGone
from ottla.broker.core.consumer_groups.group import ConsumerGroup
from tests.core.consumer_groups.modern_scenario import ConsumerPlay
from tests.core.durable import state_facts


@pytest.fixture
def play() -> ConsumerPlay:
    return ConsumerPlay()


def group_of(play: ConsumerPlay) -> ConsumerGroup:
    group = play.world.coordinator.groups["g"]
    assert isinstance(group, ConsumerGroup)
    return group


def test_an_assignor_that_fails(play: ConsumerPlay, monkeypatch: pytest.MonkeyPatch) -> None:
    """R4.7: nothing is written, nobody has joined, and the next heartbeat tries again."""

    def fail(group: Any) -> Any:
        raise ZeroDivisionError

    play.step("beat A join")
    before = state_facts(group_of(play).state)
    with monkeypatch.context() as patch:
        patch.setitem(ASSIGNORS, "uniform", fail)
        for step in ("beat B join", "topic t 3", "beat A"):
            if step.startswith("topic"):
                play.step(step)
                continue
            with pytest.raises(ZeroDivisionError):
                play.step(step)
            assert state_facts(group_of(play).state) == before
            assert not play.world.coordinator.effects
    assert "    A < 3 {t-0 t-1 t-2}".strip() in play.step("beat A")


def test_a_record_that_contradicts_others_is_taken_back_with_all_before_it(play: ConsumerPlay) -> None:
    """Also where something else is on its way (R6.7)."""
    play.step("beat A join")
    play.step("hold")
    play.step("beat B join")
    group = group_of(play)
    before, writes = state_facts(group.state), list(group.in_flight)
    with pytest.raises(Contradiction), Change(play.world.coordinator, group) as change:
        change.bump(0, ["a test"])
        change.add(GroupGone())
    assert state_facts(group.state) == before
    assert list(group.in_flight) == writes
    play.step("appended")
    assert state_facts(group.durable) == before
    assert group.state is group.durable


def test_outcomes_of_writes_are_told_apart(play: ConsumerPlay) -> None:
    """What is durable is known for each of several writes on their way."""
    play.step("beat A join")
    play.step("hold")
    epochs = []
    for name in "BCD":
        play.step(f"beat {name} join")
    for _ in "BCD":
        group = group_of(play)
        epochs.append((group.durable.epoch, group.state.epoch))
        play.step("appended")
    assert epochs == [(2, 5), (3, 5), (4, 5)]
    assert group_of(play).durable.epoch == 5
