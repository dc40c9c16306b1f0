"""Sequences that are unusual and real: what is said of them, and what is not."""

from __future__ import annotations

import pytest

from ottla.observe.why import run
from ottla.observe.why.model import Episode
from ottla.observe.why.words import felt
from tests.observe.why.story import GROUP, Consumer, Story, stable


def test_who_has_no_name_at_all() -> None:
    """No client id, and turned away before there was a member id."""
    story = stable("nameless-1", "nameless-2", story=Nameless())
    story.new("nameless-3", assignors=("sticky",))
    story.join("nameless-3")
    told = " ".join([*story.last.sentences, *(one.text for one in story.last.advice)])
    assert "a client without a name" in told
    assert not [gap for gap in ("  ", " , ", "( ", " .") if gap in told], told


@pytest.mark.parametrize(
    ("stopped", "outcome", "told"),
    [
        (1, "running", "1 partition has stood still for up to 30.0 s. "),
        (2, "running", "2 partitions have stood still for up to 30.0 s. "),
        (1, "stable", "1 partition stood still for up to 30.0 s. "),
    ],
)
def test_one_partition_is_not_several(stopped: int, outcome: str, told: str) -> None:
    ran = Episode(1, "rebalance", GROUP, 0, 10, outcome=outcome, stopped=stopped, stood_ms=60_000, longest_ms=30_000)
    assert felt(ran) == told


def test_names_that_all_share_are_told_once() -> None:
    story = stable("w1", "w2", story=Nameless("rdkafka"))
    story.new("w3", assignors=("sticky",))
    story.join("w3")
    assert any("; rdkafka has nothing in common with it." in text for text in story.last.sentences)


def test_a_member_that_comes_back_with_another_protocol_does_not_flap() -> None:
    """It is restarted there and back, while others stay classic."""
    story = stable("w1", "w2")
    for _ in range(3):
        story.leave("w1")
        story.modern_join("w1")
        story.go("w1")
        story.start("w1")
    causes = {one.cause for one in story.episodes()}
    assert {"group-upgraded", "group-downgraded"} <= causes
    assert "flapping-member" not in causes


def test_one_of_several_with_the_same_name_comes_and_goes() -> None:
    story = stable("w1", "w2", "w3", story=Nameless("rdkafka"))
    for _ in range(4):
        story.leave("w3")
        story.again("w1", "w2")
        story.join("w3")
        story.again("w1", "w2")
        story.sync("w3")
    assert story.last.cause == "flapping-member"
    assert story.last.headline.startswith(
        "One of 3 members called rdkafka comes and goes, 4 times within ten minutes: "
    )
    assert story.last.advice[0].text.startswith("Look at one of 3 members called rdkafka before anything else: ")


def test_a_rebalance_that_never_ends_is_told_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members come and go for as long as one that stays does not rejoin."""
    monkeypatch.setattr(run, "MOST_TRIGGERS", 100)
    story = Story()
    for name in ("w1", "w2"):
        story.new(name, poll_ms=200_000)
    stable("w1", "w2", story=story)
    story.leave("w2")
    for _ in range(40):
        for name in ("w3", "w4"):
            story.new(name, poll_ms=200_000)
            story.join(name)
        for name in ("w3", "w4"):
            story.leave(name)
        story.wait(1)
    running = story.last
    assert running.outcome == "running"
    assert len(running.triggers) == 100
    assert running.untold == 1 + 4 * 40 - 100
    assert len(running.members) < 60
    assert len(story.history._accounts[GROUP].run.index) < 60  # type: ignore[union-attr]
    assert "After that members came, went and changed 61 times more, which is not listed." in running.sentences
    story.join("w3")
    story.wait(200_000, beating=["w1", "w3"])
    assert ("join-barrier-missed", "w1") in {
        (one.cause, story.last.members[one.member].client_id) for one in story.last.triggers
    }
    assert story.culprit() == "w1"
    assert [one.client_id for one in story.last.members if one.fate == "returned"] == ["w3"]


class Nameless(Story):
    """All clients are on one host and have the same client id, or none."""

    def __init__(self, client_id: str = "") -> None:
        super().__init__()
        self.client_id = client_id

    def called(self, one: Consumer) -> tuple[str, str]:
        return self.client_id or "nameless", "/10.0.0.1"


def workers() -> Story:
    """Members of Kafka Connect."""
    story = Story()
    for name in ("w1", "w2", "w3"):
        story.new(name, type="connect", assignors=("sessioned", "compatible", "default"), poll_ms=60_000)
    return stable("w1", "w2", "w3", story=story)


def told_to_consumers(story: Story) -> list[str]:
    """What is advised that only consumers can do."""
    words = ("poll", "group.instance.id", "partition.assignment.strategy")
    return [
        advice.text for one in story.episodes() for advice in one.advice if any(word in advice.text for word in words)
    ]


def test_workers_are_given_no_advice_for_consumers() -> None:
    story = workers()
    for _ in range(4):
        story.leave("w3")
        story.again("w1", "w2")
        story.wait(3_000, beating=["w1", "w2"])
        story.join("w3")
        story.again("w1", "w2")
        story.sync("w3")
    assert story.last.cause == "flapping-member"
    assert not told_to_consumers(story)


def test_a_worker_that_misses_a_barrier_is_told_of_its_own_setting() -> None:
    story = workers()
    story.leave("w3")
    story.wait(2_000)
    story.join("w1")
    story.wait(60_000, beating=["w1", "w2"])
    story.wait(10)
    story.sync("w1")
    assert story.last.cause == "left-without-reason"
    assert story.culprit() == "w2"
    assert [one.setting for one in story.last.advice] == ["rebalance.timeout.ms"]
    assert not told_to_consumers(story)


def test_kafka_streams_is_not_told_to_change_its_assignor() -> None:
    story = Story()
    for name in ("w1", "w2", "w3"):
        story.new(name, assignors=("stream",))
    stable(story=story)
    story.join("w3", "w1")
    story.again("w2")
    assert story.last.stood_ms > 1_000
    assert not told_to_consumers(story)
