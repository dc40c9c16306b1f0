"""Each class of causes from a scenario: the class, who is named, and the words."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest

from ottla.observe.why.advice import advise
from ottla.observe.why.causes import Cause
from ottla.observe.why.model import Episode
from ottla.observe.why.words import tell, verdict
from tests.observe.why.scenarios import SCENARIOS, Scenario
from tests.observe.why.story import Story

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("one", SCENARIOS, ids=lambda one: one.name)
def test_the_cause_and_the_culprit(one: Scenario) -> None:
    story = one.play()
    episode = story.last
    assert episode.cause == one.began
    assert one.cause in {trigger.cause for trigger in episode.triggers}
    assert story.culprit(episode) == one.culprit


@pytest.mark.parametrize("one", SCENARIOS, ids=lambda one: one.name)
def test_the_words(one: Scenario, pytestconfig: pytest.Config) -> None:
    """The whole text of each story, as people read it; written anew with --record-stories."""
    path = GOLDEN / f"{one.name}.txt"
    text = written(one.play())
    if pytestconfig.getoption("--record-stories", default=False):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def test_every_class_has_a_scenario_and_words() -> None:
    assert {one.cause for one in SCENARIOS} == set(Cause)
    assert len(Cause) >= 30


def test_every_text_is_of_a_scenario() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {one.name for one in SCENARIOS}


def written(story: Story) -> str:
    return "\n\n".join(_written(episode, story.settings) for episode in story.episodes()) + "\n"


def _written(episode: Episode, settings: dict[str, str]) -> str:
    headline, sentences = tell(episode, UTC)
    lines = [f"{episode.kind} {episode.number} {episode.outcome}, {verdict(episode)}", headline]
    lines += [f"  {text}" for text in sentences]
    lines += [f"  > {one.text}" for one in advise(episode, settings)]
    return "\n".join(lines)
