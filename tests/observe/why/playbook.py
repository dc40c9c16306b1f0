"""How the scenarios of the causes are listed, and the beginnings and ends that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.observe.why.story import Story


class Scenario(NamedTuple):
    """A story that ends with an episode of a class.

    Attributes:
        cause: the class; culprit: the client id that is to be named, empty for nobody.
        began: the class of what began the episode, if that is another one.
    """

    cause: str
    play: Callable[[], Story]
    culprit: str
    began: str

    @property
    def name(self) -> str:
        return self.play.__name__


SCENARIOS: list[Scenario] = []
ALL = ("w1", "w2", "w3")


def scenario(cause: str, culprit: str = "", *, began: str = "") -> Callable[[Callable[[], Story]], Callable[[], Story]]:
    """Enter a scenario into the list."""

    def enter(play: Callable[[], Story]) -> Callable[[], Story]:
        SCENARIOS.append(Scenario(cause, play, culprit, began or cause))
        return play

    return enter


def stable(*names: str, story: Story | None = None, **config: object) -> Story:
    """A group that has been Stable for a minute."""
    story = story or Story(**config)  # type: ignore[arg-type]
    names = names or ("w1", "w2")
    story.start(*names)
    story.wait(60_000, beating=names)
    return story


def again(story: Story, *names: str, after_ms: int = 2_000) -> Story:
    """They learn from their next heartbeat that the group rebalances, rejoin and sync."""
    story.wait(after_ms, beating=names)
    story.join(*names)
    story.wait(20, beating=())
    everybody = [one.name for one in story.clients.values() if one.members and one.member_id]
    story.sync(*dict.fromkeys([*everybody, *names]))
    story.wait(10)
    return story
