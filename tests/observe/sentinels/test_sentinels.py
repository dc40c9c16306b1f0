"""Each sentinel raises once what it is for, clears it when it is over, and is silent otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.broker.core.events import SentinelCleared, SentinelRaised, StateChanged
from ottla.broker.settings import Settings
from ottla.observe.sentinels import SENTINELS, Sentinels
from ottla.observe.snapshot import GroupState, OffsetProgress
from ottla.observe.view import View
from tests.observe.sentinels.stage import Stage

FAIR = {"a": {"orders": [0, 1]}, "b": {"orders": [2, 3]}}
MINUTE = 60_000


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_a_group_in_order_is_left_in_peace(stage: Stage) -> None:
    stage.form(FAIR)
    for _ in range(20):
        for partition in range(4):
            stage.write(partition, 10)
        stage.commit("a", {0: 1, 1: 1})
        stage.wait(MINUTE)
    assert (stage.sentinels.board.active(), stage.sentinels.board.recent(), stage.emitted, stage.log.warnings) == (
        [],
        [],
        [],
        [],
    )
    assert stage.log.errors == []


# Two believers


def test_partitions_that_the_leader_gave_to_two_are_noticed(stage: Stage) -> None:
    stage.form({"a": {"orders": [0, 1, 2]}, "b": {"orders": [2, 3]}})
    stage.wait(2_000)
    alarm = stage.alarm("two_believers")
    assert alarm.facts["partitions"] == "orders-2"
    assert alarm.facts["members"] == f"{stage.ids['a']}, {stage.ids['b']}"
    stage.form(FAIR)
    stage.wait(2_000)
    assert stage.active == []


def test_a_commit_for_a_partition_of_somebody_else_is_noticed(stage: Stage) -> None:
    stage.form(FAIR)
    stage.write(0, 10)
    stage.write(2, 10)
    assert stage.commit("a", {0: 5, 2: 7}) == 0
    alarm = stage.alarm("two_believers")
    assert alarm.facts["partitions"] == "orders-2"
    assert alarm.facts["members"] == f"{stage.ids['a']}, {stage.ids['b']}"
    stage.commit("a", {2: 8})
    assert stage.alarm("two_believers").times == 2
    stage.wait(61_000)
    assert stage.active == []


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


def test_a_member_of_an_old_generation_that_commits_what_it_lost_is_noticed(stage: Stage) -> None:
    stage.form(FAIR)
    generation = stage.generation
    stage.form({"a": {"orders": [0, 1, 2]}, "b": {"orders": [3]}})
    assert stage.commit("b", {2: 5, 3: 5}, generation=generation) == 22
    assert stage.active == ["fenced_commit", "two_believers"]
    assert stage.alarm("two_believers").facts["partitions"] == "orders-2"


def test_a_commit_of_ones_own_before_rejoining_is_as_it_should_be(stage: Stage) -> None:
    stage.form(FAIR)
    stage.write(2, 10)
    stage.write(3, 10)
    stage.join("a")
    assert stage.commit("b", {2: 5, 3: 5}) == 0
    stage.wait(2_000)
    assert stage.active == []


def test_who_commits_what_nobody_owns_is_no_believer(stage: Stage) -> None:
    stage.form({"a": {"orders": [0, 1]}, "b": {"orders": [2]}})
    stage.commit("a", {3: 5})
    assert stage.active == []


# Topics without an owner


def test_partitions_that_nobody_was_assigned_are_noticed_when_that_lasts(stage: Stage) -> None:
    stage.form({"a": {"orders": [0]}, "b": {"orders": [2]}})
    stage.wait(29_000)
    assert stage.active == []
    stage.wait(3_000)
    alarm = stage.alarm("topic_without_owner")
    assert (alarm.subject, alarm.facts["partitions"], alarm.facts["unowned"]) == ("orders", "1, 3", "2")
    stage.form(FAIR)
    stage.wait(2_000)
    assert stage.active == []


def test_a_topic_that_is_not_there_is_noticed(stage: Stage) -> None:
    stage.form(FAIR, a=("orders", "odrers"), b=("orders", "odrers"))
    stage.wait(35_000)
    assert stage.alarm("topic_without_owner").text == "Group g subscribes to odrers, and there is no such topic"


def test_partitions_that_were_added_are_noticed(stage: Stage) -> None:
    stage.form(FAIR)
    stage.wait(60_000)
    stage.logs.topics["orders"].partitions.append(stage.logs.topics["orders"].partitions[0])
    stage.wait(35_000)
    assert stage.alarm("topic_without_owner").facts["partitions"] == "4"


def test_what_is_unowned_for_a_moment_is_not_told(stage: Stage) -> None:
    for _ in range(4):
        stage.form({"a": {"orders": [0]}, "b": {"orders": [2]}})
        stage.wait(20_000)
        stage.form(FAIR)
        stage.wait(20_000)
    assert stage.log.warnings == []


# Commits from fenced generations


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


def test_a_commit_that_is_granted_is_no_alarm(stage: Stage) -> None:
    stage.form(FAIR)
    assert stage.commit("a", {0: 5}) == 0
    assert stage.active == []


def test_a_commit_during_a_rebalance_is_no_alarm(stage: Stage) -> None:
    stage.form(FAIR)
    stage.join("a")
    stage.join("b")
    stage.world.advance_to(stage.world.now_ms)
    stage.generation += 1
    assert stage.commit("a", {0: 5}) == 27  # between join and sync
    assert stage.active == []


# Offsets that jump


def test_an_offset_that_moves_back_is_noticed(stage: Stage) -> None:
    stage.form(FAIR)
    stage.write(0, 100)
    stage.commit("a", {0: 50})
    stage.commit("a", {0: 20})
    alarm = stage.alarm("offset_jump")
    assert (alarm.facts["jump"], alarm.facts["partitions"]) == ("back", "orders-0 from 50")
    stage.wait(61_000)
    assert stage.active == []


def test_an_offset_past_the_end_is_noticed_for_as_long_as_it_is(stage: Stage) -> None:
    stage.form(FAIR)
    stage.write(0, 100)
    stage.commit("a", {0: 150})
    stage.wait(2_000)
    assert stage.alarm("offset_jump").facts["partitions"] == "orders-0 at 150 of 100"
    stage.wait(10 * MINUTE)
    assert stage.active == ["offset_jump"]
    stage.write(0, 50)
    stage.wait(2_000)
    assert stage.active == []


def test_an_offset_at_the_end_is_no_jump(stage: Stage) -> None:
    stage.form(FAIR)
    stage.write(0, 100)
    stage.commit("a", {0: 50})
    stage.commit("a", {0: 50})
    stage.commit("a", {0: 100})
    stage.wait(2_000)
    assert stage.active == []


# Barriers


def test_a_barrier_that_stays_open_is_noticed_with_those_who_are_awaited(stage: Stage) -> None:
    stage.form(FAIR)
    stage.join("a")
    stage.wait(59_000)
    assert stage.active == []
    stage.wait(3_000)
    alarm = stage.alarm("old_barrier")
    assert alarm.facts["barrier"] == "join"
    assert stage.ids["b"] in alarm.facts["awaited"] and stage.ids["a"] not in alarm.facts["awaited"]
    stage.join("b")
    stage.generation += 1
    stage.sync("a", FAIR)
    stage.sync("b", {})
    stage.wait(2_000)
    assert stage.active == []


def test_a_leader_that_does_not_sync_is_noticed(stage: Stage) -> None:
    stage.form(FAIR)
    stage.join("a")
    stage.join("b")
    stage.world.advance_to(stage.world.now_ms)
    stage.generation += 1
    stage.sync("b", {})
    stage.wait(62_000)
    assert stage.alarm("old_barrier").facts["barrier"] == "sync"
    assert stage.ids["a"] in stage.alarm("old_barrier").facts["awaited"]


# Idle partitions


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
    assert stage.log.warnings == []


def test_no_more_partitions_are_kept_in_mind_than_the_settings_allow() -> None:
    stage = Stage({"orders": 8}, {"ottla_sentinel_max_partitions": 3})
    stage.form({"a": {"orders": list(range(8))}})
    for partition in range(8):
        stage.write(partition, 10)
    stage.commit("a", dict.fromkeys(range(8), 0))
    stage.wait(5_000)
    assert len(stage.sentinels._progress) == 3


# Subscriptions


def test_members_that_subscribe_to_different_topics_are_noticed_when_that_lasts() -> None:
    stage = Stage({"orders": 4, "bills": 1})
    assigned = {"a": {"orders": [0, 1]}, "b": {"orders": [2, 3], "bills": [0]}}
    stage.form(assigned, b=("orders", "bills"))
    stage.wait(29_000)
    assert stage.active == []
    stage.wait(3_000)
    alarm = stage.alarm("mixed_subscriptions")
    assert alarm.facts["subscriptions"] == "2"
    assert "bills" in alarm.text
    stage.form(assigned, a=("bills", "orders"), b=("orders", "bills"))
    stage.wait(2_000)
    assert stage.active == []


# Storms


def test_many_rebalances_in_a_short_time_are_a_storm(stage: Stage) -> None:
    for _ in range(9):
        stage.form(FAIR)
        stage.wait(10_000)
    assert stage.active == []
    stage.form(FAIR)
    stage.wait(2_000)
    assert stage.alarm("rebalance_storm").facts["rebalances"] == "10"
    stage.wait(5 * MINUTE)
    assert stage.active == []


def test_rebalances_now_and_then_are_no_storm(stage: Stage) -> None:
    for _ in range(30):
        stage.form(FAIR)
        stage.wait(40_000)
    assert stage.log.warnings == []


# Zombies


def test_a_join_of_a_client_that_is_gone_is_noticed(stage: Stage) -> None:
    stage.form(FAIR)
    stage.join("a").is_gone = True
    stage.wait(4_000)
    assert stage.active == []
    stage.wait(3_000)
    assert stage.ids["a"] in stage.alarm("zombie").facts["members"]
    stage.join("a")
    stage.wait(1_000)
    assert stage.active == []


def test_a_join_of_a_client_that_waits_is_no_zombie(stage: Stage) -> None:
    stage.form(FAIR)
    stage.join("a")
    stage.wait(30_000)
    assert stage.active == []


# All of them


def test_an_alarm_is_told_once_when_it_is_raised_and_once_when_it_is_over(stage: Stage) -> None:
    told = []
    stage.sentinels.board.on_alarm.append(lambda alarm: told.append((alarm.sentinel, alarm.cleared_ms)))
    stage.form({"a": {"orders": [0, 1, 2]}, "b": {"orders": [2, 3]}})
    stage.wait(10 * MINUTE)
    raised_ms = stage.alarm("two_believers").since_ms
    assert len(stage.log.warnings) == 1
    assert stage.log.infos == []
    stage.form(FAIR)
    stage.wait(10 * MINUTE)
    (over,) = stage.sentinels.board.recent()
    assert over.since_ms == raised_ms < over.last_ms <= over.cleared_ms
    assert (len(stage.log.warnings), len(stage.log.infos)) == (1, 1)
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
    assert stage.log.errors == []


def test_no_more_alarms_stand_than_the_settings_allow() -> None:
    names = [f"t{index}" for index in range(6)]
    stage = Stage(dict.fromkeys(names, 1), {"ottla_sentinel_max_alarms": 4, "ottla_sentinel_settle_ms": 0})
    stage.form({"a": {}}, a=names)
    stage.wait(2_000)
    assert len(stage.sentinels.board.active()) == 4
    assert stage.sentinels.board.left_out >= 2
    told = [event for event, _ in stage.log.warnings]
    assert told.count("Too many alarms, more are not told") == 1
    assert len(told) == 5


def test_groups_that_were_there_before_are_looked_at() -> None:
    stage = Stage()
    stage.form({"a": {"orders": [0, 1, 2]}, "b": {"orders": [2, 3]}})
    late = Sentinels(stage.view, Settings(), stage.log)
    late.start(stage)
    late.sweep()
    assert [alarm.sentinel for alarm in late.board.active()] == ["two_believers"]


def test_the_clock_is_left_alone_after_the_end(stage: Stage) -> None:
    stage.sentinels.stop()
    stage.form({"a": {"orders": [0, 1, 2]}, "b": {"orders": [2, 3]}})
    stage.wait(10_000)
    assert stage.active == [] and stage.callbacks == []


def test_every_sentinel_has_its_tests() -> None:
    told = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    assert [name for name in SENTINELS if f'"{name}"' not in told] == []


class Counting:
    """A view of so many quiet groups that counts how many are looked at."""

    def __init__(self, groups: int) -> None:
        self.names = [str(number) for number in range(groups)]
        self.looked: list[str] = []

    def group_ids(self) -> list[str]:
        return self.names

    def group(self, group_id: str) -> GroupState:
        self.looked.append(group_id)
        return GroupState(group_id, 0, "Empty", 1, None, None, None, [], [], "", 0, [])

    def progress(self, group_id: str) -> list[OffsetProgress]:
        return []

    def partition_count(self, topic: str) -> int:
        return 0


@pytest.mark.parametrize(("groups", "a_turn", "turns"), [(100, 10, 10), (5, 1, 5), (20_000, 500, 40)])
def test_a_turn_looks_at_a_slice_and_an_interval_at_every_group(
    stage: Stage, groups: int, a_turn: int, turns: int
) -> None:
    view = Counting(groups)
    sentinels = Sentinels(view, Settings(), stage.log)  # type: ignore[arg-type]
    stage.sentinels.stop()
    sentinels.start(stage)
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
    sentinels = Sentinels(view, Settings(), stage.log)  # type: ignore[arg-type]
    sentinels.start(stage)
    for name in view.names[:10]:
        sentinels(StateChanged(group_id=name, cause=0, before="Stable", after="PreparingRebalance", generation=1))
    for _ in range(20):
        before = len(view.looked)
        sentinels.sweep()
        assert len(view.looked) - before <= 3
    assert set(view.looked) >= set(view.names[:10]), "those that wait for members"
    assert set(view.looked) == set(view.names)
