"""What is told if nothing is chosen: the incident, and not what came of it."""

from __future__ import annotations

from datetime import UTC

import pytest

from ottla.observe.why.choice import choose, in_a_line
from ottla.observe.why.model import Episode
from tests.observe.why.stories import played
from tests.observe.why.story import Story, stable


def chosen(episodes: list[Episode]) -> list[tuple[str, str]]:
    choice = choose(episodes)
    return [] if choice is None else [(one.kind, one.cause) for one in (choice.main, *choice.later)]


def test_how_a_member_went_comes_before_that_it_is_back() -> None:
    story = played("poll loop busy")
    story.forget("w2")
    story.join("w2")
    story.again("w1", "w3")
    story.sync("w2")
    assert story.last.cause == "member-returned"
    assert chosen(story.episodes()) == [("rebalance", "member-joined"), ("rebalance", "member-returned")]
    choice = choose(story.episodes())
    assert choice is not None
    assert story.culprit(choice.main) == "w2"
    line = in_a_line(choice.later[0], UTC)
    assert line.startswith("Then, rebalance 3 at 22:")
    assert "w2 came back" in line


def test_a_node_that_hung_comes_before_that_its_members_are_back() -> None:
    story = played("the node hangs")
    for name in ("w1", "w2"):
        story.forget(name)
    story.join("w1", "w2")
    story.wait(5)
    story.sync("w1", "w2")
    assert (story.last.cause, story.last.outcome) == ("group-started", "stable")
    assert chosen(story.episodes()) == [("rebalance", "broker-stood-still"), ("rebalance", "group-started")]


def test_a_member_that_left_and_came_back() -> None:
    story = played("member returned")
    assert chosen(story.episodes()) == [("rebalance", "left-closed"), ("rebalance", "member-returned")]


@pytest.mark.parametrize(
    ("away_ms", "told"), [(110_000, ["left-closed", "member-returned"]), (360_000, ["member-returned"])]
)
def test_a_return_after_long_is_told_itself(away_ms: int, told: list[str]) -> None:
    story = stable("w1", "w2")
    story.leave("w2", reason="the consumer is being closed")
    story.again("w1")
    story.wait(away_ms, beating=["w1"])
    story.join("w2")
    story.again("w1")
    assert [cause for _, cause in chosen(story.episodes())] == told


def test_a_return_of_somebody_who_is_forgotten_is_told_itself() -> None:
    story = played("member returned")
    assert chosen(story.episodes()[-1:]) == [("rebalance", "member-returned")]


def test_a_return_that_runs_is_told_itself() -> None:
    story = stable("w1", "w2")
    story.leave("w2", reason="the consumer is being closed")
    story.again("w1")
    story.wait(5_000, beating=["w1"])
    story.join("w2")
    assert (story.last.cause, story.last.outcome) == ("member-returned", "running")
    assert chosen(story.episodes()) == [("rebalance", "member-returned")]


def test_a_pattern_is_told_itself() -> None:
    assert chosen(played("rolling restart").episodes()) == [("rebalance", "rolling-restart")]
    assert chosen(played("flapping").episodes()) == [("rebalance", "flapping-member")]


def test_the_stop_of_the_broker_hides_nothing() -> None:
    story = played("coordinator moved")
    assert story.last.kind == "stopped"
    assert story.last.headline == "The broker stopped or gave the group up."
    assert chosen(story.episodes()) == [("rebalance", "group-started"), ("stopped", "coordinator-moved")]
    assert in_a_line(story.last, UTC) == "Then, at 22:14:20.001, the broker stopped or gave the group up."


def test_a_load_hides_nothing_and_is_told_if_there_is_nothing_else() -> None:
    story = played("coordinator loaded")
    assert chosen(story.episodes()) == [("rebalance", "group-started"), ("loaded", "coordinator-loaded")]
    assert chosen(story.episodes()[-1:]) == [("loaded", "coordinator-loaded")]


def test_a_rebalance_of_a_consumer_group_goes_by_its_epoch_too() -> None:
    story = Story()
    story.modern_join("a")
    assert in_a_line(story.last, UTC).startswith("Then, rebalance 1 (epoch 2) at 22:13:20.000: a started the group;")


@pytest.mark.parametrize(
    ("title", "line"),
    [
        (
            "a revocation that takes too long",
            "Before that, rebalance 2 (epoch 3) at 22:13:30.000: 3 partitions stood still for up to 60.0 s. b joined; "
            "a had 60.0 s to give up orders-3 to 5, for which b waited, and was gone before it had; another rebalance "
            "began after 66.0 s, before the group was Stable. It cost 180.0 partition-seconds.",
        ),
        (
            "a static member that is not back in time",
            "Before that, replacement 3 at 22:13:32.000: 3 partitions stood still for up to 45.0 s. i1 went for a "
            "while, as it has a group.instance.id; a rebalance began after 45.0 s. It cost 135.0 partition-seconds.",
        ),
    ],
)
def test_what_an_episode_ended_is_told_if_it_cost_more(title: str, line: str) -> None:
    choice = choose(played(title).episodes())
    assert choice is not None and choice.earlier is not None
    assert in_a_line(choice.earlier, UTC, is_earlier=True) == line


def test_a_refusal_between_going_and_coming_back_is_told() -> None:
    story = Story(group_consumer_migration_policy="disabled")
    story.stable("w1", "w2")
    story.leave("w2", reason="the consumer is being closed")
    story.again("w1")
    story.modern_join("w2")
    story.join("w2")
    story.again("w1")
    assert [cause for _, cause in chosen(story.episodes())] == ["left-closed", "upgrade-refused", "member-returned"]


def test_a_regex_that_matched_nothing_while_a_rebalance_ran_does_not_hide_it() -> None:
    story = Story()
    story.modern_join("a", regex="ord.*")
    story.wait(11_000)
    story.modern_join("b", regex="nothing.*")
    story.live8(20_000, "a", "b")
    assert chosen(story.episodes()) == [("rebalance", "group-started"), ("resolution", "regex-resolved")]


def test_nothing_is_chosen_of_nothing() -> None:
    assert choose([]) is None
