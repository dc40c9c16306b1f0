"""Each sentinel raises once what it is for, clears it when it is over, and is silent otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.core.events import SentinelCleared, SentinelRaised, StateChanged
from ottla.broker.settings import Settings
from ottla.observe import view
from ottla.observe.sentinels import watch
from ottla.observe.sentinels.model import SENTINELS
from ottla.observe.sentinels.watch import Sentinels
from ottla.observe.snapshot import GroupState, OffsetProgress
from ottla.observe.view import View
from ottla.observe.why.causes import Cause
from ottla.observe.why.model import Episode, MemberPart, Trigger
from tests.core.scenario_text import compare, read_scenarios
from tests.observe.sentinels.scenes import SCENES, Scene
from tests.observe.sentinels.stage import Stage

FAIR = {"a": {"orders": [0, 1]}, "b": {"orders": [2, 3]}}
MINUTE = 60_000
CASES = read_scenarios(SCENES)


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.mark.parametrize("index", range(len(CASES)), ids=[one.title for one in CASES])
def test_scene(index: int, record: bool) -> None:
    compare(SCENES, index, Scene().play(CASES[index]), record=record)


@pytest.fixture
def in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group is a large one, and described a member at a time."""
    monkeypatch.setattr(watch, "LARGE_MEMBERS", 0)
    monkeypatch.setattr(view, "STEP_MEMBERS", 1)


@pytest.mark.parametrize("index", range(len(CASES)), ids=[one.title for one in CASES])
def test_scene_of_large_groups(index: int, in_steps: None) -> None:
    compare(SCENES, index, Scene().play(CASES[index]), record=False)


def test_a_large_group_that_changes_while_it_is_described_is_described_anew(stage: Stage, in_steps: None) -> None:
    stage.form({"a": {"orders": [0, 1, 2]}, "b": {"orders": [3]}})
    stage.sentinels.sweep()
    next_step = stage.callbacks.pop(0)
    stage.form(FAIR)
    stage.callbacks.insert(0, next_step)
    stage.wait(MINUTE)
    assert stage.emitted == [], "no mixture of two generations"
    stage.form({"a": {"orders": [0, 1, 2]}, "b": {"orders": [2, 3]}})
    stage.wait(MINUTE)
    assert stage.active == ["two_believers"]


def test_a_large_group_rests_between_looks(stage: Stage, in_steps: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it changes it would be looked at each second."""
    looks: list[int] = []
    group_in_steps = stage.sentinels._view.group_in_steps

    def counted(group_id: str) -> Any:
        looks.append(stage.world.now_ms)
        return group_in_steps(group_id)

    monkeypatch.setattr(stage.sentinels._view, "group_in_steps", counted)
    monkeypatch.setattr(watch, "MEMBERS_A_SECOND", 1)
    stage.form({"a": {"orders": [0, 1, 2]}, "b": {"orders": [2, 3]}})
    stage.wait(10_000)
    assert {after - before for before, after in itertools.pairwise(looks)} == {2_000}, "it has two members"
    assert stage.active == ["two_believers"]


def test_a_wait_is_as_old_as_the_load_of_its_group(stage: Stage) -> None:
    for name in "aba":
        stage.beat(name)
    stage.wait(40_000)
    stage.restart()
    stage.wait(59_000)
    assert stage.active == []
    stage.wait(2_000)
    assert stage.alarm("old_barrier").facts["awaited"] == "a-1"


def test_a_group_in_order_is_left_in_peace(stage: Stage) -> None:
    stage.form(FAIR)
    for _ in range(20):
        for partition in range(4):
            stage.write(partition, 10)
        stage.commit("a", {0: 1, 1: 1})
        stage.wait(MINUTE)
    assert stage.sentinels.board.active() == stage.sentinels.board.recent() == stage.emitted == []
    assert stage.log.of("warning") == stage.log.of("error") == []


def test_all_members_are_looked_at_once_a_commit_at_most(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.form(FAIR)
    asked: list[str] = []
    assignment = View.assignment

    def counted(self: View, group_id: str, member_id: str) -> Mapping[str, list[int]]:
        asked.append(member_id)
        return assignment(self, group_id, member_id)

    monkeypatch.setattr(View, "assignment", counted)
    stage.commit("a", {0: 5, 1: 5})
    assert len(asked) == 1
    stage.commit("a", dict.fromkeys(range(2, 500), 5))
    assert len(asked) <= 1 + 1 + len(FAIR)


def test_partitions_that_were_added_are_noticed(stage: Stage) -> None:
    stage.form(FAIR)
    stage.wait(60_000)
    stage.logs.topics["orders"].partitions.append(stage.logs.topics["orders"].partitions[0])
    stage.wait(35_000)
    assert stage.alarm("topic_without_owner").facts["partitions"] == "4"


def test_a_commit_of_an_old_generation_is_noticed_and_forgotten_in_time(stage: Stage) -> None:
    stage.form(FAIR)
    assert stage.commit("a", {0: 5}, generation=stage.generation - 1) == 22
    alarm = stage.alarm("fenced_commit")
    assert alarm.facts["error"] == "ILLEGAL_GENERATION"
    assert alarm.facts["member_id"] == stage.ids["a"]
    assert alarm.facts["generation"] == str(stage.generation - 1)
    raised = next(event for event in stage.emitted if isinstance(event, SentinelRaised))
    assert raised.cause > 0
    stage.wait(50_000)
    stage.commit("a", {0: 5}, generation=stage.generation - 1)
    stage.wait(50_000)
    assert stage.alarm("fenced_commit").times == 2
    stage.wait(20_000)
    assert stage.active == []


def idle(stage: Stage, minutes: int, *, others: bool) -> None:
    """Time in which partition 3 stands still, and the others move or not."""
    for _ in range(minutes):
        for partition in range(4):
            stage.write(partition, 10)
        if others:
            ends = [one.high_watermark for one in stage.logs.topics["orders"].partitions]
            stage.commit("a", {0: ends[0], 1: ends[1]})
            stage.commit("b", {2: ends[2], 3: 0})
        stage.wait(MINUTE)


def test_a_partition_that_stands_still_while_others_move_is_noticed(stage: Stage) -> None:
    stage.form(FAIR)
    idle(stage, 4, others=True)
    assert stage.active == []
    idle(stage, 3, others=True)
    alarm = stage.alarm("idle_partition")
    assert alarm.facts["partitions"] == "orders-3"
    assert int(alarm.facts["idle_ms"]) >= 5 * MINUTE
    stage.commit("b", {3: 70})
    stage.wait(2_000)
    assert stage.active == []


def test_a_group_that_stands_still_as_a_whole_has_no_idle_partition(stage: Stage) -> None:
    stage.form(FAIR)
    stage.commit("a", {0: 0, 1: 0})
    stage.commit("b", {2: 0, 3: 0})
    idle(stage, 12, others=False)
    assert stage.active == []


def test_a_partition_without_lag_is_not_idle(stage: Stage) -> None:
    stage.form(FAIR)
    for minute in range(12):
        stage.write(0, 10)
        stage.commit("a", {0: 10 * (minute + 1), 1: 0})
        stage.commit("b", {2: 0, 3: 0})
        stage.wait(MINUTE)
    assert stage.log.of("warning") == []


def test_no_more_partitions_are_kept_in_mind_than_the_settings_allow() -> None:
    stage = Stage({"orders": 8}, {"ottla_sentinel_max_partitions": 3})
    stage.form({"a": {"orders": list(range(8))}})
    for partition in range(8):
        stage.write(partition, 10)
    stage.commit("a", dict.fromkeys(range(8), 0))
    stage.wait(5_000)
    assert len(stage.sentinels._progress) == 3


def test_rebalances_now_and_then_are_no_storm(stage: Stage) -> None:
    for _ in range(30):
        stage.form(FAIR)
        stage.wait(40_000)
    assert stage.log.of("warning") == []


def test_an_alarm_is_told_once_when_it_is_raised_and_once_when_it_is_over(stage: Stage) -> None:
    told = []
    stage.sentinels.board.on_alarm.append(lambda alarm: told.append((alarm.sentinel, alarm.cleared_ms)))
    stage.form({"a": {"orders": [0, 1, 2]}, "b": {"orders": [2, 3]}})
    stage.wait(10 * MINUTE)
    raised_ms = stage.alarm("two_believers").since_ms
    assert len(stage.log.of("warning")) == 1
    assert stage.log.of("info") == []
    stage.form(FAIR)
    stage.wait(10 * MINUTE)
    (over,) = stage.sentinels.board.recent()
    assert over.since_ms == raised_ms < over.last_ms <= over.cleared_ms
    assert (len(stage.log.of("warning")), len(stage.log.of("info"))) == (1, 1)
    assert told == [("two_believers", 0), ("two_believers", over.cleared_ms)]
    raised, cleared = stage.emitted
    assert isinstance(raised, SentinelRaised) and isinstance(cleared, SentinelCleared)
    assert (raised.sentinel, raised.subject, raised.group_id) == ("two_believers", "orders", "g")
    assert cleared.lasted_ms == over.cleared_ms - over.since_ms
    assert stage.sentinels.board.raised["two_believers"] == 1
    assert set(stage.sentinels.board.active_by_sentinel().values()) == {0}


def test_what_was_wrong_with_a_group_goes_with_it(stage: Stage) -> None:
    stage.form({"a": {"orders": [0, 1, 2]}, "b": {"orders": [2, 3]}})
    stage.wait(2_000)
    assert stage.active == ["two_believers"]
    stage.world.coordinator.forget_group(stage.world.coordinator.groups["g"], "a test")
    assert stage.active == []
    stage.wait(2_000)
    assert stage.log.of("error") == []


def test_no_more_alarms_stand_than_the_settings_allow() -> None:
    names = [f"t{index}" for index in range(6)]
    stage = Stage(dict.fromkeys(names, 1), {"ottla_sentinel_max_alarms": 4, "ottla_sentinel_settle_ms": 0})
    stage.form({"a": {}}, a=names)
    stage.wait(2_000)
    assert len(stage.sentinels.board.active()) == 4
    assert stage.sentinels.board.left_out >= 2
    told = [event for event, _ in stage.log.of("warning")]
    assert told.count("Too many alarms, more are not told") == 1
    assert len(told) == 5


def test_an_episode_may_end_before_they_begin(stage: Stage) -> None:
    early = Sentinels(stage.view, Settings(), stage.log, stage)
    flapping = Trigger(Cause.FLAPPING_MEMBER, 0)
    early.on_episode(Episode(1, "rebalance", "g", 0, triggers=[flapping], members=[MemberPart("m", "c", "/h", None)]))
    early.start()
    early.sweep()
    assert stage.log.of("error") == []


def test_groups_that_were_there_before_are_looked_at() -> None:
    stage = Stage()
    stage.form({"a": {"orders": [0, 1, 2]}, "b": {"orders": [2, 3]}})
    late = Sentinels(stage.view, Settings(), stage.log, stage)
    late.start()
    late.sweep()
    assert [alarm.sentinel for alarm in late.board.active()] == ["two_believers"]


def test_the_clock_is_left_alone_after_the_end(stage: Stage) -> None:
    stage.sentinels.stop()
    stage.form({"a": {"orders": [0, 1, 2]}, "b": {"orders": [2, 3]}})
    stage.wait(10_000)
    assert stage.active == [] and stage.callbacks == []


def test_every_sentinel_has_its_tests() -> None:
    told = SCENES.read_text() + "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [name for name in SENTINELS if f'"{name}"' not in told and f"+ {name} " not in told] == []


class Counting:
    """A view of so many quiet groups that counts how many are looked at."""

    def __init__(self, groups: int) -> None:
        self.names = [str(number) for number in range(groups)]
        self.looked: list[str] = []

    def group_ids(self) -> list[str]:
        return self.names

    def waits_calmly(self, group_id: str, old_ms: int) -> bool:
        return False

    def member_count(self, group_id: str) -> int:
        return 0

    def group(self, group_id: str) -> GroupState:
        self.looked.append(group_id)
        return GroupState(group_id, 0, "Empty", 1, None, None, None, [], [], "", 0, [])

    def progress(self, group_id: str) -> list[OffsetProgress]:
        return []

    def partition_count(self, topic: str) -> int:
        return 0

    def heirs(self, group_id: str, topic: str, partitions: list[int]) -> list[str]:
        return []


@pytest.mark.parametrize(("groups", "a_turn", "turns"), [(100, 10, 10), (5, 1, 5), (20_000, 500, 40)])
def test_a_turn_looks_at_a_slice_and_an_interval_at_every_group(
    stage: Stage, groups: int, a_turn: int, turns: int
) -> None:
    view = Counting(groups)
    sentinels = Sentinels(view, Settings(), stage.log, stage)  # type: ignore[arg-type]
    stage.sentinels.stop()
    sentinels.start()
    for turn in range(1, turns + 1):
        stage.wait(1_000)
        assert len(view.looked) == a_turn * turn
    assert sorted(view.looked) == sorted(view.names)


def test_a_turn_is_over_in_time_and_every_group_has_its_turn(stage: Stage) -> None:
    class Slow(Counting):
        def group(self, group_id: str) -> GroupState:
            stage.world.now_ms += 4
            return super().group(group_id)

    view = Slow(30)
    sentinels = Sentinels(view, Settings(), stage.log, stage)  # type: ignore[arg-type]
    sentinels.start()
    for name in view.names[:10]:
        sentinels(StateChanged(group_id=name, cause=0, before="Stable", after="PreparingRebalance", generation=1))
    for _ in range(20):
        before = len(view.looked)
        sentinels.sweep()
        assert len(view.looked) - before <= 3
    assert set(view.looked) >= set(view.names[:10]), "those that wait for members"
    assert set(view.looked) == set(view.names)
