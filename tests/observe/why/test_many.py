"""What happens to many at once is told once, with their number."""

from __future__ import annotations

from tests.observe.why.scenarios import again, stable

NAMES = tuple(f"w{number}" for number in range(1, 10))


def test_many_that_crash() -> None:
    story = stable(*NAMES)
    for name in NAMES[1:]:
        story.disconnect(name)
    story.wait(46_000, beating=NAMES[:1])
    again(story, "w1")
    episode = story.last
    assert episode.headline.startswith("8 members crashed: their connections were lost")
    assert "(w2, w3, w4 and 5 others)" in episode.headline
    assert sum("crashed" in text for text in episode.sentences) == 1
    assert len([one for one in episode.triggers if one.cause == "session-expired-connection-lost"]) == 8


def test_many_that_own_nothing() -> None:
    story = stable(*NAMES)
    (text,) = [text for text in story.last.sentences if "own nothing" in text]
    assert "3 of 9 members own nothing: there are only 6 partitions." in text
    assert sum(" joined" in text for text in story.last.sentences) == 1


def test_a_few_are_told_one_by_one() -> None:
    story = stable("w1", "w2", "w3")
    assert sum(" joined" in text for text in story.last.sentences) == 2
    assert not any("own nothing" in text for text in story.last.sentences)
