"""Every story comes out as recorded, and each class of causes has one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.observe.why.blame import LATE_MS
from ottla.observe.why.causes import Cause
from tests.core.scenario_text import compare, read_scenarios, written
from tests.observe.why.stories import CAUSES, FILES, play, played
from tests.observe.why.stories import Cause as CauseStory

CASES = [(path, index, one.title) for path in FILES for index, one in enumerate(read_scenarios(path))]
EACH_CAUSE = pytest.mark.parametrize("one", CAUSES, ids=lambda one: one.title)


@pytest.mark.parametrize(("path", "index", "title"), CASES, ids=[f"{path.stem}: {title}" for path, _, title in CASES])
def test_story(path: Path, index: int, title: str, record: bool) -> None:
    _, outcome = play(read_scenarios(path)[index])
    compare(path, index, outcome, record=record)


@EACH_CAUSE
def test_the_cause_and_the_culprit(one: CauseStory) -> None:
    story = played(one.title)
    # The last episode in which it happened: what follows a conversion is told after it.
    *_, episode = (told for told in story.episodes() if one.cause in {trigger.cause for trigger in told.triggers})
    assert episode.cause == one.began
    assert story.culprit(episode) == one.culprit


def test_every_class_has_a_story_and_words() -> None:
    assert {one.cause for one in CAUSES} == set(Cause)
    assert len(Cause) >= 30


def test_every_story_is_told_something_of() -> None:
    for path in FILES:
        assert written(read_scenarios(path)) == path.read_text(encoding="utf-8"), path.name
        for one in read_scenarios(path):
            assert any(line.startswith(" ") for line in one.lines), one.title


@EACH_CAUSE
def test_the_accounts_of_every_story(one: CauseStory) -> None:
    for episode in played(one.title).episodes():
        assert sum(part.blamed_ms for part in episode.members) <= episode.stood_ms
        began = {trigger.member for trigger in episode.triggers}
        for at, part in enumerate(episode.members):
            if part.fate == "stayed" and 0 <= part.came_ms < LATE_MS and not part.is_leader and at not in began:
                assert not part.blamed_ms, "who only waited has a share"
