"""After a load the broker knows of no last sign of a member until it comes, and invents none."""

from __future__ import annotations

from tests.observe.why.scenarios import again, stable
from tests.observe.why.story import Story


def test_whose_session_ran_out() -> None:
    story = stable("w1", "w2")
    story.restart()
    story.wait(46_000, beating=["w1"])
    again(story, "w1")
    text = " ".join(story.last.sentences)
    assert "it was not heard of since the broker started 45.0 s before" in text
    assert "last heard of" not in text
    assert [part.heard_ms for part in story.last.members if part.fate == "expired"] == [0]
    (advice,) = story.last.advice
    assert advice.text.startswith("See whether w2 still runs")


def test_who_was_heard_of_fell_silent_then() -> None:
    story = stable("w1", "w2")
    story.restart()
    story.wait(6_000, beating=["w1", "w2"])
    story.wait(46_000, beating=["w1"])
    text = " ".join(story.last.sentences)
    assert story.culprit() == "w2"
    assert "it was last heard of 45.0 s before" in text
    assert "since the broker started" not in text


def test_who_missed_a_barrier() -> None:
    story = Story()
    for name in ("w1", "w2", "w3"):
        story.new(name, poll_ms=20_000)
    stable("w1", "w2", story=story)
    story.restart()
    story.join("w3", "w1")
    story.wait(21_000, beating=["w1", "w3"])
    story.sync("w1", "w3")
    text = " ".join(story.last.sentences)
    assert "it was not heard of since the broker started 20.0 s before" in text
    assert [advice.text[:25] for advice in story.last.advice] == ["See whether w2 still runs"]
