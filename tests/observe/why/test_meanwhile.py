"""What is advised while a rebalance runs: what holds it up now comes before what began it."""

from __future__ import annotations

from tests.observe.why.scenarios import stable
from tests.observe.why.story import Story


def starting(**config: object) -> Story:
    """A new group whose leader is asked for the assignments, after an initial delay."""
    story = Story(group_initial_rebalance_delay_ms=3_000, **config)
    for name in ("w1", "w2"):
        story.new(name, poll_ms=60_000)
    story.join("w1", "w2")
    return story


def advised(story: Story) -> list[tuple[str, str]]:
    return [(one.setting, one.text) for one in story.last.advice]


def test_an_initial_delay_is_spoken_of_while_it_lasts() -> None:
    story = starting()
    story.wait(1_000)
    assert story.last.outcome == "running"
    assert [setting for setting, _ in advised(story)] == ["group.initial.rebalance.delay.ms"]


def test_a_leader_that_blocks_a_new_group_is_spoken_of_and_not_the_delay_before() -> None:
    story = starting()
    story.wait(6_000)
    assert story.last.outcome == "running"
    assert [one.barrier for one in story.last.waits] == ["initial delay", "sync"]
    ((setting, text),) = advised(story)
    assert setting == "max.poll.interval.ms"
    assert text.startswith("See what w1 does between JoinGroup and SyncGroup: as leader")
    assert "(60000 now)" in text


def test_who_is_awaited_at_the_join_barrier_is_spoken_of() -> None:
    story = stable("w1", "w2")
    story.join("w3")
    story.wait(1_000)
    story.join("w1")
    ((setting, text),) = advised(story)
    assert setting == "max.poll.interval.ms"
    assert "w2" in text and "poll()" in text and "(300000 now)" in text


def test_of_somebody_awaited_whose_connection_is_lost_no_poll_loop_is_blamed() -> None:
    story = stable("w1", "w2")
    story.join("w3", "w1")
    story.disconnect("w2")
    story.wait(1_000)
    ((setting, text),) = advised(story)
    assert setting == "session.timeout.ms"
    assert text.startswith("Find out why w2 ended without leaving.")


def test_who_is_no_consumer_has_no_poll_loop() -> None:
    story = Story()
    for name in ("c1", "c2"):
        story.new(name, type="connect", assignors=("sessioned",), poll_ms=60_000)
    story.start("c1", "c2")
    story.wait(3_000, beating=["c1", "c2"])
    story.leave("c2")
    story.wait(3_000, beating=["c1"])
    ((setting, text),) = advised(story)
    assert (setting, "poll" in text) == ("rebalance.timeout.ms", False)


def test_an_initial_delay_that_is_over_is_not_blamed_for_what_a_barrier_took() -> None:
    story = starting()
    story.wait(67_000, beating=["w1", "w2"])
    assert story.episodes()[0].outcome == "superseded"
    assert [one.setting for one in story.episodes()[0].advice] == ["max.poll.interval.ms"]
